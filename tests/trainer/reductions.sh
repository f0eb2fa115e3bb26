#!/usr/bin/env bash
# reductions — runs with non-exact reductions on real ranks: they warn, are close to the canonical
# run, and are repeatable.
set -euo pipefail
program=${MILLRACE:?names the millrace program}
mpirun=${TEST_SOURCE_DIR:?names the sources}/tests/support/mpirun.sh
command -v mpirun > /dev/null && [[ -n ${MPI:-} ]] || { echo "SKIPPED: there is no MPI" >&2; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/millrace-reductions-XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() { echo "reductions: $*" >&2; exit 1; }

for i in 1 2 3 4; do cat "$0"; done > "$work/text.txt"
"$program" convert dataset "$work/text.txt" "$work/shards" --tokenizer bytes --quiet > /dev/null
cat > "$work/train.yaml" <<YAML
run:        {seed: 5, steps: 8}
device:     cpu
threads:    1
data:       {train: $work/shards, memory: 32MiB, workers: 1, text: {block: 32}}
model:      {type: gpt2, layers: 3, heads: 2, width: 48}
batch:      {global: 12, micro: 2}
optimizer:  {type: sgd, lr: 0.05, clip_norm: 0.5}
checkpoint: {every: 4}
log:        {every: 1}
YAML

# train RANKS DIR SETTING...
train() {
  local ranks=$1 dir=$2 list=()
  shift 2
  for set in run.dir="$work/$dir" "$@"; do list+=(--set "$set"); done
  "$mpirun" "$ranks" "$program" train "$work/train.yaml" "${list[@]}" > "$work/$dir.out" 2> "$work/$dir.errors" || { cat "$work/$dir.errors" >&2; fail "$*: failed"; }
}

# near DIR EXPECTED WHAT [PART]: each step's losses differ by at most the fraction PART (0.1 %).
near() {
  paste <(grep -o '"loss":[0-9.e+-]*' "$work/$1/metrics.jsonl" | cut -d: -f2) <(grep -o '"loss":[0-9.e+-]*' "$work/$2/metrics.jsonl" | cut -d: -f2) |
    awk -v what="$3" -v part="${4:-0.001}" '{ if ($1 > $2 * (1 + part) || $1 < $2 * (1 - part)) { print what ": step " NR ": " $1 ", expected " $2; bad = 1 } } END { exit bad || NR != 8 }' >&2 || fail "$3"
}

train 1 canonical
grep -q 'the bits of the result depend' "$work"/canonical.{out,errors} && fail "a canonical run says that its bits depend on the ranks"

fast_is_close_to_canonical_and_warns_about_reproducibility() {
  local strategy ranks
  for strategy in "ddp 1" "ddp 3" "zero1 2" "zero2 4" "zero3 2" "shard_grad_op 3"; do
    read -r strategy ranks <<< "$strategy"
    train "$ranks" "$strategy-$ranks" parallel.strategy="$strategy" parallel.reduction=fast
    near "$strategy-$ranks" canonical "fast, $strategy on $ranks ranks"
    grep -q "reduction fast on $ranks rank.*the bits of the result depend on the number of ranks" "$work/$strategy-$ranks".{out,errors} || fail "$strategy: it does not say that its bits depend on the ranks"
    [[ $ranks == 1 ]] || grep -q '"numerics_id".*summed by .*MPI' "$work/$strategy-$ranks"/ckpt/step-00000008/manifest.json || fail "$strategy: the checkpoint's numerics_id does not name the library"
    grep -q "reduction fast on $ranks rank" "$work/$strategy-$ranks"/ckpt/step-00000008/manifest.json || fail "$strategy: the checkpoint's numerics_id has no reduction"
  done
}

# bf16 keeps 8 significant bits of the values in a message, fp16 11.
reduced_precision_gradients_are_close_and_warn() {
  local settings type
  for settings in "bf16 canonical ddp 3" "bf16 fast zero2 2" "fp16 canonical zero3 2" "fp16 fast ddp 3"; do
    set -- $settings
    train "$4" "$1-$2" precision.reduce="$1" parallel.reduction="$2" parallel.strategy="$3"
    near "$1-$2" canonical "gradients in $1, $2, $3 on $4 ranks" 0.002
    type=${1^^}
    grep -q "reduction $2 in ${type/FP/F} on $4 ranks" "$work/$1-$2"/ckpt/step-00000008/manifest.json || fail "$settings: the checkpoint's numerics_id does not say so"
    ! "$program" ckpt diff "$work/canonical/ckpt" "$work/$1-$2/ckpt" > /dev/null || fail "$settings: nothing was rounded"
  done
}

a_fast_run_is_repeatable() {
  train 3 again parallel.reduction=fast
  "$program" ckpt diff "$work/ddp-3/ckpt" "$work/again/ckpt" > "$work/diff" || { cat "$work/diff" >&2; fail "two equal fast runs differ"; }
}

resuming_on_other_ranks_warns_that_bits_may_differ() {
  train 3 resumed parallel.reduction=fast run.steps=4
  train 2 resumed parallel.reduction=fast
  grep -q 'bits may differ' "$work/resumed.errors" "$work/resumed.out" || { cat "$work/resumed.errors" >&2; fail "no warning about resuming on a different number of ranks"; }
  near resumed canonical "resumed on other ranks"
}

compressed_gradients_train_and_a_resume_warns_of_lost_state() {
  local keys=(parallel.reduction=fast parallel.compression.type=powersgd parallel.compression.start_step=2)
  train 2 compressed "${keys[@]}" run.steps=4
  grep -q 'reduction powersgd on 2 ranks' "$work"/compressed.{out,errors} || fail "a compressed run does not say so"
  train 2 compressed "${keys[@]}"
  grep -q 'the error feedback from before this step is lost, and Q starts over' "$work"/compressed.{out,errors} || fail "no warning about state that a resume loses"
  near compressed canonical "compressed" 0.05
}

a_resume_warns_only_of_lost_state() {
  local keys=(parallel.reduction=fast parallel.compression.type=powersgd parallel.compression.start_step=2)
  train 2 nothing-kept "${keys[@]}" parallel.compression.error_feedback=false parallel.compression.warm_start=false run.steps=4
  train 2 nothing-kept "${keys[@]}" parallel.compression.error_feedback=false parallel.compression.warm_start=false
  train 2 compressed-late parallel.reduction=fast run.steps=4
  train 2 compressed-late "${keys[@]}"
  ! grep 'parallel.compression: ' "$work"/{nothing-kept,compressed-late}.{out,errors} >&2 || fail "a resume that loses nothing says that it does"
  train 2 started-late "${keys[@]}" parallel.compression.start_step=4 run.steps=4
  train 2 started-late "${keys[@]}" parallel.compression.start_step=4
  ! grep 'parallel.compression: ' "$work"/started-late.{out,errors} >&2 || fail "a resume before anything was compressed says that it loses something"
}

# With plain SGD and the same number of tokens on each rank, a mean after each step equals summed
# gradients.
the_mean_of_local_updates_equals_summed_gradients() {
  local plain=(parallel.reduction=fast optimizer.momentum=0 optimizer.clip_norm=0)
  train 3 summed "${plain[@]}"
  train 3 meant "${plain[@]}" parallel.local_sgd.steps=1
  near meant summed "a mean after each step" 0.00001
  "$program" ckpt diff "$work/summed/ckpt" "$work/meant/ckpt" --json > "$work/diff" || true
  grep -o '"largest[a-z_]*": *[-0-9.e+]*' "$work/diff" | awk -F: '$2 > 1e-5 { bad = 1 } END { exit bad || NR == 0 }' || { cat "$work/diff" >&2; fail "weights of the two differ by more than rounding"; }
}

local_updates_are_averaged_periodically_and_for_saves() {
  train 2 local parallel.reduction=fast parallel.local_sgd.steps=3 run.steps=5
  grep -q 'local updates of 2 ranks' "$work"/local.{out,errors} || fail "a run of local updates does not say so"
  train 2 local parallel.reduction=fast parallel.local_sgd.steps=3
  train 2 local-again parallel.reduction=fast parallel.local_sgd.steps=3 run.steps=5
  train 2 local-again parallel.reduction=fast parallel.local_sgd.steps=3
  "$program" ckpt diff "$work/local/ckpt" "$work/local-again/ckpt" > "$work/diff" || { cat "$work/diff" >&2; fail "two equal runs of local updates differ"; }
  near local canonical "local updates" 0.05
}

# Without moments, averaging at a save after every third step equals a mean after every third update.
local_updates_are_averaged_at_the_configured_interval() {
  local plain=(parallel.reduction=fast optimizer.momentum=0)
  train 2 thirds "${plain[@]}" parallel.local_sgd.steps=3 checkpoint.every=100
  train 2 thirds-saved "${plain[@]}" parallel.local_sgd.steps=100 checkpoint.every=3
  train 2 seconds "${plain[@]}" parallel.local_sgd.steps=2 checkpoint.every=100
  "$program" ckpt diff "$work/thirds/ckpt" "$work/thirds-saved/ckpt" > "$work/diff" || { cat "$work/diff" >&2; fail "averaging every third update differs from averaging at every third save"; }
  "$program" ckpt diff "$work/thirds/ckpt" "$work/seconds/ckpt" > /dev/null && fail "averaging every second update equals averaging every third"
  grep -q 'weights averaged every 3 updates' "$work"/thirds.{out,errors} || fail "a run of local updates does not say when weights are averaged"
}

# One save between two means, and one after a mean: at both, each rank has its own moments.
resuming_local_updates_matches_the_uninterrupted_run() {
  local steps keys=(parallel.reduction=fast optimizer.type=adamw optimizer.lr=0.01)
  for steps in 2 3; do
    train 2 "whole-$steps" "${keys[@]}" parallel.local_sgd.steps=$steps
    train 2 "parts-$steps" "${keys[@]}" parallel.local_sgd.steps=$steps run.steps=4
    train 2 "parts-$steps" "${keys[@]}" parallel.local_sgd.steps=$steps
    "$program" ckpt diff "$work/whole-$steps/ckpt" "$work/parts-$steps/ckpt" > "$work/diff" || { cat "$work/diff" >&2; fail "resumed local updates differ from uninterrupted ones"; }
  done
}

# No step before the evaluation averages the weights by itself.
local_updates_are_evaluated_as_the_saved_mean() {
  local keys=(data.val="$work/shards" eval.every=4 parallel.reduction=fast) list=() step found
  train 3 evaluated "${keys[@]}" parallel.local_sgd.steps=3
  for set in "${keys[@]}"; do list+=(--set "$set"); done
  for step in 4 8; do
    found=$("$program" eval "$work/train.yaml" "${list[@]}" --from "$work/evaluated/ckpt/step-0000000$step" --json 2> /dev/null | grep -o '"loss":[0-9.]*' | cut -d: -f2)
    [[ -n $found ]] && grep "\"step\":$step," "$work/evaluated/metrics.jsonl" | grep -q "\"val_loss\":$found[,}]" || fail "after step $step training reported a loss other than $found"
  done
}

contradictions_name_their_keys() {
  local key
  for key in "parallel.reduction=canonical" "parallel.strategy=zero2" "batch.sync_each=true" "precision.reduce=bf16"; do
    "$program" train "$work/train.yaml" --print-config --set parallel.reduction=fast --set parallel.compression.type=powersgd --set "$key" > "$work/out" 2>&1 &&
      fail "powersgd with $key: no error"
    grep -q "${key%=*}" "$work/out" && grep -q 'parallel.compression' "$work/out" || { cat "$work/out" >&2; fail "powersgd with $key: the error does not name it"; }
  done
  for key in "parallel.reduction=canonical" "parallel.strategy=zero1" "batch.sync_each=true" "parallel.check_sync=5" "precision.reduce=bf16" "parallel.compression.type=powersgd"; do
    "$program" train "$work/train.yaml" --print-config --set parallel.reduction=fast --set parallel.local_sgd.steps=4 --set "$key" > "$work/out" 2>&1 &&
      fail "local_sgd with $key: no error"
    grep -q "${key%.*}" "$work/out" && grep -q 'parallel.local_sgd' "$work/out" || { cat "$work/out" >&2; fail "local_sgd with $key: the error does not name it"; }
  done
}

for name in the_mean_of_local_updates_equals_summed_gradients local_updates_are_averaged_periodically_and_for_saves local_updates_are_averaged_at_the_configured_interval resuming_local_updates_matches_the_uninterrupted_run local_updates_are_evaluated_as_the_saved_mean compressed_gradients_train_and_a_resume_warns_of_lost_state a_resume_warns_only_of_lost_state reduced_precision_gradients_are_close_and_warn contradictions_name_their_keys fast_is_close_to_canonical_and_warns_about_reproducibility a_fast_run_is_repeatable resuming_on_other_ranks_warns_that_bits_may_differ; do
  echo "[ RUN      ] $name"
  "$name"
  echo "[       OK ] $name"
done
