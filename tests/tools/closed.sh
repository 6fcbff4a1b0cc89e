#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# closed.sh FIXTURES PRINTING_LIBRARY PROGRAM...: programs that are started without standard streams. What they print does not land
# in what they write; an answer that has nowhere to go is a failure, which is said; and what they start finds the streams closed as well.
set -eu
fixtures=$1 printing=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset WEIR_OPTIONS WEIR_TRACE WEIR_LOG
export WEIR_DEVICE=emulated
wrong() { echo "$*" >&2; exit 1; }

# answers STATUS WORDS...: nothing but the status is left without a standard output, and why.
answers() {
    wanted=$1
    shift
    got=0
    "$@" 2>"$folder/said" >&- || got=$?
    [ $got -eq "$wanted" ] || wrong "$* >&- ended with $got: $(cat "$folder/said")"
    [ "$wanted" -eq 0 ] || grep -q "standard output\|written\|can't write" "$folder/said" || wrong "$* >&- does not say why: $(cat "$folder/said")"
}

for program; do
    eval "$(basename "$program" | tr - _)=\$program"
    answers 1 "$program" --help
done
# shellcheck disable=SC2154 # those below are set above
true "$weir_trace" "$weir_replay" "$weir_stress" "$weir_run" "$weir_profile"

# A trace is the same whatever is closed.
csv=$fixtures/convert_lifetimes.csv
"$weir_trace" convert "$csv" -o "$folder/open.trace" --json >"$folder/json" 2>"$folder/said"
"$weir_trace" convert "$csv" -o "$folder/err.trace" 2>&-
answers 1 "$weir_trace" convert "$csv" -o "$folder/out.trace" --json
answers 1 "$weir_trace" info "$folder/open.trace"
"$weir_trace" convert "$csv" -o "$folder/all.trace" <&- >&- 2>&-
for closed in err out all; do
    cmp "$folder/open.trace" "$folder/$closed.trace" || wrong "a trace holds what was said"
done
got=0
"$weir_trace" convert "$csv" -o /proc/self/fd/1 2>/dev/null >&- || got=$?
[ $got -ne 0 ] || wrong "a trace that is written to a closed standard output by name is lost without a word"

# The words of an allocator, in a process of its own, are not taken for that run's outcome.
got=0
"$weir_replay" "$folder/open.trace" --allocator "$printing:alloc_that_prints:nothing_to_free" --json="$folder/replay.json" >&- 2>&- ||
    got=$?
[ $got -eq 1 ] || wrong "weir-replay ended with $got"
grep -q '"outcome":"out_of_memory"' "$folder/replay.json" || wrong "weir-replay: $(cat "$folder/replay.json")"

# What is logged and said does not land in the device's memory, which is compared.
WEIR_LOG=debug "$weir_stress" --threads 1 --operations 3000 --seed 4 --check full --margin none 2>&- >"$folder/said" ||
    wrong "weir-stress finds faults in what it said: $(cat "$folder/said")"
answers 1 "$weir_stress" --operations 500 --margin none --seed 1 --check full
answers 0 "$weir_stress" --operations 500 --margin none --seed 1 --quiet --json="$folder/stress.json"
grep -q '"outcome":"clean"' "$folder/stress.json" || wrong "weir-stress: $(cat "$folder/stress.json")"

# A profile goes to standard output.
answers 1 "$weir_profile" --repeats 1

# The program itself has the streams that weir-run was given.
if [ -n "${TEST_SANITIZED:-}" ]; then exit 0; fi # a sanitizer's runtime has to come before the preloaded library
cat >"$folder/program" <<'END'
#!/bin/sh
for number in 0 1 2; do [ ! -e /proc/$$/fd/$number ] || exit $((10 + number)); done
exit 3
END
chmod +x "$folder/program"
got=0
"$weir_run" -- "$folder/program" <&- >&- 2>&- || got=$?
[ $got -eq 3 ] || wrong "weir-run's program ended with $got"
answers 1 "$weir_run" --json -- true
