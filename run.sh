#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The one script a newcomer needs. Every command installs what is missing (and says what and why), builds, and runs.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CALLER=$PWD # file names in options of demo and train are meant from here
cd "$ROOT"

usage() {
    cat <<'END'
usage: ./run.sh COMMAND [options]

  demo [weir-demo options]     a mixture-of-experts trainer on a device that is too small for per-stream caching,
                               with and without weir; table, build/demo/report.html and report.json
  train [weir-train options]   trains on the King James text, or on --data=FILE
  test                         builds with gcc and runs the tests (at most 8 minutes on 2 cores)
  test all                     also clang, the sanitizers, the CUDA build where nvcc is, an installed client, the demo
                               (at most 25 minutes on 2 cores; what CI runs)
  bench [quick] [--torch[=DIR]] [--rmm[=DIR]] [--profile=NAME]
                               allocators beside each other: devices that traces need, what smaller ones cost, host time; writes
                               build/bench/report.html and report.json (4 minutes of CPU time; quick: half of
                               that, two traces and few devices). With --torch PyTorch's allocator too, with --rmm RMM's (25.04): of
                               the virtual environment DIR, which is only read; without DIR of build/torch, build/rmm, made when
                               they are not there (PyTorch: downloads 1.1 GB, keeps 3 GB; RMM: 4 MB, 42 MB)
  bench pool [--torch[=DIR]]   host time alone; writes build/bench/pool.json
  bench emulator [SEEDS]       the emulated driver: its speed, its conformance, waits taken out, and SEEDS (1000) schedules of
                               training steps (some minutes); writes build/bench/emulator.json
  bench replay [quick]         the smallest and the honest devices of many traces, per-stream beside weir, under three laws of cost
                               (some 13 minutes on 2 cores; quick: few traces, 1 minute); writes build/bench/replay.json
  build [PRESET]               dev (default), release, clang, asan, tsan, cuda
  install --prefix DIR         builds the release and installs it
  uninstall --prefix DIR       removes what install put there
  help                         this text

  --no-install                 (anywhere before the command's own options) never install packages; name the missing ones

Programs land in build/bin, libraries in build/lib. `build/bin/weir-train --help` and `build/bin/weir-demo --help` have the
options of those two. Nothing here needs a GPU: without one the device is emulated, and every report says so.
END
}

say() { printf 'run.sh: %s\n' "$*"; }
# die SENTENCE [exit status]
die() { printf 'run.sh: %s\n' "$1" >&2; exit "${2:-1}"; }

# ---- packages ----------------------------------------------------------------------------------------------------

# package: why (docs/dependencies.md says more)
BUILD_PACKAGES="gcc: compiles the project
g++: compiles libweir-torch.so, which PyTorch's hooks need
libc6-dev: the C library's headers
cmake: configures the build
ninja-build: runs the build
pkg-config: finds the libraries below
libjemalloc-dev: cuts small blocks of the pinned host pool (offload)
libnuma-dev: binds the host pool to the GPU's CPUs (offload)
libopenblas-dev: matrix products of the trainer on a CPU
libopenmpi-dev: communication between the trainer's ranks
openmpi-bin: starts the trainer's ranks
libyaml-dev: reads the trainer's configuration
libjansson-dev: writes and reads reports
zlib1g-dev: reads and writes traces in gzip
libzstd-dev: reads and writes traces in zstd
libcmocka-dev: runs the tests"
TEXT_PACKAGES="bible-kjv: the King James text, the trainer's default data"
ALL_PACKAGES="clang: second compiler of the test run"
POOL_PACKAGES="libjemalloc2: an allocator to measure beside (bench)
libmimalloc2.0: an allocator to measure beside (bench)"
PEER_PACKAGES="python3-venv: holds PyTorch and RMM (bench --torch, --rmm)"

NO_INSTALL=no

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

need_packages() {
    command -v dpkg-query >/dev/null || { say "no dpkg here: the packages in docs/dependencies.md are taken as installed"; return; }
    local line name missing=()
    while IFS= read -r line; do
        name=${line%%: *}
        installed "$name" && continue
        missing+=("$name")
        say "needs the package $name: ${line#*: }"
    done <<< "$1"
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$NO_INSTALL" = no ] || die "--no-install was given; install: ${missing[*]}" 2
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "not root and there is no sudo; as root: apt-get install ${missing[*]}" 2
        as_root=(sudo)
    fi
    say "installing ${missing[*]}"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# ---- building ----------------------------------------------------------------------------------------------------

build_folder() { [ "$1" = dev ] && echo build || echo "build/$1"; }

# build PRESET [cmake options]: configures and builds quietly; the whole log is shown when it fails.
build() {
    local preset=$1 folder log
    shift
    folder=$(build_folder "$preset")
    mkdir -p "$folder"
    log="$folder/build.log"
    say "building $preset in $folder"
    # A folder that was copied or moved remembers its old place and can't be used.
    if [ -f "$folder/CMakeCache.txt" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" "$folder/CMakeCache.txt"; then
        rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
    fi
    if ! { cmake --preset "$preset" "$@" && cmake --build "$folder"; } > "$log" 2>&1; then
        cat "$log" >&2
        die "building $preset failed; the log is $log"
    fi
}

make_text() {
    local text=build/data/kjv.txt
    [ -s "$text" ] && return
    need_packages "$TEXT_PACKAGES"
    mkdir -p build/data
    bible -f Gen1:1-Rev22:21 > "$text.new"
    mv "$text.new" "$text"
    say "wrote $text ($(wc -c < "$text") bytes)"
}

# names_option --NAME ARGUMENTS: true when one of the arguments is --NAME or --NAME=...
names_option() {
    local name=$1 argument
    shift
    for argument in "$@"; do
        case $argument in "$name" | "$name"=*) return 0 ;; esac
    done
    return 1
}

# What Open MPI needs to start as root, with more ranks than cores, without a remote shell.
mpi_environment() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_plm_rsh_agent=
    export OPENBLAS_NUM_THREADS=1
    export HWLOC_COMPONENTS=-gl HWLOC_HIDE_ERRORS=2 # no look for X displays, which can mean waiting for name servers
}

# ---- testing -----------------------------------------------------------------------------------------------------

JOBS=$(nproc 2>/dev/null || echo 2)

# run_tests FOLDER [ctest options]. The limit ends a hang, on however slow a machine.
run_tests() {
    local folder=$1
    shift
    say "running the tests of $folder"
    ctest --test-dir "$folder" --timeout 900 --output-on-failure --no-tests=error -j "$JOBS" "$@"
}

# MPI itself is not instrumented: thread reports inside it are left out, and its leaks are not ours to report.
test_sanitized() {
    build asan
    ASAN_OPTIONS=detect_leaks=1:abort_on_error=1 LSAN_OPTIONS="suppressions=$ROOT/tests/lsan.supp:print_suppressions=0" \
        UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 run_tests build/asan
    build tsan
    TSAN_OPTIONS=ignore_noninstrumented_modules=1:detect_deadlocks=0:halt_on_error=1 run_tests build/tsan
}

# A program of a stranger's, built against the installed tree by CMake package and by pkg-config.
test_installed_client() {
    local prefix="$ROOT/build/installed"
    rm -rf "$prefix" build/client
    install_to "$prefix"
    say "building examples/link, streams and watch against the installed tree"
    sh tests/installed_client.sh "$prefix" "$ROOT/examples" build/client
    uninstall_from "$prefix"
    [ -z "$(find "$prefix" -type f 2>/dev/null | head -1)" ] || die "uninstall left files in $prefix"
}

# nvcc is on PATH, or where the toolkit puts it.
have_nvcc() {
    if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then PATH="$PATH:/usr/local/cuda/bin"; fi
    command -v nvcc >/dev/null
}

test_all() {
    need_packages "$BUILD_PACKAGES"$'\n'"$ALL_PACKAGES"
    build dev
    run_tests build
    build clang
    run_tests build/clang
    test_sanitized
    if have_nvcc; then build cuda; else say "SKIPPED: the CUDA build, since there is no nvcc"; fi
    test_installed_client
    make_text
    say "running the demo"
    build/bin/weir-demo
}

# ---- benchmarks --------------------------------------------------------------------------------------------------

# The number that stands before WORD in the lines on standard input that begin with "mutations:", added up.
mutations() { grep '^mutations:' | sed "s/.* \([0-9][0-9]*\) $1.*/\1/" | awk '{ sum += $1 } END { print sum + 0 }'; }

# folder_of DIR: the folder that a person meant.
folder_of() { case $1 in /*) echo "$1" ;; *) echo "$CALLER/$1" ;; esac; }

# build_peer --NAME[=DIR]: sets `library` and `version`; or fails, and `why` is the reason.
build_peer() {
    local name=${1%%=*} said folder=()
    name=${name#--} library=build/bench/libweir-bench-$name.so
    case $1 in *=*) folder=("$(folder_of "${1#*=}")") ;; *) need_packages "$PEER_PACKAGES" ;; esac
    if said=$(bench/peers/build.sh "$name" "$library" "${folder[@]}"); then version=$said; else why=$said; return 1; fi
}

# bench_pool [--torch[=DIR]]
bench_pool() {
    local torch=() library version why
    need_packages "$POOL_PACKAGES"
    build dev -DWEIR_TESTS=OFF
    mkdir -p build/bench
    if [ -n "${1:-}" ]; then
        build_peer "$1" || die "torch: $why" 2
        torch=("--torch=$library")
    fi
    build/bin/weir-bench-pool --json=build/bench/pool.json "${torch[@]}"
}

# profile_option NAME: what has a / is a file, as for WEIR_EMU.
profile_option() { case $1 in */*) echo "--profile=$(folder_of "$1")" ;; *) echo "--profile=$1" ;; esac; }

