#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: peer_reasons.sh PYTHON build.sh: of a folder that can't be used it is said in one sentence why, with what was found and what is
# needed; nothing else is said, and the folder is left as it was.
set -u
python=$("$1" -c "import sys; print(sys.executable)") build=$2 status=0
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export PYTHONDONTWRITEBYTECODE=1

# environment NAME PACKAGE VERSION [MODULE]...: a virtual environment that has that package, and empty modules.
environment() {
    local folder=$place/$1 module
    mkdir -p "$folder/bin" "$folder/site/$2-$3.dist-info"
    printf '#!/bin/sh\nPYTHONPATH=%s exec %s -S "$@"\n' "$folder/site" "$python" > "$folder/bin/python"
    chmod +x "$folder/bin/python"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "${2/_/-}" "$3" > "$folder/site/$2-$3.dist-info/METADATA"
    for module in "${@:4}"; do
        mkdir -p "$folder/site/$module"
        : > "$folder/site/$module/__init__.py"
    done
}

# refuses PEER FOLDER SENTENCE
refuses() {
    local said got before after
    before=$(find "$place/$2" 2> "$place/none" | sort)
    said=$("$build" "$1" "$place/driver.so" "$place/$2" 2> "$place/errors")
    got=$?
    after=$(find "$place/$2" 2> "$place/none" | sort)
    [ $got -eq 1 ] || { echo "$1 $2 ends with $got" >&2; status=1; }
    [ "$said" = "${3//PLACE/$place}" ] || { echo "$1 $2 says '$said'" >&2; status=1; }
    [ ! -s "$place/errors" ] || { echo "$1 $2 says more: $(cat "$place/errors")" >&2; status=1; }
    [ "$before" = "$after" ] || { echo "$1 $2: the folder was changed" >&2; status=1; }
}

environment new librmm_cu13 26.10.0 librmm rapids_logger
environment bare librmm_cu12 25.4.0 librmm
environment good librmm_cu12 25.4.0 librmm rapids_logger
environment cpu torch 2.15.0 torch
mkdir -p "$place/plain" "$place/toolkit/include"
: > "$place/toolkit/include/cuda_runtime_api.h"
need="and 25.04 is needed, the last one that is headers alone (--rmm without a folder fetches it)"

refuses rmm new "PLACE/new has RMM 26.10.0, $need"
refuses rmm bare "PLACE/bare has RMM 25.4.0 without rapids_logger, which it needs"
refuses rmm cpu "PLACE/cpu has no RMM"
refuses rmm plain "PLACE/plain is no virtual environment: it has no bin/python"
refuses rmm nowhere "there is no folder PLACE/nowhere: expected a virtual environment that has RMM"
refuses torch new "PLACE/new has no PyTorch"
refuses torch cpu "PLACE/cpu has PyTorch 2.15.0, which is no CUDA build: it has no libc10_cuda.so"
refuses torch plain "PLACE/plain is no virtual environment: it has no bin/python"
refuses torch nowhere "there is no folder PLACE/nowhere: expected a virtual environment that has PyTorch"
CUDA_HOME=$place/nowhere refuses rmm good \
    "RMM's headers need the CUDA toolkit's, and there is no PLACE/nowhere/include/cuda_runtime_api.h (CUDA_HOME says where)"
CUDA_HOME=$place/toolkit refuses rmm good \
    "bench/peers/rmm.cc can't be built with RMM 25.4.0; what the compiler said is in PLACE/driver.so.log"
exit $status
