#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# plants.sh WEIR_STRESS STRESS_PLANTED LIBRARY: a fault that is planted between weir-stress and weir's pool, or in a plug-in, is
# found by what should find it, and nothing is found where none is planted. The time given is not needed: a run ends at
# the first fault. (tests/tools/stress/planted.c, planted_library.c)
set -eu
stress=$1
planted=$2
library=$3:planted_alloc:planted_free:planted_use
said=$(mktemp)
trap 'rm -f "$said" "$said.words"' EXIT
status=0

# found KIND WATCH PLANT COMMAND...: the run finds a fault of the kind ("none": none), and its exit status says so.
found() {
    kind=$1 watch=$2 plant=$3 expected=1
    shift 3
    got=0
    [ "$kind" = none ] && expected=0
    WEIR_EMU=watch:$watch PLANT=$plant "$@" --seed 1 --faults 1 --json >"$said" 2>&1 || got=$?
    if [ $got -eq $expected ] && { [ "$kind" = none ] || grep -q "\"$kind\":[1-9]" "$said"; }; then
        sed -n "s/.*\"seconds\":\([0-9.]*\).*/$plant, watch $watch: $kind after \1 s/p" "$said"
        return 0
    fi
    echo "$plant, watch $watch: expected $kind; $* ended with $got:"
    cat "$said"
    status=1
}

# Small blocks: the library never cuts its region anew.
long="--duration 60s --sizes log:512:256K --extras none"
short="--operations 1500 --sizes log:512:256K --extras none"
for watch in off on; do
    # shellcheck disable=SC2086
    found none $watch none "$planted" $short
    # shellcheck disable=SC2086
    found none $watch none "$stress" --allocator "$library" $short
    # shellcheck disable=SC2086
    found double_hand_out $watch double "$planted" $long
    # shellcheck disable=SC2086
    found double_hand_out $watch double "$stress" --allocator "$library" $long
done
# shellcheck disable=SC2086
for run in "$planted $long" "$stress --allocator $library $long"; do
    found early_reuse off early $run
    found faults on early $run
    found corruption off corrupt $run
    found faults on corrupt $run # by whichever comes first, the watch or the contents
done
# Without contents the watch has to.
# shellcheck disable=SC2086
found watch on early "$planted" $long --check none
# shellcheck disable=SC2086
found watch on early "$stress" --allocator "$library" $long --check none
# shellcheck disable=SC2086
found watch on,memory:unbacked early "$stress" --allocator "$library" $long
# shellcheck disable=SC2086
found none on,memory:unbacked none "$stress" --allocator "$library" $short
# shellcheck disable=SC2086
found wrong_address off host "$stress" --allocator "$library" $long
# shellcheck disable=SC2086
found faults off gone "$stress" --allocator "$library" $long
# A library that never gives a block has not been tested; nor has one that ends the process.
# shellcheck disable=SC2086
found refused off nothing "$stress" --allocator "$library" $short
# ended PLANT STATUS SAID
ended() {
    got=0
    # shellcheck disable=SC2086
    WEIR_EMU=watch:off PLANT=$1 "$stress" --allocator "$library" $short --json="$said" 2>"$said.words" || got=$?
    if [ $got -ne "$2" ] || [ -s "$said" ] || ! grep -q "$3 while the run went on: there is no answer" "$said.words"; then
        echo "$1: ended with $got: $(cat "$said.words" "$said")"
        status=1
    fi
}
ended exit 1 "the process was ended"
ended leave 1 "the process was ended"
ended crash 134 SIGABRT
# What a library leaves undone when all threads are through, or does when it is unloaded.
# shellcheck disable=SC2086
found stuck off late timeout -s KILL 300 "$stress" --allocator "${library%:*}" $short --stuck 1s
# shellcheck disable=SC2086
found none off linger timeout -s KILL 300 "$stress" --allocator "$library" $short
# shellcheck disable=SC2086
found wrong_address off,devices:2 other "$stress" --allocator "$library" $long
# shellcheck disable=SC2086
found failed off,devices:2 context "$stress" --allocator "$library" $long
grep -q "left another context current" "$said" || { echo "context: $(cat "$said")"; status=1; }
# shellcheck disable=SC2086
found failed off shut "$stress" --allocator "$library" $long
grep -q "a copy to block [0-9]*, [0-9]* bytes at 0x" "$said" || { echo "shut: $(cat "$said")"; status=1; }
# A library without a use function: other streams' uses are waited for.
# shellcheck disable=SC2086
found none on none "$stress" --allocator "${library%:*}" $short
# shellcheck disable=SC2086
found wrong_address off odd "$planted" $long
# shellcheck disable=SC2086
found refused off refuse "$planted" $long
# shellcheck disable=SC2086
found none off refuse "$planted" $short --margin none
# shellcheck disable=SC2086
found failed off fail "$planted" $long
# shellcheck disable=SC2086
found broken off leak "$planted" $short
# shellcheck disable=SC2086
found stuck off stuck "$planted" $long --stuck 1s
grep -q "[1-9] are in an allocation" "$said" || { echo "stuck: $(cat "$said")"; status=1; }
# Calls that weir's pool alone has.
for watch in off on; do
    found none "$watch" none "$planted" --operations 1500 --sizes log:512:256K
    found double_hand_out "$watch" sub "$planted" --duration 60s --sizes log:4K:256K --extras sub-pools
    found double_hand_out "$watch" graph "$planted" --duration 60s --sizes log:4K:256K --extras graphs
    found faults "$watch" grow "$planted" --duration 60s --sizes log:4K:256K --extras resize
    found faults "$watch" cut "$planted" --duration 60s --sizes log:4K:256K --extras resize
    found broken "$watch" lost "$planted" --duration 60s --extras questions
done
exit $status
