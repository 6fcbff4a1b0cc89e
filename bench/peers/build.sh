#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: bench/peers/build.sh torch|rmm LIBRARY [DIR]
#
# Builds a peer's driver against the package in the virtual environment DIR, which is only read; without DIR in build/torch or build/rmm,
# which is made where it is not there. Gives the package's name and version on standard output; or, with status 1, one
# sentence that says why there is no driver. What pip and the compiler said is in LIBRARY.log.
set -euo pipefail

if [ $# -lt 2 ] || [ $# -gt 3 ] || { [ "$1" != torch ] && [ "$1" != rmm ]; }; then
    echo "usage: bench/peers/build.sh torch|rmm LIBRARY [DIR]" >&2
    exit 2
fi
peer=$1 library=$2 named=${3:-}
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CUDA=${CUDA_HOME:-/usr/local/cuda}
RMM_PACKAGES=(librmm-cu12==25.4.0 rapids-logger==0.1.19) # 25.04: the last release that is headers alone
folder=${named:-$ROOT/build/$peer}
log=$library.log
: > "$log"

give_up() { echo "$1"; exit 1; }

# What a module's package is and where it lies; nothing is imported. A package is called as its module is, or with -cuNN behind.
LOOK='
import importlib.metadata, importlib.util, re, sys
spec = importlib.util.find_spec(sys.argv[1])
if spec is None or not spec.submodule_search_locations:
    sys.exit(1)
named = re.compile(re.escape(sys.argv[1]) + "(-cu[0-9]+)?$")
versions = [d.version for d in importlib.metadata.distributions() if named.match((d.metadata["Name"] or "").replace("_", "-"))]
print(versions[0] if versions else "of an unknown version", spec.submodule_search_locations[0], sep="\t")'

# look MODULE: sets `version` and `place`; false: it is not there.
look() {
    local said
    said=$("$folder/bin/python" -c "$LOOK" "$1" 2>> "$log") || return 1
    IFS=$'\t' read -r version place <<< "$said"
}

# need_folder NAME: a folder that a person named is a virtual environment that has the package.
need_folder() {
    [ -n "$named" ] || return 0
    [ -d "$folder" ] || give_up "there is no folder $folder: expected a virtual environment that has $1"
    [ -x "$folder/bin/python" ] || give_up "$folder is no virtual environment: it has no bin/python"
}

need_toolkit() {
    [ -f "$CUDA/include/cuda_runtime_api.h" ] ||
        give_up "$1's headers need the CUDA toolkit's, and there is no $CUDA/include/cuda_runtime_api.h (CUDA_HOME says where)"
}

# compile NAME ARGUMENTS
compile() {
    local name=$1
    shift
    c++ -O2 -fPIC -shared "$@" -o "$library" >> "$log" 2>&1 ||
        give_up "bench/peers/$peer.cc can't be built with $name; what the compiler said is in $log"
}

build_torch() {
    need_folder PyTorch
    [ -n "$named" ] || "$ROOT/tests/torch/fetch.sh" "$folder" >&2 2>> "$log" || give_up "PyTorch can't be fetched; what pip said is in $log"
    look torch || give_up "$folder has no PyTorch"
    [ -e "$place/lib/libc10_cuda.so" ] || give_up "$folder has PyTorch $version, which is no CUDA build: it has no libc10_cuda.so"
    need_toolkit PyTorch
    compile "PyTorch $version" -std=c++20 -isystem "$place/include" -isystem "$CUDA/include" "$ROOT/bench/peers/torch.cc" \
        -L"$place/lib" -lc10_cuda -lc10 "-Wl,-rpath,$place/lib"
    echo "PyTorch $version"
}

fetch_rmm() {
    ! { look librmm && look rapids_logger; } || return 0
    echo "build.sh: fetching ${RMM_PACKAGES[*]} into $folder (downloads 4 MB, keeps 42 MB)" >&2
    { python3 -m venv "$folder" && "$folder/bin/pip" install -q --disable-pip-version-check --no-cache-dir --no-deps "${RMM_PACKAGES[@]}"; } \
        >> "$log" 2>&1 || give_up "RMM can't be fetched; what pip said is in $log"
}

build_rmm() {
    local rmm release
    need_folder RMM
    [ -n "$named" ] || fetch_rmm
    look librmm || give_up "$folder has no RMM"
    rmm=$place/include release=$version
    case $release in
    25.4 | 25.4.*) ;;
    *) give_up "$folder has RMM $release, and 25.04 is needed, the last one that is headers alone (--rmm without a folder fetches it)" ;;
    esac
    look rapids_logger || give_up "$folder has RMM $release without rapids_logger, which it needs"
    need_toolkit RMM
    compile "RMM $release" -std=c++17 -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE -isystem "$rmm/rapids/libcudacxx" \
        -isystem "$rmm/rapids" -isystem "$rmm" -isystem "$place/include" -isystem "$CUDA/include" "$ROOT/bench/peers/rmm.cc" \
        -L"$place/lib64" -lrapids_logger "-Wl,-rpath,$place/lib64" -L"$(dirname "$library")/../lib/emu" -l:libcudart.so.13
    echo "RMM $release"
}

"build_$peer"
