#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/aarch64.sh [FOLDER [ctest options]]      (FOLDER: kept between runs, default build/aarch64)
#
# Builds the library, its faces, its tools and their tests for aarch64 and runs the tests under qemu-user. By hand, on Debian, as root.
# Packages: qemu-user-static, gcc-aarch64-linux-gnu, g++-aarch64-linux-gnu. The libraries that tests link to, and the few programs that they
# start, are fetched for arm64 into FOLDER; nothing of the system's is changed: that the kernel starts arm64 programs by qemu holds
# in a name space of the run's own (Linux 6.7). Leaks are not looked for, since LeakSanitizer does not work under qemu.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "${1:-$ROOT/build/aarch64}"
FOLDER=$(cd "${1:-$ROOT/build/aarch64}" && pwd)
shift $(($# > 0))
SYSROOT=$FOLDER/sysroot
ARM64=(libcmocka0 libcmocka-dev zlib1g zlib1g-dev libzstd1 libzstd-dev dash bash libtinfo6 coreutils)
PROGRAMS="bin/dash bin/bash bin/true bin/sleep" # what tests start that also gets libraries preloaded

for tool in qemu-aarch64-static aarch64-linux-gnu-gcc aarch64-linux-gnu-g++; do
    command -v "$tool" > /dev/null || { echo "aarch64.sh: $tool is missing; see the packages in $0" >&2; exit 2; }
done

# fetch: the packages for arm64, by an index of the run's own.
fetch() {
    local own=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root -o "Dir::State=$FOLDER/apt"
        -o "Dir::State::status=$FOLDER/apt/status" -o "Dir::Cache=$FOLDER/apt")
    mkdir -p "$FOLDER/apt/lists/partial" "$FOLDER/apt/archives/partial" "$SYSROOT/lib"
    touch "$FOLDER/apt/status"
    (cd "$FOLDER/apt" && apt-get -qq "${own[@]}" update && apt-get -qq "${own[@]}" download "${ARM64[@]}")
    for package in "$FOLDER"/apt/*.deb; do dpkg -x "$package" "$SYSROOT"; done
    cp -a /usr/aarch64-linux-gnu/lib/. "$SYSROOT/lib/"
}
[ -e "$SYSROOT/lib/ld-linux-aarch64.so.1" ] || fetch

LIBRARIES=$SYSROOT/usr/lib/aarch64-linux-gnu
cmake -S "$ROOT" -B "$FOLDER" -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu \
    -DCMAKE_FIND_ROOT_PATH="$SYSROOT;/usr/aarch64-linux-gnu" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
    -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
    "-DCMAKE_C_FLAGS=-isystem $SYSROOT/usr/include" "-DCMAKE_CXX_FLAGS=-isystem $SYSROOT/usr/include" \
    "-DCMAKE_EXE_LINKER_FLAGS=-L$LIBRARIES -Wl,-rpath-link=$LIBRARIES" \
    "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -g" -DWEIR_CORE_ONLY=ON -DWEIR_CUDA=OFF -DWEIR_HAS_LEAK_SANITIZER=OFF \
    -DWEIR_NVCC=OFF > "$FOLDER/cmake.log"
cmake --build "$FOLDER" > "$FOLDER/build.log" || { tail -40 "$FOLDER/build.log" >&2; exit 1; }

# in_name_space COMMAND ...: all users of the system are in it, so that tests may change to others.
in_name_space() {
    local pid users
    exec 3>&1 4>&2
    coproc {
        exec unshare --user --mount sh -c '
            set -e
            echo ready && read -r go
            mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
            cat /usr/lib/binfmt.d/qemu-aarch64.conf > /proc/sys/fs/binfmt_misc/register
            for program in $PROGRAMS; do mount --bind "$SYSROOT/$program" "/$program"; done
            exec "$@" >&3 2>&4 3>&- 4>&-' sh "$@"
    }
    pid=$COPROC_PID
    read -r _ <&"${COPROC[0]}"
    for users in uid_map gid_map; do echo "0 0 65536" > "/proc/$pid/$users"; done
    echo go >&"${COPROC[1]}"
    wait "$pid"
}
export SYSROOT PROGRAMS QEMU_LD_PREFIX=$SYSROOT
# Emulation takes some ten times as long.
find "$FOLDER" -name CTestTestfile.cmake -exec sed -i 's/TIMEOUT "[0-9]*"/TIMEOUT "3600"/' {} +
# The system's Python can't load these libraries.
in_name_space ctest --test-dir "$FOLDER" --output-on-failure -E python_faces_test "$@"
