#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/torch/run.sh [BUILD]      (BUILD: build folder, default build)
#
# Runs PyTorch as pip has it, a CUDA build, over the emulated driver and runtime: check.py, with expandable segments off and
# on, under the real and the virtual clock. By hand only, never in the test run: it downloads about 1.1 GB into a
# temporary folder (3 GB), which it removes, and takes 5 minutes. torch comes without its dependencies; of NVIDIA's
# libraries only those are fetched that the CUDA toolkit (CUDA_HOME, else /usr/local/cuda) lacks or has too old.
#   TORCH=FOLDER   a virtual environment to use, made there when it is not there yet, and kept
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
EMU=$(cd "${1:-$ROOT/build}" && pwd)/lib/emu
TOOLKIT=${CUDA_HOME:-/usr/local/cuda}/lib64
VERSION=2.15.0 # what the packages below belong to

# soname: the package that has it, in the version that torch asks for
LIBRARIES="libcublas.so.13 nvidia-cublas
libcudnn.so.9 nvidia-cudnn-cu13==9.26.0.51
libcufft.so.12 nvidia-cufft
libcupti.so.13 nvidia-cuda-cupti
libcusolver.so.12 nvidia-cusolver
libcusparse.so.12 nvidia-cusparse
libnvJitLink.so.13 nvidia-nvjitlink
libnvrtc.so.13 nvidia-cuda-nvrtc
libcufile.so.0 nvidia-cufile
libcusparseLt.so.0 nvidia-cusparselt-cu13==0.8.1
libnvshmem_host.so.3 nvidia-nvshmem-cu13==3.7.2"
PACKAGES=(nvidia-nccl-cu13==2.30.7) # torch needs entries that the toolkit's may lack

for library in libcuda.so.1 libcudart.so.13 libnvidia-ml.so.1; do
    [ -e "$EMU/$library" ] || { echo "run.sh: $EMU/$library is not there: build first" >&2; exit 2; }
done
while read -r soname package; do
    [ -e "$TOOLKIT/$soname" ] || PACKAGES+=("$package")
done <<< "$LIBRARIES"

if [ -n "${TORCH:-}" ]; then
    venv=$TORCH
else
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    venv=$folder/venv
fi
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
    echo "run.sh: fetching torch $VERSION and ${PACKAGES[*]}"
    "$venv/bin/pip" install -q --disable-pip-version-check --no-cache-dir --no-deps \
        typing-extensions "torch==$VERSION" "${PACKAGES[@]}"
fi

# The only thing that a user has to do: the emulator's folder comes first.
export LD_LIBRARY_PATH=$EMU:$TOOLKIT
status=0
for clock in real virtual; do
    for expandable in False True; do
        echo "---- clock:$clock, expandable_segments:$expandable"
        WEIR_LOG=${WEIR_LOG:-error} WEIR_EMU="capacity:1G,watch:on,clock:$clock" \
            PYTORCH_CUDA_ALLOC_CONF=expandable_segments:$expandable \
            timeout 300 "$venv/bin/python" "$ROOT/tests/torch/check.py" || status=1
    done
done
exit $status
