#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: installed_client.sh PREFIX EXAMPLE FOLDER: builds the example against the installed tree twice, by CMake package
# and by pkg-config, and runs both on the emulated device. Asks the installed programs for what needs no run.
set -eu
prefix=$1 example=$2 folder=$3
mkdir -p "$folder"
cmake -S "$example" -B "$folder/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" > "$folder/log" 2>&1 &&
    cmake --build "$folder/cmake" >> "$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
[ -f "$prefix/share/weir/configs/demo.yaml" ] || { echo "the installed weir-demo has no job to run" >&2; exit 1; }
PKG_CONFIG_PATH=$(find "$prefix" -name pkgconfig -type d)
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir weir)
# shellcheck disable=SC2046
cc -Wall -Werror "$example/link.c" -o "$folder/by-pkg-config" $(pkg-config --cflags --libs weir) "-Wl,-rpath,$libdir"
# The programs find what was installed for them.
"$prefix/bin/weir-train" --config="$prefix/share/weir/configs/demo.yaml" --dump-config > "$folder/dump"
"$prefix/bin/weir-replay" --help > "$folder/help"
for program in "$folder/cmake/link" "$folder/by-pkg-config"; do
    WEIR_DEVICE=emulated "$program"
done
