#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Promise: weir-demo answers whatever its runs do. The programs that it runs are stood in for by two that answer from the
# fixtures: per-stream runs out, weir does not up to batch 8, with offload up to 9.
# orchestration.sh WEIR_DEMO FIXTURES
set -u
demo=$1 fixtures=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

say_wrong() {
    echo "WRONG: $1"
    sed 's/^/    /' "$work/out" "$work/err"
    failures=$((failures + 1))
}
expect_status() { [ "$status" -eq "$2" ] || say_wrong "$1: status $status, expected $2"; }
# Sentences are broken into lines, so they are looked for in the text as one line too.
expect() {
    grep -q -e "$2" "$work/$1" || tr '\n' ' ' <"$work/$1" | tr -s ' ' | grep -q -e "$2" || say_wrong "'$2' is not in $1"
}
run() { "$work/bin/weir-demo" "$@" >"$work/out" 2>"$work/err"; status=$?; }

mkdir -p "$work/bin" "$work/share/weir/configs"
cp "$demo" "$work/bin/weir-demo"
run --out "$work/made"
expect_status "without weir-train" 1
expect err "weir-demo runs the program that lies beside it"

cat >"$work/bin/weir-train" <<'END'
#!/bin/sh
policy= offload= batch=8 capacity= json= trace= result=completed status=0
for word; do
    case $word in
    --policy=*) policy=${word#*=} ;;
    --offload=on) offload=true ;;
    --offload=off) offload=false ;;
    --batch=*) batch=${word#*=} ;;
    --capacity=*) capacity=${word#*=} ;;
    --json=*) json=${word#*=} ;;
    --trace=*) trace=${word#*=} ;;
    esac
done
case ${STAND_IN:-} in
fail) echo "the last words"; exit 1 ;;
refuse) echo "no such text"; exit 2 ;;
silent) exit 0 ;;
text) for word; do case $word in --data=*) echo "reads ${word#*=}" ;; esac; done; exit 1 ;;
hang) echo ready >"$STAND_IN_FIFO"; sleep 1000; exit 1 ;;
esac
most=8
[ $offload = true ] && most=9
if [ "$capacity" -lt 1000000000 ] && { [ "$policy" = per-stream ] || [ "$batch" -gt $most ]; }; then
    result=out_of_memory status=3
fi
echo "step 1 loss 5.5"
sed -e "s/\"batch\": 8/\"batch\": $batch/" -e "s/\"policy\": \"[a-z-]*\"/\"policy\": \"$policy\"/" \
    -e "s/\"offload\": false/\"offload\": $offload/" "$FIXTURES/run_$result.json" >"$json"
[ -n "$trace" ] && for rank in 0 1; do echo "weir-trace 1" >"$trace.rank$rank"; done
exit $status
END
cat >"$work/bin/weir-replay" <<'END'
#!/bin/sh
[ -f "$1" ] || exit 2
for word; do
    case $word in --json=*) cp "$FIXTURES/replay.json" "${word#*=}" ;; esac
done
END
chmod +x "$work/bin/weir-train" "$work/bin/weir-replay"
export FIXTURES="$fixtures"

run --config "$work/none.yaml" --out "$work/made"
expect_status "a missing configuration" 2
expect err "none.yaml: No such file"

echo "{}" >"$work/share/weir/configs/demo.yaml"
run --out "$work/bin/weir-train"
expect_status "a file where the folder should be" 2
expect err "cannot write to folder .*: Not a directory"

STAND_IN=refuse run --out "$work/made"
expect_status "a job that weir-train refuses" 2
expect err "no such text"

run --out "$work/made/deep"
expect_status "a whole demo" 0
expect out "per-stream  *8 .*71.0 %   OOM, step 2   1.410 x live"
expect out "weir  *8 .*97.0 %   completed     1.410 x live"
expect out "weir+offload  *9 .*completed"
expect out "weir, batch 9  *9 .*OOM"
expect out "So it is offload that carries it."
for file in report.json report.html measure.json measure.log per-stream.log; do
    [ -s "$work/made/deep/$file" ] || [ "$file" != "${file%.log}" ] || say_wrong "$file is missing or empty"
done
[ -z "$(find "$work/made" -name '*.trace.*')" ] || say_wrong "traces are left"
grep -q '"name": "weir+offload"' "$work/made/deep/report.json" || say_wrong "report.json lacks a run"

run --out "$work/made/kept" --keep --json
expect_status "a demo with JSON" 0
[ -f "$work/made/kept/measure.trace.rank1" ] || say_wrong "--keep did not keep the traces"
cmp -s "$work/out" "$work/made/kept/report.json" || [ "$(cat "$work/out")" = "$(cat "$work/made/kept/report.json")" ] ||
    say_wrong "standard output is not the JSON alone"

STAND_IN=fail run --out "$work/made"
expect_status "a failing run" 1
expect err "the last words"
expect err "weir-train ended with status 1"

STAND_IN=text run --out "$work/made" --data "$work/a text"
expect err "reads $work/a text"

# The folder still has the report of the demo above, which is not this one's.
STAND_IN=silent run --out "$work/made/deep"
expect_status "a run without a report" 1
expect err "measure.json"

run --out /proc/nowhere
expect_status "a folder that can't be made" 2
expect err "cannot write to folder /proc/nowhere"

run --steps=none
expect_status "a bad option" 2
expect err "expected a whole number"

export STAND_IN_FIFO="$work/fifo"
mkfifo "$STAND_IN_FIFO"
STAND_IN=hang "$work/bin/weir-demo" --out "$work/made" >"$work/out" 2>"$work/err" &
pid=$!
read -r word <"$STAND_IN_FIFO"
kill -INT $pid
wait $pid
status=$?
expect_status "an interrupted demo" 130
expect err "interrupted; all that it had started has been ended"

[ $failures -eq 0 ] && echo "all as expected"
exit $((failures > 0))
