#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/faces/run.sh [BUILD]      (BUILD: build folder, default build)
#
# Runs CuPy, RMM and Numba as pip has them on weir, over the emulated driver: packages.py, examples/numba, and examples/rmm against RMM's
# headers. By hand only, never in the test run: it downloads about 250 MB into a temporary folder (600 MB), which it removes.
# weir/rmm.hpp needs the CUDA toolkit's headers (CUDA_HOME, else /usr/local/cuda); without them it is left out, which is said.
#   PACKAGES=FOLDER   a virtual environment to use, made there when it is not there yet, and kept
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$(cd "${1:-$ROOT/build}" && pwd)
CUDA=${CUDA_HOME:-/usr/local/cuda}
[ -e "$BUILD/lib/emu/libcuda.so.1" ] || { echo "run.sh: $BUILD/lib/emu/libcuda.so.1 is not there: build first" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
venv=${PACKAGES:-$folder/venv}
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check --no-cache-dir cupy-cuda13x==14.2.0 rmm-cu13==26.10.0 numba-cuda==0.30.4
fi
"$venv/bin/pip" install -q --disable-pip-version-check --no-deps --target "$folder/weir" "$ROOT"

export LD_LIBRARY_PATH=$BUILD/lib/emu WEIR_EMU=profile:h100,capacity:1G,watch:on WEIR_LOG=${WEIR_LOG:-error} PYTHONPATH=$folder/weir
status=0
timeout 120 "$venv/bin/python" "$ROOT/tests/faces/packages.py" || status=1
timeout 120 "$venv/bin/python" "$ROOT/examples/numba/on_weir.py" || status=1

packages=$("$venv/bin/python" -c 'import librmm, os; print(os.path.dirname(os.path.dirname(librmm.__file__)))')
if [ -f "$CUDA/include/cuda_runtime_api.h" ]; then
    c++ -std=c++17 -O1 -Wall -Wextra -Werror "$ROOT/examples/rmm/rmm.cc" -o "$folder/rmm" -I"$ROOT/include" \
        -isystem "$packages/librmm/include/rapids" -isystem "$packages/librmm/include" -isystem "$CUDA/include" \
        -L"$BUILD/lib" -lweir -L"$packages/librmm/lib64" -lrmm -L"$packages/rapids_logger/lib64" -lrapids_logger \
        -L"$BUILD/lib/emu" -l:libcudart.so.13 "-Wl,-rpath,$BUILD/lib:$packages/librmm/lib64:$packages/rapids_logger/lib64" &&
        timeout 60 "$folder/rmm" || status=1
else
    echo "SKIPPED: weir/rmm.hpp: no CUDA headers in $CUDA/include"
fi
exit $status
