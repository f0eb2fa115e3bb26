#!/usr/bin/env bash
# Ranks with different configurations, data or kernels end before the first step, and one rank
# reports why.
. "$(dirname "$0")/lib.sh"
mpirun_sh=$TEST_SOURCE_DIR/tests/support/mpirun.sh
torchrun_sh=$TEST_SOURCE_DIR/tests/support/torchrun.sh
command -v mpirun >/dev/null && [[ -n ${MPI:-} ]] || skip "there is no MPI"

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
"$RENDER_SHAPES" --count 8 --side 40 others >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
millrace convert dataset others other --quiet >/dev/null
cp -r shards copy
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 4}
data:       {train: shards, val: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 32, patch: 8}
batch:      {global: 16, micro: 4}
checkpoint: {every: 4}
eval:       {every: 4}
log:        {every: 1}
YAML
# differs RANK WORDS... -- COMMAND: on that rank only, appends the words to the command (--set
# KEY=VALUE) or sets them in its environment (NAME=VALUE).
cat >differs <<'SH'
#!/bin/bash
rank=${OMPI_COMM_WORLD_RANK:-$RANK} other=$1; shift
words=()
while [[ $1 != -- ]]; do words+=("$1"); shift; done
shift
[[ $rank == "$other" ]] || exec "$@"
[[ ${words[0]} == --* ]] && exec "$@" "${words[@]}"
exec env "${words[@]}" "$@"
SH
chmod +x differs
train=("$MILLRACE" train train.yaml)

# check_refused KEY VALUES COMMAND...: expects status 2, one message with the key and both values, and no
# output.
check_refused() {
  local key=$1 values=$2
  rm -rf runs
  same "$(status_of "${@:3}")" 2 "$(cat errors)"
  same "$(grep -c 'ranks do not agree' errors)" 1 "$(cat errors)"
  contains "$(cat errors)" "millrace: rank 0: ranks do not agree on $key"
  contains "$(cat errors)" "$values"
  [[ ! -e runs ]] || fail "it wrote $(find runs)"
}

a_differing_key_is_named_with_both_values() {
  local key first second
  while read -r key first second; do
    check_refused "$key" "expected $first on ranks 0, 2, found $second on rank 1; run every rank with the same configuration" \
      "$mpirun_sh" 3 ./differs 1 --set "$key=$second" -- "${train[@]}" --set "$key=$first"
  done <<'KEYS'
optimizer.lr 0.0003 1
run.seed 3 4
data.image.flip true false
batch.micro 4 2
schedule.warmup 100 1
parallel.strategy ddp zero3
eval.every 4 3
device cpu null
parallel.debug false true
parallel.check_sync 0 1
run.steps 4 5
KEYS
  check_refused model.freeze 'expected "" on rank 0, found "*.bias" on rank 1' "$mpirun_sh" 2 ./differs 1 --set 'model.freeze=*.bias' -- "${train[@]}"
  check_refused checkpoint.dir 'expected runs/a/ckpt on rank 0, found runs/b/ckpt on rank 1' "$mpirun_sh" 2 ./differs 1 --set run.dir=runs/b -- "${train[@]}"
  check_refused data.val 'expected given on rank 0, found empty on rank 1' "$mpirun_sh" 2 ./differs 1 --set data.val= -- "${train[@]}"
  check_refused --resume 'expected absent on rank 0, found never on rank 1' "$mpirun_sh" 2 ./differs 1 --resume never -- "${train[@]}"
  check_refused --dry-run 'expected absent on rank 0, found given on rank 1' "$mpirun_sh" 2 ./differs 1 --dry-run -- "${train[@]}"
}

several_differing_keys_are_counted_and_listed() {
  check_refused "run.seed and 2 more: optimizer.lr, schedule.warmup" "expected 3 on rank 0, found 9 on rank 1" \
    "$mpirun_sh" 2 ./differs 1 --set run.seed=9 --set optimizer.lr=1 --set schedule.warmup=1 -- "${train[@]}"
}

ranks_of_torchrun_are_compared_too() {
  check_refused optimizer.lr "expected 0.0003 on rank 0, found 1 on rank 1" "$torchrun_sh" 2 ./differs 1 --set optimizer.lr=1 -- "${train[@]}"
}

an_evaluation_compares_configurations_too() {
  millrace train train.yaml --set run.dir=trained --quiet >/dev/null 2>&1
  check_refused model.width "expected 32 on rank 0, found 64 on rank 1" "$mpirun_sh" 2 ./differs 1 --set model.width=64 -- "$MILLRACE" eval train.yaml --from trained/ckpt
  check_refused "data.val" "" "$mpirun_sh" 2 ./differs 1 --set data.val=other -- "$MILLRACE" eval train.yaml --from trained/ckpt
}

