#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: private_jemalloc.sh ARCHIVE OUT AR NM OBJCOPY
# OUT becomes a copy of jemalloc's static archive in which every name that the archive defines starts with weir__je_, and
# which has no C++ operator new: linked into a library, it overrides nothing of the process.
set -eu
archive=$1 out=$2 ar=$3 nm=$4 objcopy=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$archive" "$work/copy.a"
for member in $("$ar" t "$work/copy.a" | grep '_cpp\.' || true); do
    "$ar" d "$work/copy.a" "$member"
done
"$nm" -g --defined-only "$work/copy.a" 2>"$work/nm.err" |
    awk 'NF == 3 { print $3 " weir__je_" $3 }' | sort -u > "$work/names"
for needed in mallocx dallocx mallctl; do
    grep -q "^$needed weir__je_$needed\$" "$work/names" || {
        cat "$work/nm.err" >&2
        echo "private_jemalloc.sh: $archive does not define $needed (a build of jemalloc without its own prefix is needed)" >&2
        exit 1
    }
done
"$objcopy" --redefine-syms="$work/names" "$work/copy.a" "$out.part"
"$ar" s "$out.part"
mv "$out.part" "$out"
