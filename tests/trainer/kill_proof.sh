#!/usr/bin/env bash
# kill_proof — a run that is killed by SIGKILL at random instants, and resumed each time, ends
# with the bits of an uninterrupted run.
#
#   kill_proof.sh vit|gpt2|llama RENDER_SHAPES [KILLS]
#
# It continues until at least KILLS kills have occurred, one of them during a save (its temporary
# folder existed) and one with samples in flight (read or decoded, not yet delivered), but at most
# KILLS_MAX. Random instants may all miss the saves of a small model, which take a millisecond:
# after KILLS misses the next kill is aimed at a save. MILLRACE names the program. The instants
# come from a seed that is printed; MILLRACE_SEED repeats it (as far as a wall clock can).
set -euo pipefail

kind=$1 render=$2 kills_wanted=${3:-6}
kills_max=60
program=${MILLRACE:?names the millrace program}
work=$(mktemp -d "${TMPDIR:-/tmp}/millrace-kill-XXXXXX")
trap 'rm -rf "$work"' EXIT
RANDOM=${MILLRACE_SEED:-$$}
seed=$((RANDOM))
RANDOM=$seed
echo "kill_proof: $kind, seed $seed"

# The instants suit an uninstrumented program; with a sanitizer, most kills would hit the startup.
if [[ ${SANITIZE:-} == thread ]]; then
  echo "SKIPPED: kills are timed for a program without ThreadSanitizer" >&2
  exit 77
fi

fail() { echo "kill_proof: $*" >&2; exit 1; }

case $kind in
  vit)
    "$render" --count 24 --side 48 "$work/photos"
    "$program" convert dataset "$work/photos" "$work/shards" --quiet
    model=(--set model.type=vit --set data.image.size=32 --set model.patch=8 --set data.image.mixup=0.4 --set data.image.cutmix=1) ;;
  gpt2 | llama)
    # the words of this script serve as text
    for i in 1 2 3 4; do cat "$0"; done > "$work/text.txt"
    "$program" convert dataset "$work/text.txt" "$work/shards" --tokenizer bytes --quiet
    model=(--set model.type="$kind" --set data.text.block=32)
    [[ $kind != llama ]] || model+=(--set optimizer.type=sgd --set optimizer.lr=0.1 --set optimizer.nesterov=true --set optimizer.clip_value=0.05
      --set 'model.freeze=*.mlp.*, !blocks.1.*' --set batch.schedule=1:2 --set early_stop.patience=8) ;;
  *) fail "unknown kind $kind" ;;
esac

cat > "$work/train.yaml" <<YAML
run:        {seed: 11, steps: 60}
data:       {train: $work/shards/dataset.json, val: $work/shards/dataset.json, memory: 32MiB}
model:      {layers: 2, heads: 2, width: 64}
batch:      {global: 24, micro: 8}
optimizer:  {lr: 1e-3, clip_norm: 0.5}
schedule:   {warmup: 5, min_lr: 1e-4}
checkpoint: {every: 1, keep: {last: 2}}
eval:       {every: 7}
log:        {every: 4, tensorboard: $work/events}
YAML

train() { # DIR
  "$program" train "$work/train.yaml" "${model[@]}" --set run.dir="$1" "${@:2}" -v
}

train "$work/alone" --set log.tensorboard= > "$work/alone.out" 2> "$work/alone.log" || { cat "$work/alone.log" >&2; fail "the run left alone failed"; }
expected=$("$program" ckpt hash "$work/alone/ckpt")
began=$(date +%s%N)
train "$work/timed" --set log.tensorboard="$work/timed/events" > /dev/null 2>&1
whole_ms=$(( ($(date +%s%N) - began) / 1000000 ))

# Stops on request in between: the run saves, exits with 75, and changes no bit either.
stop_once() {
  "$program" train "$work/train.yaml" "${model[@]}" --set run.dir="$work/killed" > /dev/null 2>&1 &
  local stopped=$! status=0
  sleep 0.2
  kill -TERM "$stopped" 2> /dev/null || true
  wait "$stopped" || status=$?
  [[ $status == 75 || $status == 0 || $status == 143 ]] || fail "a stop on request ended with status $status"
  echo "kill_proof: a stop on request ended with status $status"
}

