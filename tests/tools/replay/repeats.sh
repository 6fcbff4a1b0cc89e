#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# repeats.sh WEIR_TRACE WEIR_REPLAY: dense training on 1.02 x its peak, from the third of the same iterations on (the first makes what lasts),
# makes no memory call and no host wait; and before it does make some, else it would be too easy.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for family in gpt-dense gpt-dense-ac; do
    "$1" gen "$family" --iters 6 -o "$folder/run.trace" 2>"$folder/said"
    for from in 3 4; do
        "$2" "$folder/run.trace" --capacity 1.02x --law page --steady-from "$from" --json="$folder/$from"
        calls=$(sed -n 's/.*"memory_calls_steady":\([0-9]*\).*/\1/p' "$folder/$from")
        waits=$(sed -n 's/.*"host_waits_steady":\([0-9]*\).*/\1/p' "$folder/$from")
        echo "$family from iteration $from on: $calls memory calls, $waits host waits"
        test "$waits" -eq 0
        if [ "$from" -eq 3 ]; then test "$calls" -gt 0; else test "$calls" -eq 0; fi
    done
done
