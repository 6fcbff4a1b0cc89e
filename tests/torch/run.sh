#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/torch/run.sh [BUILD]      (BUILD: build folder, default build)
#
# Runs PyTorch as pip has it, a CUDA build, over the emulated driver and runtime: check.py, with expandable segments off and
# on, under the real and the virtual clock; faces.py, on weir as `pip install .` has it and on PyTorch's own allocator, under the watch. By
# hand only, never in the test run: it downloads about 1.1 GB into a
# temporary folder (3 GB), which it removes, and takes 5 minutes. torch comes without its dependencies; of NVIDIA's
# libraries only those are fetched that the CUDA toolkit (CUDA_HOME, else /usr/local/cuda) lacks or has too old.
#   TORCH=FOLDER   a virtual environment to use, made there when it is not there yet, and kept
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
EMU=$(cd "${1:-$ROOT/build}" && pwd)/lib/emu
TOOLKIT=${CUDA_HOME:-/usr/local/cuda}/lib64

for library in libcuda.so.1 libcudart.so.13 libnvidia-ml.so.1; do
    [ -e "$EMU/$library" ] || { echo "run.sh: $EMU/$library is not there: build first" >&2; exit 2; }
done
if [ -n "${TORCH:-}" ]; then
    venv=$TORCH
else
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    venv=$folder/venv
fi
"$ROOT/tests/torch/fetch.sh" "$venv"

# The only thing that a user has to do: the emulator's folder comes first.
export LD_LIBRARY_PATH=$EMU:$TOOLKIT
status=0
for clock in real virtual; do
    for expandable in False True; do
        echo "---- clock:$clock, expandable_segments:$expandable"
        WEIR_LOG=${WEIR_LOG:-error} WEIR_EMU="capacity:1G,watch:on,clock:$clock" \
            PYTORCH_CUDA_ALLOC_CONF=expandable_segments:$expandable \
            timeout 900 "$venv/bin/python" "$ROOT/tests/torch/check.py" || status=1
    done
done

echo "---- weir's faces"
[ -n "${folder:-}" ] || { folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; }
"$venv/bin/pip" install -q --disable-pip-version-check --no-deps --target "$folder/weir" "$ROOT"
export PYTHONPATH=$folder/weir WEIR_HEADERS=$ROOT/include WEIR_EMU=profile:h100,capacity:1G,watch:on WEIR_LOG=${WEIR_LOG:-error}
for mode in weir native pool late; do
    timeout 900 "$venv/bin/python" "$ROOT/tests/torch/faces.py" $mode || status=1
done
exit $status