unfinished_saves() { compgen -G "$work/killed/ckpt/.tmp-step-*" | sort || true; }
has_new_save() { [[ -n $(comm -13 <(echo "$before") <(unfinished_saves)) ]]; }

# Stops the program again and again; succeeds if a stop was inside a save before the run
# ended.
stop_inside_save() {
  while kill -STOP "$pid" 2> /dev/null; do
    ! has_new_save || return 0
    kill -CONT "$pid"
    sleep 0.002
  done
  return 1
}

kills=0 in_save=0 in_flight=0 ended=0
while (( kills < kills_wanted || in_save == 0 || in_flight == 0 )); do
  (( kills < kills_max )) || fail "after $kills kills: $in_save inside a save, $in_flight with data in flight"
  (( ended < kills_max )) || fail "the run ends before it can be killed"
  before=$(unfinished_saves) # what an earlier kill left behind does not count again
  setsid "$program" train "$work/train.yaml" "${model[@]}" --set run.dir="$work/killed" -v > "$work/killed.out" 2> "$work/killed.log" &
  pid=$!
  kill_ms=$(( 20 + RANDOM % (whole_ms / 2 + 1) )) # relative to the run's duration: on a slow machine, starting alone takes long
  sleep "$(printf '%d.%03d' $((kill_ms / 1000)) $((kill_ms % 1000)))"
  if (( kills >= kills_wanted && in_save == 0 )); then stop_inside_save || true; fi
  if ! kill -KILL "$pid" 2> /dev/null; then
    # finished too early: start over, so that there is something to kill
    wait "$pid" || { cat "$work/killed.log" >&2; fail "a resumed run failed"; }
    [[ $("$program" ckpt hash "$work/killed/ckpt") == "$expected" ]] || fail "a finished run differs"
    ended=$((ended + 1))
    rm -rf "$work/killed" "$work/events"
    continue
  fi
  wait "$pid" 2> /dev/null || true
  kills=$((kills + 1))
  if (( kills == 3 )); then stop_once; fi
  if has_new_save; then in_save=$((in_save + 1)); fi
  if grep -o 'micro-batches ahead: [0-9]*' "$work/killed.log" | tail -n 1 | grep -q ': [1-9]'; then in_flight=$((in_flight + 1)); fi
done
train "$work/killed" > "$work/killed.out" 2> "$work/killed.log" || { cat "$work/killed.log" >&2; fail "the last run failed"; }

actual=$("$program" ckpt hash "$work/killed/ckpt")
if [[ $actual != "$expected" ]]; then
  printf 'left alone:\n%s\nkilled and resumed:\n%s\n' "$expected" "$actual" >&2
  fail "the bits differ after $kills kills"
fi
order=$(grep -oE '^order[[:space:]]+[0-9a-f]{16}' "$work/alone.out")
[[ $(grep -oE '^order[[:space:]]+[0-9a-f]{16}' "$work/killed.out") == "$order" ]] || fail "the digests of the order differ"

# metrics.jsonl has each step once, in order, with the losses of the uninterrupted run
steps() { grep -o '"step":[0-9]*\|"[a-z_]*loss":[-0-9.e+]*\|"gradient_norm":[-0-9.e+]*\|"val_accuracy":[0-9.e+-]*' "$1/metrics.jsonl"; }
diff <(steps "$work/alone") <(steps "$work/killed") > /dev/null || fail "metrics.jsonl differs"
[[ $(grep -c '"loss"' "$work/killed/metrics.jsonl") == 15 ]] || fail "metrics.jsonl has not one line each 4 of 60 steps"

# and so do TensorBoard's own readers, if they are installed
for python in "${MILLRACE_PYTHON:-}" "${TEST_SOURCE_DIR:-.}/build/oracles/bin/python"; do
  [[ -x $python ]] && "$python" -c 'import tensorboard' 2> /dev/null || continue
  "$python" "$TEST_SOURCE_DIR/tests/oracle/events.py" "$work/events" "$work/killed/metrics.jsonl" > /dev/null || fail "TensorBoard shows something else"
  echo "kill_proof: TensorBoard shows each step once, from $(find "$work/events" -name '*tfevents*' | wc -l) files"
  break
done

echo "kill_proof: $kind: $kills kills, $in_save inside a save, $in_flight with data in flight: the same bits ($order)"
