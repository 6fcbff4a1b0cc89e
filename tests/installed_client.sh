#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: installed_client.sh PREFIX EXAMPLES FOLDER: builds the examples against the installed tree, by CMake package and (link,
# streams) by pkg-config, and runs them on the emulated device. Asks the installed programs for what needs no run.
set -eu
prefix=$1 examples=$2 folder=$3
mkdir -p "$folder"
for example in link streams watch; do
    cmake -S "$examples/$example" -B "$folder/$example" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" > "$folder/log" 2>&1 &&
        cmake --build "$folder/$example" >> "$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
done
[ -f "$prefix/share/weir/configs/demo.yaml" ] || { echo "the installed weir-demo has no job to run" >&2; exit 1; }
PKG_CONFIG_PATH=$(find "$prefix" -name pkgconfig -type d)
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir weir)
# shellcheck disable=SC2046
cc -Wall -Werror "$examples/streams/streams.c" -o "$folder/streams-by-pkg-config" $(pkg-config --cflags --libs weir) "-Wl,-rpath,$libdir"
# The tree may be moved.
cp -r "$prefix" "$folder/moved"
moved=$(PKG_CONFIG_PATH=$(find "$folder/moved" -name pkgconfig -type d) pkg-config --variable=libdir weir)
case $moved in "$folder"/moved/*) ;; *) echo "weir.pc of a moved tree says $moved" >&2; exit 1 ;; esac
[ -f "$moved/libweir.so" ] || { echo "there is no library in $moved" >&2; exit 1; }
rm -rf "$folder/moved"
# The runtime is the toolkit's where there is one, else the emulated one; a second build never sees a toolkit.
emu=$libdir/weir/emu
cmake -S "$examples/link" -B "$folder/link-bare" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON > "$folder/log" 2>&1 &&
    cmake --build "$folder/link-bare" >> "$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
# shellcheck disable=SC2046
cc -Wall -Werror "$examples/link/link.c" -o "$folder/link-by-pkg-config" $(pkg-config --cflags --libs weir) \
    "-Wl,-rpath,$libdir" "$emu/libcudart.so.13"
for program in "$folder/link/link" "$folder/link-bare/link" "$folder/link-by-pkg-config"; do
    LD_LIBRARY_PATH=$emu "$program"
done
for program in weir-run weir-replay weir-trace weir-stress; do
    [ -f "$prefix/share/man/man1/$program.1" ] || { echo "the man page of $program is not installed" >&2; exit 1; }
done
# The programs find what was installed for them.
"$prefix/bin/weir-train" --config="$prefix/share/weir/configs/demo.yaml" --dump-config > "$folder/dump"
"$prefix/bin/weir-replay" --help > "$folder/help"
cat > "$folder/plain.c" <<'END'
int cudaMalloc(void **block, unsigned long bytes), cudaFree(void *block);
int main(void) {
    void *block;
    return cudaMalloc(&block, 4096) != 0 || cudaFree(block) != 0;
}
END
cc "$folder/plain.c" -o "$folder/plain" "$emu/libcudart.so.13"
"$prefix/bin/weir-run" --device=emulated -- "$folder/plain" 2> "$folder/told"
grep -q '1 allocation and 1 free took' "$folder/told" || { cat "$folder/told" >&2; exit 1; }
for program in "$folder/streams/streams" "$folder/streams-by-pkg-config"; do
    WEIR_DEVICE=emulated "$program"
done
export WEIR_DEVICE=emulated WEIR_EMU=watch:on WEIR_LOG=warn
"$folder/watch/watch" 2> "$folder/missing"
grep -q 'race: "set"' "$folder/missing" || { echo "the watch did not see the missing wait" >&2; exit 1; }
"$folder/watch/watch" --wait 2> "$folder/waited"
[ ! -s "$folder/waited" ] || { cat "$folder/waited" >&2; exit 1; }
