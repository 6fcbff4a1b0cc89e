#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All checks that a device takes part in, in under 8 minutes; a compiler and CMake alone are needed. The device's
# settings (clocks, modes, partitions, persistence) are left as they are.
# shellcheck disable=SC2317 # the checks are called by name
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
FOLDER=$ROOT/build/gpu
SECONDS_IN_ALL=480
DRIVER=
EMULATED=no
OPTIONS=()

usage() {
    cat <<'END'
usage: tests/gpu/run.sh [options]

  --emulated      on the emulated driver, which is built for it
  --driver=FILE   on this driver (else the system's libcuda.so.1)
  --verbose       a line for each case of the conformance suite
  --help

Builds in build/gpu. What each check says is kept there: NAME.log, and conformance.json, device.profile.
Exit status: 0 all passed, 1 some failed, 2 bad input or no device.
END
}

die() { printf 'tests/gpu/run.sh: %s\n' "$1" >&2; exit "${2:-1}"; }

for argument in "$@"; do
    case $argument in
    --emulated) EMULATED=yes ;;
    --driver=?*) DRIVER=${argument#--driver=} ;;
    --verbose) OPTIONS+=(--verbose) ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; die "unknown option '$argument'" 2 ;;
    esac
done
if [ "$EMULATED" = yes ] && [ -n "$DRIVER" ]; then die "--emulated and --driver name two drivers" 2; fi
if [[ $DRIVER == */* && $DRIVER != /* ]]; then DRIVER=$PWD/$DRIVER; fi

# ---- the checks ---------------------------------------------------------------------------------------------------

# A check is a line here and a function check_NAME, which says what it found on standard output; its last line is shown
# in the table. It may use $DRIVER and the programs in $FOLDER/core/bin.
CHECKS="conformance: the driver does what the documentation says
profile: weir-profile measures the device
static: weir serves a program with a static runtime"

check_conformance() {
    # Skips are said in the log; on a machine with one device the cases about peers are among them.
    # shellcheck disable=SC2086
    "$FOLDER/bin/conformance" --driver="$DRIVER" --json="$FOLDER/conformance.json" $CASES
}

check_profile() {
    "$FOLDER/core/bin/weir-profile" --out "$FOLDER/device.profile"
    echo "wrote build/gpu/device.profile"
}

# The program's own words are the same with weir and without, and all that it allocates and frees is counted as served.
check_static() {
    local program=$FOLDER/bin/static_runtime preload=$FOLDER/static.json alone with
    local library=$FOLDER/core/lib/libweir-preload.so.0 summary=$FOLDER/static.summary
    if [ "$EMULATED" = yes ]; then program=$FOLDER/shared_runtime; fi
    if [ ! -x "$program" ]; then echo "SKIPPED: there is no libcudart_static.a here"; return 0; fi
    alone=$("$program")
    echo "$alone"
    with=$("$FOLDER/core/bin/weir-run" --quiet --host=pool --json="$preload" -- "$program")
    [ "$with" = "$alone" ] || { printf 'with weir-run:\n%s\n' "$with"; return 1; }
    served "$preload" "$alone"
    : > "$summary"
    with=$(LD_PRELOAD=$library WEIR_RUN_SUMMARY=$summary WEIR_PRELOAD=host:pool "$program")
    [ "$with" = "$alone" ] || { printf 'with LD_PRELOAD:\n%s\n' "$with"; return 1; }
    served "$summary" "$alone"
    if [ "$EMULATED" = yes ]; then echo "as without it, over the emulated runtime, which is shared"; else echo "as without it"; fi
}

# served FILE WORDS: the counts in the file are those of the words' last line.
served() {
    local said counted
    said=$(tail -n 1 <<< "$2")
    counted="$(($(count "$1" plain_allocs) + $(count "$1" stream_allocs))) allocations, "
    counted+="$(($(count "$1" plain_frees) + $(count "$1" stream_frees))) frees, $(count "$1" host_allocs) pinned"
    [ "$counted" = "$said" ] || { echo "counted: $counted"; return 1; }
    [ "$(count "$1" host_frees)" = "$(count "$1" host_allocs)" ]
}

count() { grep -o "\"$2\":[0-9]*" "$1" | head -n 1 | grep -o '[0-9]*$'; }

# ---- building -----------------------------------------------------------------------------------------------------

# build FOLDER SOURCE TARGETS [cmake options]: quietly; the log is shown when it fails.
build() {
    local folder=$1 source=$2 targets
    read -ra targets <<< "$3"
    shift 3
    mkdir -p "$folder"
    local log="$folder/build.log"
    if ! { cmake -S "$source" -B "$folder" "$@" && cmake --build "$folder" --target "${targets[@]}" --parallel "$(nproc)"; } \
        > "$log" 2>&1; then
        cat "$log" >&2
        die "building $source failed; the log is $log"
    fi
}

build "$FOLDER" "$ROOT/tests/gpu" all
build "$FOLDER/core" "$ROOT" "weir-profile weir-run" -DWEIR_CORE_ONLY=ON -DWEIR_TESTS=OFF -DWEIR_CUDA=OFF

if [ "$EMULATED" = yes ]; then
    DRIVER=$FOLDER/core/lib/emu/libcuda.so.1
    export WEIR_DEVICE=emulated WEIR_EMU=${WEIR_EMU:-devices:2}
    OPTIONS+=(--no-skips)
    cc -std=c17 -D_GNU_SOURCE -DRT_MAJOR=13 -I"$ROOT" -I"$ROOT/include" "$ROOT/tests/gpu/static_runtime.c" \
        "$FOLDER/core/lib/emu/libcudart.so.13" -Wl,-rpath,"$FOLDER/core/lib/emu" -o "$FOLDER/shared_runtime"
else
    DRIVER=${DRIVER:-libcuda.so.1}
    export WEIR_DEVICE=cuda
    if [[ $DRIVER == */* ]]; then
        LD_LIBRARY_PATH=$(dirname "$DRIVER")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        export LD_LIBRARY_PATH
    fi
fi

# ---- running ------------------------------------------------------------------------------------------------------

status=0
table=$(printf '%-14s %-8s %8s  %s' check result seconds 'what it says last')
SECONDS=0
while IFS= read -r line; do
    name=${line%%: *}
    began=$SECONDS
    left=$((SECONDS_IN_ALL - SECONDS))
    printf '== %s\n' "$line"
    # In a process group of its own, which ends when its time is up.
    export -f "check_$name" served count
    code=0
    FOLDER=$FOLDER DRIVER=$DRIVER EMULATED=$EMULATED CASES=${OPTIONS[*]} timeout --kill-after=10 "$((left > 10 ? left : 10))" \
        bash -euo pipefail -c "check_$name" < /dev/null 2>&1 | tee "$FOLDER/$name.log" || code=$?
    case $code in
    0) result=passed ;;
    2) result=FAILED; [ "$name" != conformance ] || status=2 ;;
    124 | 137) result="TOO LONG" ;;
    *) result=FAILED ;;
    esac
    [ "$code" = 0 ] || [ "$status" = 2 ] || status=1
    table+=$'\n'$(printf '%-14s %-8s %8d  %s' "$name" "$result" $((SECONDS - began)) "$(tail -n 1 "$FOLDER/$name.log")")
    [ "$status" != 2 ] || break # there is no device
done <<< "$CHECKS"

printf '\n%s\n' "$table"
exit "$status"