# bench_page all|quick [--torch[=DIR]] [--rmm[=DIR]] [--profile=NAME]: all of it beside each other, as one page.
bench_page() {
    local out=build/bench traces=() pool=() report=() made=() library version why name option kind=$1 shown="./run.sh bench"
    shift
    need_packages "$POOL_PACKAGES"
    build dev -DWEIR_TESTS=OFF
    mkdir -p "$out/traces/made"
    [ "$kind" = all ] || shown+=" $kind"
    for option in "$@"; do
        shown+=" $option"
        name=${option%%=*} name=${name#--}
        if [ "$name" = profile ]; then
            report+=("$(profile_option "${option#*=}")")
        elif build_peer "$option"; then
            pool+=("--$name=$library")
            report+=("--library=$name:$version:$library")
        else
            say "$name is left out: $why"
            report+=("--absent=$name:$why")
        fi
    done
    made=(moe-fsdp2 moe-modern ft-varlen-full gpt-dense) # the long ones are begun first
    [ "$kind" = all ] || { made=(moe-noac gpt-dense); report+=(--quick); }
    pool=("--json=$out/pool.json" "${pool[@]}")
    report+=("--command=$shown" "--command=weir-bench-pool ${pool[*]}")
    for name in "${made[@]}"; do
        build/bin/weir-trace gen "$name" --seed 1 -o "$out/traces/made/$name-s1.trace.gz" 2> "$out/log" || die "$(cat "$out/log")"
        traces+=("$name=$out/traces/made/$name-s1.trace.gz")
        report+=("--command=weir-trace gen $name --seed 1 -o TRACE")
    done
    say "what calls cost the host"
    build/bin/weir-bench-pool "${pool[@]}" > "$out/pool.txt"
    say "replays"
    build/bin/weir-bench-report --json="$out/report.json" --html="$out/report.html" --pool="$out/pool.json" "${report[@]}" "${traces[@]}"
    say "wrote $out/report.html and $out/report.json"
}

# bench_emulator SEEDS: speeds, then what is proven on the emulated driver, all into one file.
bench_emulator() {
    local out=build/bench said caught redundant
    build dev
    mkdir -p "$out"
    say "the conformance suite"
    WEIR_EMU=devices:2 build/tests/conformance --driver=build/lib/emu/libcuda.so.1 --no-skips --json="$out/conformance.json" || die "a case failed"
    say "waits taken out, one by one"
    said=$(ctest --test-dir build -R 'watch_mutation_test|offload_mutations|trainer_mutations' -V) || die "a wait is not missed: $said"
    said=$(sed 's/^[0-9]*: //' <<<"$said")
    caught=$(mutations caught <<<"$said") redundant=$(mutations redundant <<<"$said")
    say "training steps under $1 seeds"
    WEIR_DEVICE=emulated build/tests/trainer_schedule_seeds --seeds "$1" | tee "$out/seeds.json"
    build/bin/weir-bench-emulator --json="$out/emulator.json" \
        conformance_cases="$(json_number conformance_cases "$out/conformance.json")" \
        mutations=$((caught + redundant)) mutations_caught="$caught" mutations_redundant="$redundant" \
        seeds_clean="$(json_number seeds_clean "$out/seeds.json")"
    cat "$out/emulator.json"
}

# bench_replay all|quick: traces made here, and, where they lie beside the project, those of ../shared/traces.
bench_replay() {
    local out=build/bench/traces shared="$ROOT/../shared/traces" name file traces=()
    build dev -DWEIR_TESTS=OFF
    mkdir -p "$out/made" "$out/real"
    if [ "$1" = quick ]; then
        traces=(--laws=page)
        for name in gpt-dense moe-noac moe-fsdp2; do
            build/bin/weir-trace gen "$name" --seed 1 -o "$out/made/$name-s1.trace.gz" 2> "$out/log" || die "$(cat "$out/log")"
            traces+=("made/$name-s1=$out/made/$name-s1.trace.gz")
        done
    else
        say "making traces"
        build/bin/weir-trace gen suite "$out/made" 2> "$out/log" || die "$(cat "$out/log")"
        for file in "$out"/made/*.trace.gz; do traces+=("made/$(basename "$file" .trace.gz)=$file"); done
        traces+=(--laws=page --blind=no)
        for file in "$shared"/gen/*.trace.gz; do
            [ ! -f "$file" ] || traces+=("shared/$(basename "$file" .trace.gz)=$file")
        done
    fi
    bench_replay_real "$1" "$out" "$shared"
    build/bin/weir-bench-replay --json=build/bench/replay.json --baseline=bench/baseline.tsv "${traces[@]}"
}

# Other programs' logs, made traces; adds to `traces`.
bench_replay_real() {
    local files=("$3"/pytorch/*.csv.gz "$3"/lifetimes/somas_*.csv) file name
    [ -d "$3" ] || { say "SKIPPED: other programs' logs, since there is no $3"; return 0; }
    [ "$1" != quick ] || files=("$3/pytorch/niu_fwdbwd_150.csv.gz")
    for file in "${files[@]}"; do
        name=$(basename "${file%.gz}" .csv)
        build/bin/weir-trace convert "$file" -o "$2/real/$name.trace.gz" 2> "$2/log" || die "$(cat "$2/log")"
        traces+=("real/$name=$2/real/$name.trace.gz")
    done
}

# json_number KEY FILE: the first number under that key.
json_number() { grep -o "\"$1\": *[0-9]*" "$2" | head -1 | grep -o '[0-9]*$'; }

# ---- installing --------------------------------------------------------------------------------------------------

prefix_of() {
    local prefix=
    while [ $# -gt 0 ]; do
        case $1 in
        --prefix) [ $# -gt 1 ] || die "--prefix needs a folder" 2; prefix=$2; shift ;;
        --prefix=*) prefix=${1#--prefix=} ;;
        *) die "unknown option $1; known: --prefix DIR" 2 ;;
        esac
        shift
    done
    [ -n "$prefix" ] || die "name the folder: --prefix DIR" 2
    case $prefix in /*) echo "$prefix" ;; *) echo "$CALLER/$prefix" ;; esac
}

install_to() {
    build release -DWEIR_TESTS=OFF -DCMAKE_INSTALL_PREFIX="$1"
    cmake --install build/release > build/release/install.log || { cat build/release/install.log >&2; die "installing failed"; }
    cp build/release/install_manifest.txt "$1/share/weir/manifest.txt"
    say "installed $(wc -l < "$1/share/weir/manifest.txt") files in $1"
}

uninstall_from() {
    local manifest="$1/share/weir/manifest.txt" file
    [ -f "$manifest" ] || die "there is no weir in $1 (no $manifest)"
    while IFS= read -r file || [ -n "$file" ]; do
        rm -f "$file"
        rmdir -p --ignore-fail-on-non-empty "$(dirname "$file")" 2>/dev/null || true
    done < "$manifest"
    rm -f "$manifest"
    rmdir -p --ignore-fail-on-non-empty "$1/share/weir" 2>/dev/null || true
    say "removed weir from $1"
}

# ---- commands ----------------------------------------------------------------------------------------------------

if [ "${1:-}" = --no-install ]; then NO_INSTALL=yes; shift; fi
command=${1:-help}
[ $# -eq 0 ] || shift
if [ "${1:-}" = --no-install ]; then NO_INSTALL=yes; shift; fi
mpi_environment

case $command in
demo)
    need_packages "$BUILD_PACKAGES"
    build dev -DWEIR_TESTS=OFF
    names_option --data "$@" || make_text
    cd "$CALLER"
    exec "$ROOT/build/bin/weir-demo" "$@"
    ;;
train)
    need_packages "$BUILD_PACKAGES"
    build dev -DWEIR_TESTS=OFF
    names_option --data "$@" || make_text
    names_option --config "$@" || set -- --config="$ROOT/configs/kjv.yaml" "$@"
    cd "$CALLER"
    exec "$ROOT/build/bin/weir-train" "$@"
    ;;
test)
    case ${1:-} in
    all) test_all ;;
    "")
        need_packages "$BUILD_PACKAGES"
        build dev -DWEIR_TESTS=ON
        run_tests build
        ;;
    *) die "unknown test run '$1'; known: all, or nothing" 2 ;;
    esac
    ;;
bench)
    what=${1:-page}
    case $what in
    quick) shift ;;
    --*) what=page ;;
    esac
    case $what in
    page | quick)
        for option in "$@"; do
            case $option in
            --torch | --torch=?* | --rmm | --rmm=?* | --profile=?*) ;;
            *) die "bench takes no '$option'; known: quick, --torch[=DIR], --rmm[=DIR], --profile=NAME; or pool, emulator, replay" 2 ;;
            esac
        done
        ;;
    pool)
        [ $# -le 2 ] || die "bench pool takes one option, not also '$3'" 2
        case ${2-} in "" | --torch | --torch=?*) ;; *) die "bench pool takes no '$2'; known: --torch[=DIR]" 2 ;; esac
        ;;
    emulator)
        [ $# -le 2 ] || die "bench emulator takes one number, not also '$3'" 2
        if ! [[ ${2-1000} =~ ^[1-9][0-9]{0,6}$ ]] || [ "${2-1000}" -gt 1000000 ]; then
            die "bench emulator: SEEDS is a number from 1 to 1000000, not '${2-}'" 2
        fi
        ;;
    replay)
        [ $# -le 2 ] || die "bench replay takes one word, not also '$3'" 2
        case ${2-all} in all | quick) ;; *) die "bench replay takes no '$2'; known: quick" 2 ;; esac
        ;;
    esac
    need_packages "$BUILD_PACKAGES"
    case $what in
    page) bench_page all "$@" ;;
    quick) bench_page quick "$@" ;;
    pool) bench_pool "${2-}" ;;
    emulator) bench_emulator "${2:-1000}" ;;
    replay) bench_replay "${2:-all}" ;;
    *) die "unknown benchmark '$1'; known: quick, pool, emulator, replay, or nothing" 2 ;;
    esac
    ;;
build)
    case ${1:-dev} in
    dev | release | clang | asan | tsan) need_packages "$BUILD_PACKAGES" ;;
    cuda)
        need_packages "$BUILD_PACKAGES"
        have_nvcc || die "the CUDA build needs nvcc on PATH"
        ;;
    *) die "unknown preset '$1'; known: dev, release, clang, asan, tsan, cuda" 2 ;;
    esac
    build "${1:-dev}"
    say "programs are in $(build_folder "${1:-dev}")/bin, libraries in $(build_folder "${1:-dev}")/lib"
    ;;
install)
    prefix=$(prefix_of "$@")
    [ -z "${DESTDIR:-}" ] || die "DESTDIR is set; a package is made by: ./run.sh build release; DESTDIR=... cmake --install build/release" 2
    need_packages "$BUILD_PACKAGES"
    install_to "$prefix"
    ;;
uninstall) uninstall_from "$(prefix_of "$@")" ;;
help | --help | -h) usage ;;
*)
    usage >&2
    die "unknown command '$command'" 2
    ;;
esac
