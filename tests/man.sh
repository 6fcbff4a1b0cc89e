#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: man.sh PROGRAM PAGE [COMMAND...]: the page has the options that --help has, and no others. Those of a COMMAND are below
# its own heading in the page; the page says --help once for all. groff, where there is one, has no complaint.
program=$1 page=$2 status=0
shift 2
wrong() { echo "$*" >&2; status=1; }

# "-o, --output FILE    text" is -o and --output.
helped() {
    # shellcheck disable=SC2086
    "$program" $1 --help | sed -n 's/^  -/-/p' | sed 's/  .*//' | grep -oE '(^| )--?[a-z][a-z-]*' | tr -d ' ' | sort
}
# The line behind .TP or .TQ names options.
paged() {
    sed 's/\\-/-/g' "$page" | awk -v part="$1" '
        /^\.S[HS] / { heading = /^\.SH/ ? "" : $2; if (/^\.SH/) inside = $2 == "OPTIONS"; next }
        tagged && inside && heading == part { print }
        { tagged = /^\.T[PQ]/ }' | grep -oE ' --?[a-z][a-z-]*' | tr -d ' ' | sort
}
compare() {
    [ -n "$2" ] || wrong "$1 --help has no options"
    [ "$2" = "$3" ] || wrong "$1 --help has
$2
the page has
$3"
}

compare "" "$(helped)" "$(paged)"
for command; do
    compare "$command" "$(helped "$command" | grep -vx -e --help)" "$(paged "$command")"
done
if command -v groff > /dev/null; then
    said=$(groff -man -ww -z -Tascii "$page" 2>&1)
    [ -z "$said" ] || wrong "$said"
fi
exit $status