different_data_is_refused_but_a_copy_is_accepted() {
  local key
  for key in data.train data.val; do
    check_refused "$key" "give all machines the same files" "$mpirun_sh" 2 ./differs 1 --set $key=other -- "${train[@]}"
  done
  same "$(status_of "$mpirun_sh" 2 ./differs 1 --set data.train=copy -- "${train[@]}" --set data.val=copy --quiet)" 0 "$(cat errors)"
}

different_class_names_are_refused() {
  cp -r shards renamed
  chmod -R u+w renamed
  sed -i 's/"moon"/"sun"/' renamed/dataset.json
  check_refused "data.train hash of the class names" "give all machines the same files" \
    "$mpirun_sh" 2 ./differs 1 --set data.train=renamed -- "${train[@]}" --set data.val=
  seq 7 13 >numbers.txt
  seq 0 6 >other.txt
  cp other.txt same.txt
  local train_with_map=("${train[@]}" --set data.label.map=other.txt)
  same "$(status_of "$mpirun_sh" 2 ./differs 1 --set data.label.map=same.txt -- "${train_with_map[@]}" --quiet)" 0 "$(cat errors)"
  check_refused "data.train hash of the class names" "give all machines the same files" \
    "$mpirun_sh" 2 ./differs 1 --set data.label.map=numbers.txt -- "${train_with_map[@]}"
}

# Simulates machines with different files of the same name.
different_initial_weights_are_refused() {
  local seed
  for seed in 3 4; do
    millrace train train.yaml --set run.dir=init-$seed --set run.seed=$seed --quiet >/dev/null 2>&1
    millrace convert checkpoint init-$seed/ckpt init-$seed.safetensors --to full --quiet >/dev/null
  done
  cp init-3.safetensors same.safetensors
  local train_with_init=("${train[@]}" --set model.init=init-3.safetensors)
  same "$(status_of "$mpirun_sh" 2 ./differs 1 --set model.init=same.safetensors -- "${train_with_init[@]}" --quiet)" 0 "$(cat errors)"
  check_refused "fingerprint of the initial weights" "give all machines the same files" \
    "$mpirun_sh" 2 ./differs 1 --set model.init=init-4.safetensors -- "${train_with_init[@]}"
}

settings_without_effect_on_results_may_differ() {
  millrace train train.yaml --set run.dir=alone --quiet >/dev/null 2>&1
  same "$(status_of "$mpirun_sh" 2 ./differs 1 --set log.every=3 --set log.jsonl=own.jsonl --set log.tensorboard=own --set data.workers=2 --set threads=2 --set data.memory=64MiB -- "${train[@]}" --quiet)" 0 "$(cat errors)"
  millrace ckpt diff alone/ckpt runs/a/ckpt >/dev/null || fail "different bits"
}

different_kernels_are_refused_or_allowed_with_a_warning() {
  local own other=Haswell
  own=$(millrace doctor --json | tr '\n' ' ')
  [[ $own == *"(SkylakeX)"* || $own == *"(Sapphire"* || $own == *"(Cooperlake)"* || $own == *"(Zen)"* ]] || skip "OpenBLAS chooses no kernels here that differ from Haswell's"
  check_refused numerics_id "(Haswell)" "$mpirun_sh" 2 ./differs 1 OPENBLAS_CORETYPE=$other -- "${train[@]}"
  contains "$(cat errors)" "parallel.mixed: allow"
  same "$(status_of "$mpirun_sh" 2 ./differs 1 OPENBLAS_CORETYPE=$other -- "${train[@]}" --set parallel.mixed=allow)" 0 "$(cat errors)"
  same "$(grep -c 'ranks use different kernels' errors)" 1 "$(cat errors)"
  local id
  id=$(millrace inspect runs/a/ckpt/step-00000004 --json | grep -o '"numerics_id": *"[^"]*"')
  contains "$id" "rank 0: cpu: "
  contains "$id" " | rank 1: cpu: "
  contains "$id" "(Haswell)"
  same "$(status_of "$mpirun_sh" 2 "${train[@]}" --set parallel.mixed=allow --set run.dir=runs/equal)" 0 "$(cat errors)"
  ! grep -q 'different kernels' errors || fail "a warning about equal ranks"
}

run_cases a_differing_key_is_named_with_both_values several_differing_keys_are_counted_and_listed ranks_of_torchrun_are_compared_too \
  an_evaluation_compares_configurations_too different_data_is_refused_but_a_copy_is_accepted different_class_names_are_refused different_initial_weights_are_refused settings_without_effect_on_results_may_differ \
  different_kernels_are_refused_or_allowed_with_a_warning
