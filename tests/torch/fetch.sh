#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tests/torch/fetch.sh DIR      makes DIR a virtual environment with PyTorch as pip has it, a CUDA build, unless it is one
#
# Downloads about 1.1 GB and keeps 3 GB. torch comes without its dependencies; of NVIDIA's libraries only those are
# fetched that the CUDA toolkit (CUDA_HOME, else /usr/local/cuda) lacks or has too old.
set -euo pipefail

venv=$1
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

has_torch() { "$venv/bin/python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null; }
! has_torch || exit 0
while read -r soname package; do
    [ -e "$TOOLKIT/$soname" ] || PACKAGES+=("$package")
done <<< "$LIBRARIES"
python3 -m venv "$venv"
echo "fetch.sh: fetching torch $VERSION and ${PACKAGES[*]} into $venv (downloads about 1.1 GB, keeps 3 GB)"
"$venv/bin/pip" install -q --disable-pip-version-check --no-cache-dir --no-deps \
    typing-extensions "torch==$VERSION" "${PACKAGES[@]}"
