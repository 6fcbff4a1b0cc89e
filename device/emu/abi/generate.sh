#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: generate.sh [TOOLKIT]        (default /usr/local/cuda)
# A maintainer's tool: reads which names the CUDA driver exports, and which of them serves which version of which
# entry, from the Toolkit's stub library and headers, and rewrites names.h and versions.h beside this script. The build
# reads only those. Needs nm and awk. Run it when a new Toolkit comes, and look at the difference.
set -eu
toolkit=${1:-/usr/local/cuda}
here=$(cd "$(dirname "$0")" && pwd)
stub=$toolkit/lib64/stubs/libcuda.so
for file in "$stub" "$toolkit/include/cuda.h" "$toolkit/include/cudaTypedefs.h" "$toolkit/include/cudaProfilerTypedefs.h"; do
    [ -r "$file" ] || { echo "generate.sh: no $file" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(awk '$1 == "#define" && $2 == "CUDA_VERSION" { print $3; exit }' "$toolkit/include/cuda.h")
export LC_ALL=C

# Every name: cuMemcpyHtoD_v2_ptds is edition 2, per thread, of cuMemcpyHtoD.
nm -D --defined-only "$stub" | awk '$2 == "T" && $3 ~ /^cu[A-Z]/ { sub(/@.*/, "", $3); print $3 }' | sort >"$work/names"
# Every version of an entry's type: PFN_cuMemcpyHtoD_v7000_ptds.
cat "$toolkit/include/cudaTypedefs.h" "$toolkit/include/cudaProfilerTypedefs.h" |
    awk '{ while (match($0, /\*PFN_cu[A-Za-z0-9_]+/)) { print substr($0, RSTART + 5, RLENGTH - 5); $0 = substr($0, RSTART + RLENGTH) } }' |
    sort -u >"$work/types"

# The n-th version of a type belongs to the n-th edition of the name; both count apart for the per-thread variants.
# Where cuda.h says with a #define which edition is the newest, that is checked.
awk '
    function split_name(text, mark,    at) {
        thread = "EMU_PLAIN"
        if (text ~ /_ptds$|_ptsz$/) { thread = "EMU_PER_THREAD"; text = substr(text, 1, length(text) - 5) }
        number = mark == "symbol" ? 1 : 0
        if (match(text, /_v[0-9]+$/)) { number = substr(text, RSTART + 2) + 0; text = substr(text, 1, RSTART - 1) }
        key = text " " thread
        base = text
    }
    FILENAME ~ /names$/ { split_name($1, "symbol"); symbols[key, number] = $1; if (number > editions[key]) editions[key] = number; next }
    FILENAME ~ /types$/ { split_name($1, "type"); count[key]++; versions[key, count[key]] = number; keys[key] = 1; next }
    $1 == "#define" && $2 ~ /^cu[A-Z]/ && $3 ~ /cu[A-Z]/ {
        newest = $3; sub(/^__CUDA_API_PT[SD][SZ]\(/, "", newest); sub(/\).*/, "", newest)
        if (newest ~ "^" $2 "_v[0-9]+$") wanted[$2 " EMU_PLAIN"] = newest
    }
    END {
        for (key in keys) {
            n = count[key]
            for (i = 2; i <= n; i++) # ascending; few
                for (j = i; j > 1 && versions[key, j] < versions[key, j - 1]; j--) {
                    kept = versions[key, j]; versions[key, j] = versions[key, j - 1]; versions[key, j - 1] = kept
                }
            split(key, part, " ")
            for (i = 1; i <= n; i++) if (!((key, i) in symbols)) break
            if (editions[key] + 0 == n && i > n) {
                for (i = 1; i <= n; i++) printf "%s %s %d %s\n", part[1], part[2], versions[key, i], symbols[key, i]
            } else if (n == 1 && editions[key] > 0) { # only the newest edition has a variant, e.g. cuMemcpyHtoD_v2_ptds
                printf "%s %s %d %s\n", part[1], part[2], versions[key, 1], symbols[key, editions[key]]
            } else {
                printf "generate.sh: %s: %d versions of the type, editions up to %d\n", key, n, editions[key] > "/dev/stderr"
                bad = 1
            }
            if (key in wanted && wanted[key] != symbols[key, editions[key]]) {
                printf "generate.sh: %s: cuda.h says %s\n", key, wanted[key] > "/dev/stderr"
                bad = 1
            }
        }
        for (key in editions) if (!(key in keys)) {
            printf "generate.sh: %s: a name without a type\n", key > "/dev/stderr"
            bad = 1
        }
        exit bad
    }' "$work/names" "$work/types" "$toolkit/include/cuda.h" >"$work/rows"
sort -k1,1 -k2,2 -k3,3n "$work/rows" >"$work/versions"

head() {
    printf '/* SPDX-License-Identifier: Apache-2.0 */\n'
    printf '/* Made by generate.sh from CUDA %d.%d: not to be edited. %s */\n' $((version / 1000)) $((version % 1000 / 10)) "$1"
}
{
    head 'Every name that the CUDA driver exports, in order.'
    echo '/* X(symbol) */'
    echo '#define EMU_NAME_LIST(X)'
    awk '{ printf "    X(%s)\n", $1 }' "$work/names"
} >"$work/names.raw"
{
    head 'Which exported name serves an entry from which CUDA version on;
 * in the order of names, then variants, then versions.'
    echo '/* X(entry, variant, version, symbol) */'
    echo "#define EMU_TOOLKIT_VERSION $version"
    echo '#define EMU_VERSION_LIST(X)'
    awk '{ printf "    X(%s, %s, %d, %s)\n", $1, $2, $3, $4 }' "$work/versions"
} >"$work/versions.raw"
for list in names versions; do # the macro's lines end in a backslash, all but the last
    awk 'seen && held != "" { print held " \\" } !seen && held != "" { print held } { held = $0 } /LIST\(X\)$/ { seen = 1 } END { print held }' \
        "$work/$list.raw" >"$here/$list.h"
done
echo "generate.sh: CUDA $version: $(wc -l <"$work/names") names, $(wc -l <"$work/versions") versions" >&2
