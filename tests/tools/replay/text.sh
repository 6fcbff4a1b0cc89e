#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: text.sh WEIR_TRACE WEIR_REPLAY
# Where weir-replay's text goes, and what it says where it can't go there.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trace=$folder/run.trace
export LC_ALL=C COLUMNS=70

fail() {
    echo "text.sh: $*" >&2
    exit 1
}

# status: what is expected of it; the rest: its options
replay() {
    expected=$1
    shift
    "$replay" "$trace" "$@" >"$folder/out" 2>"$folder/err"
    status=$?
    test "$status" = "$expected" || fail "status $status for $*: $(cat "$folder/err")"
}

replay=$2
"$1" gen gpt-dense --iters 2 -o "$trace" 2>/dev/null || fail "no trace"

replay 0 --timeline-text
grep -q '^# live  ' "$folder/out" || fail "no chart on standard output"
grep -q '^It fits' "$folder/out" || fail "no answer after it"
test "$(awk '/^# live/ { exit } NR > 2 && length > most { most = length } END { print most }' "$folder/out")" = 70 || fail "not as wide as COLUMNS"

replay 0 --timeline-text="$folder/text" --timeline "$folder/page.html" --json
grep -q '^# live  ' "$folder/text" || fail "no chart in its file"
grep -q '^# live  ' "$folder/out" && fail "a chart on standard output too"
grep -q '</html>' "$folder/page.html" || fail "no page beside it"

replay 2 --timeline-text="$trace"
grep -q 'would overwrite the trace' "$folder/err" || fail "it is not said what would be overwritten"
replay 1 --timeline-text="$folder/none/text"
grep -q "$folder/none/text" "$folder/err" || fail "it is not said what can't be written"
"$replay" "$trace" --timeline-text >/dev/full 2>"$folder/err" && fail "success on a full device"
test -s "$folder/err" || fail "nothing is said of a full device"
exit 0
