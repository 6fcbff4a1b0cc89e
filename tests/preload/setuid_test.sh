#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: setuid_test.sh PROGRAM LIBRARY WEIR DRIVER PROFILE RUN
#
# A program that is another user's and lends its rights (set-uid), started by a third user with the library preloaded: as that user
# may ask for it, which the linker ignores, by weir-run, and from a folder that the linker trusts, where it does load the library.
# In none may it do anything: no call served, no file written as the program's owner. The folder is laid over a trusted one in a
# mount name space of the test's own. What can't be set up is skipped, by a line that says so.
program=$1 library=$2 weir=$3 driver=$4 profile=$5 run=$6 # absolute paths
OWNER=12345 STARTER=23456
status=0
skip() { echo "skipped: $*"; exit 0; }
wrong() { echo "$*" >&2; status=1; }

[ "$(id -u)" = 0 ] || skip "only root can give a program to another user"
for tool in setpriv unshare; do command -v $tool > /dev/null || skip "there is no $tool"; done
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/lib" "$folder/out"
chmod 755 "$folder" "$folder/bin" "$folder/lib"
chmod 777 "$folder/out"
install -m 755 "$run" "$folder/bin/weir-run"
install -m 755 "$program" "$folder/own"
install -m 4755 -o $OWNER -g $OWNER "$program" "$folder/lent"
install -m 4755 "$library" "$folder/lib/libweir-preload.so.0" # it must be set-uid too for the linker to load it
install -m 755 "$weir" "$folder/lib/libweir.so.0"
install -m 755 "$driver" "$folder/lib/libcuda.so.1"
install -m 644 "$profile" "$folder/profile"
libc=$(ldd "$program" 2>&1 | sed -n 's/.*libc\.so\.6 => \([^ ]*\).*/\1/p')
[ -e "$libc" ] || skip "it is not known where the linker finds libraries"
trusted=$(dirname "$libc")

# as_user COMMAND...: where the folder of libraries lies over the trusted one. Everything that weir writes files for is asked for.
as_user() {
    unshare --mount sh -c 'mount -t overlay -o "ro,lowerdir=$1:$2" none "$2" || exit 99; shift 2; exec "$@"' sh \
        "$folder/lib" "$trusted" setpriv --reuid=$STARTER --regid=$STARTER --clear-groups env WEIR_EMU="profile:$folder/profile" \
        WEIR_RUN_SUMMARY="$folder/out/summary" WEIR_TRACE="$folder/out/trace" "$@" > "$folder/said" 2> "$folder/err"
}
# plays PRELOAD PROGRAM
plays() {
    rm -f "$folder"/out/*
    : > "$folder/out/summary"
    chmod 666 "$folder/out/summary"
    as_user LD_PRELOAD="$1" "$2"
    got=$?
    [ $got -eq 0 ] || wrong "$2 with $1 ended with $got: $(cat "$folder/said" "$folder/err")"
}
does_nothing() {
    grep -qx "more rights, $1" "$folder/said" || wrong "$2: $(cat "$folder/said")"
    grep -q "three blocks" "$folder/said" || wrong "$2: the program's own words are missing: $(cat "$folder/said")"
    [ ! -s "$folder/out/summary" ] || wrong "$2: the library told of $(cat "$folder/out/summary")"
    [ "$(ls "$folder/out")" = summary ] || wrong "$2: files were written as the owner: $(ls -l "$folder/out")"
}

as_user "$folder/lent"
[ $? -ne 99 ] || skip "no folder can be laid over another here: $(cat "$folder/err")"
grep -q "^more rights" "$folder/said" || skip "a set-uid program gets no rights here: $(cat "$folder/said" "$folder/err")"

plays libweir-preload.so.0 "$folder/own" # the same way, without more rights: it is loaded and serves
grep -qx "usual rights, libweir-preload.so.0" "$folder/said" || wrong "nothing was preloaded: $(cat "$folder/said" "$folder/err")"
grep -q '"plain_allocs":3' "$folder/out/summary" || wrong "nothing was served: $(cat "$folder/out/summary")"
[ -s "$folder/out/trace" ] || wrong "no trace was written"

plays "$folder/lib/libweir-preload.so.0" "$folder/lent"
does_nothing libcuda.so.1 "by path"
plays libweir-preload.so.0 "$folder/lent"
does_nothing libweir-preload.so.0 "from a trusted folder"
[ ! -s "$folder/err" ] || wrong "from a trusted folder: it wrote $(cat "$folder/err")"

rm -f "$folder"/out/*
cd / # where the user may not write: without --trace that is nothing to weir-run
as_user "$folder/bin/weir-run" "$folder/lent" || wrong "weir-run ended with $?"
grep -q "gets more rights than its user has" "$folder/err" || wrong "weir-run does not warn: $(cat "$folder/err")"
grep -qx "more rights, libcuda.so.1" "$folder/said" || wrong "under weir-run: $(cat "$folder/said")"
exit $status
