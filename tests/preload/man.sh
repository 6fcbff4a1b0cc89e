#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: man.sh PROGRAM PAGE: the page has the options that --help has, and no others; groff, where there is one, has no complaint.
program=$1 page=$2 status=0
wrong() { echo "$*" >&2; status=1; }

helped=$("$program" --help | grep -o '^  --[a-z-]*' | tr -d ' ' | sort)
paged=$(sed -n '/^\.SH OPTIONS/,/^\.SH EXIT/p' "$page" | sed 's/\\-/-/g' | grep -A1 '^\.T[PQ]' | grep -o ' --[a-z][a-z-]*' | tr -d ' ' | sort)
[ -n "$helped" ] || wrong "--help has no options"
[ "$helped" = "$paged" ] || wrong "--help has
$helped
the page has
$paged"
if command -v groff > /dev/null; then
    said=$(groff -man -ww -z -Tascii "$page" 2>&1)
    [ -z "$said" ] || wrong "$said"
fi
exit $status
