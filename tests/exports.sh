#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: exports.sh LIBRARY LIST: the library's visible functions and data are exactly the names in LIST.
set -eu
shown=$(nm -D --defined-only "$1" | awk '$2 ~ /[TDBRVWi]/ { sub(/@.*/, "", $3); print $3 }' |
    grep -vE '^(_init|_fini|__asan_|__odr_asan|__tsan_|_edata|_end|__bss_start)' | sort)
wanted=$(grep -E '^[a-z_]' "$2" | sort)
[ -n "$wanted" ] || { echo "exports.sh: $2 lists nothing" >&2; exit 1; }
if [ "$shown" != "$wanted" ]; then
    printf '%s\n' "$shown" > "${TMPDIR:-/tmp}/shown.$$"
    printf '%s\n' "$wanted" | diff -u - "${TMPDIR:-/tmp}/shown.$$" >&2 || true
    rm -f "${TMPDIR:-/tmp}/shown.$$"
    echo "exports.sh: $1 does not export exactly what $2 lists" >&2
    exit 1
fi
