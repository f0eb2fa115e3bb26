#!/usr/bin/env bash
# `millrace train --dry-run` predicts the memory, traffic and checkpoint bytes of each rank of a run
# with the same settings exactly.
. "$(dirname "$0")/lib.sh"
mpirun_sh=$TEST_SOURCE_DIR/tests/support/mpirun.sh
has_mpi() { command -v mpirun >/dev/null && [[ -n ${MPI:-} ]]; }
strategies='ddp zero1 zero2 zero3 shard_grad_op hybrid_shard'

"$RENDER_SHAPES" --count 12 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
for i in 1 2 3 4; do cat "$0"; done >text.txt # enough tokens
millrace convert dataset text.txt tokens --tokenizer bytes --quiet >/dev/null
cat >vit.yaml <<'YAML'
run:        {dir: runs/vit, seed: 3, steps: 3}
threads:    1
data:       {train: shards, val: shards, memory: 32MiB, workers: 1, image: {size: 32}}
model:      {layers: 3, heads: 2, width: 48, patch: 8}
batch:      {global: 24, micro: 2}
checkpoint: {keep: {last: 1}}
YAML
cat >gpt2.yaml <<'YAML'
run:        {dir: runs/gpt2, seed: 3, steps: 3}
threads:    1
data:       {train: tokens, memory: 32MiB, workers: 1, text: {block: 32}}
model:      {type: gpt2, layers: 3, heads: 2, width: 48}
batch:      {global: 24, micro: 2}
checkpoint: {keep: {last: 1}}
YAML

# rank_usage FILE: prints one line per rank, with its memory and traffic.
rank_usage() { grep -o '"rank":[0-9]*,"memory":{[^}]*},"a_step":{[^}]*}' "$1"; }
value() { grep -o "\"$1\":[0-9]*" "$2" | head -n 1 | cut -d: -f2; }

# dry_run_matches_a_real_run RANKS CONFIG SETTING...
dry_run_matches_a_real_run() {
  local n=$1 config=$2 what="$*" list=() launch=()
  shift 2
  for set in run.dir=runs/it "$@"; do list+=(--set "$set"); done
  rm -rf runs/it
  millrace train "$config" --dry-run --ranks "$n" --json "${list[@]}" >predicted 2>errors || fail "$what: $(cat errors)"
  [[ ! -e runs/it ]] || fail "$what: a dry run left files"
  ((n == 1)) || launch=("$mpirun_sh" "$n")
  "${launch[@]}" "$MILLRACE" train "$config" --json "${list[@]}" >found 2>errors || fail "$what: $(cat errors)"
  same "$(rank_usage predicted | wc -l)" "$n" "$what: ranks"
  same "$(rank_usage predicted)" "$(rank_usage found)" "$what"
  same "$(value checkpoint_bytes predicted)" "$(cat runs/it/ckpt/step-*/*.safetensors | wc -c)" "$what: checkpoint"
}

the_null_device_is_a_dry_run() {
  millrace train vit.yaml --dry-run --ranks 4 --json --set device=cpu >by_flag 2>errors || fail "$(cat errors)"
  sed 's/^threads:.*/device: null/' vit.yaml >counts.yaml
  millrace train counts.yaml --ranks 4 --json --set threads=1 >by_device 2>errors || fail "$(cat errors)"
  same "$(rank_usage by_flag)" "$(rank_usage by_device)" 'predictions'
  [[ ! -e runs/vit ]] || fail 'it left files'
  millrace train vit.yaml --quiet --set run.steps=1 >/dev/null
  same "$(status_of millrace eval counts.yaml --from runs/vit/ckpt)" 2 "an evaluation's status"
  contains "$(<errors)" 'device null computes nothing'
}

replicated_and_sharded_state_is_counted() {
  local options='--dry-run --ranks 4 --json --set parallel.strategy=hybrid_shard'
  millrace train vit.yaml $options --set parallel.shard=2 >by_shard 2>errors || fail "$(cat errors)"
  millrace train vit.yaml $options --set parallel.replicate=2 >by_copies 2>errors || fail "$(cat errors)"
  millrace train vit.yaml $options --set parallel.replicate=2 --set parallel.shard=2 >by_both 2>errors || fail "$(cat errors)"
  same "$(rank_usage by_shard)" "$(rank_usage by_copies)" 'replicate alone'
  same "$(rank_usage by_shard)" "$(rank_usage by_both)" 'both'
  ! millrace train vit.yaml $options --set parallel.replicate=4 --set parallel.shard=2 >/dev/null 2>errors || fail 'accepted: 4 x 2 of 4 ranks'
  grep -q 'to be 4 ranks, found 2 x 4' errors || fail "$(cat errors)"
  ! millrace train vit.yaml $options --set parallel.replicate=3 >/dev/null 2>errors || fail 'accepted: 3 copies on 4 ranks'
  grep -q 'parallel.replicate to divide 4 ranks, found 3' errors || fail "$(cat errors)"
}

one_rank_uses_the_predicted_memory() {
  local config
  for config in vit.yaml gpt2.yaml; do
    dry_run_matches_a_real_run 1 $config
    dry_run_matches_a_real_run 1 $config model.recompute=1 model.offload=2 parallel.offload.optimizer=true
    dry_run_matches_a_real_run 1 $config optimizer.type=sgd optimizer.momentum=0.9 'model.freeze=embed.*'
  done
}

each_strategy_uses_the_predicted_memory_and_traffic() {
  has_mpi || skip "there is no MPI"
  local strategy n config
  for strategy in $strategies; do
    dry_run_matches_a_real_run 2 gpt2.yaml parallel.strategy="$strategy"
    dry_run_matches_a_real_run 3 vit.yaml parallel.strategy="$strategy"
    [[ -z ${SANITIZE:-} ]] || continue
    dry_run_matches_a_real_run 4 gpt2.yaml parallel.strategy="$strategy"
    dry_run_matches_a_real_run 4 vit.yaml parallel.strategy="$strategy" parallel.bucket=16KiB
  done
}

each_setting_uses_the_predicted_memory_and_traffic() {
  has_mpi || skip "there is no MPI"
  dry_run_matches_a_real_run 2 gpt2.yaml parallel.strategy=zero3 model.recompute=2 model.offload=1 parallel.offload.optimizer=true
  dry_run_matches_a_real_run 2 vit.yaml parallel.strategy=zero3 'model.freeze=blocks.0.*' parallel.prefetch=2
  dry_run_matches_a_real_run 2 gpt2.yaml parallel.strategy=zero3 parallel.offload.params=true parallel.wrap_min_params=20000 parallel.groups_at_once=2
  dry_run_matches_a_real_run 2 gpt2.yaml parallel.strategy=ddp parallel.reduction=fast
  dry_run_matches_a_real_run 3 vit.yaml parallel.strategy=zero2 parallel.reduction=fast
  dry_run_matches_a_real_run 3 gpt2.yaml parallel.strategy=ddp batch.sync_each=true
  dry_run_matches_a_real_run 4 vit.yaml parallel.strategy=hybrid_shard parallel.shard=2
  dry_run_matches_a_real_run 2 vit.yaml parallel.strategy=zero2 parallel.keep_below_params=3000
  dry_run_matches_a_real_run 3 gpt2.yaml parallel.strategy=shard_grad_op batch.global=10
  dry_run_matches_a_real_run 2 gpt2.yaml parallel.strategy=zero1 parallel.check_sync=1
}

non_exact_settings_use_the_predicted_memory_and_traffic() {
  has_mpi || skip "there is no MPI"
  local fast=parallel.reduction=fast powersgd=parallel.compression.type=powersgd
  dry_run_matches_a_real_run 2 vit.yaml parallel.strategy=zero1 precision.reduce=bf16
  dry_run_matches_a_real_run 3 gpt2.yaml parallel.strategy=zero3 $fast precision.reduce=fp16
  dry_run_matches_a_real_run 1 gpt2.yaml $fast $powersgd
  dry_run_matches_a_real_run 1 gpt2.yaml $fast parallel.local_sgd.steps=2
  dry_run_matches_a_real_run 2 gpt2.yaml $fast $powersgd parallel.compression.start_step=2
  dry_run_matches_a_real_run 3 vit.yaml $fast $powersgd parallel.compression.rank=4 parallel.compression.error_feedback=false parallel.bucket=16KiB
  dry_run_matches_a_real_run 2 gpt2.yaml $fast parallel.local_sgd.steps=2 optimizer.type=sgd 'model.freeze=blocks.0.*'
  dry_run_matches_a_real_run 3 vit.yaml $fast parallel.local_sgd.steps=3
}

# 84 images: 7 steps in the first epoch, then 1 with 4 times the batch, then 3 with twice the batch.
a_growing_batch_reports_the_maximum_memory() {
  local small=(batch.global=12 run.steps=14) grows='batch.schedule=1:4, 2:2' first n
  millrace train vit.yaml --dry-run --json "${small[@]/#/--set=}" >predicted
  first=$(value total_bytes predicted)
  for n in 1 2 3; do
    ((n == 1)) || has_mpi || skip "there is no MPI"
    dry_run_matches_a_real_run $n vit.yaml "${small[@]}" "$grows"
    same "$(value micro_batches_count predicted)" 12 "micro-batches of the last step"
  done
  dry_run_matches_a_real_run 1 vit.yaml "${small[@]}" "$grows" run.steps=8
  same "$(value micro_batches_count predicted)" 24 "micro-batches of the last step"
  (($(value total_bytes predicted) > first)) || fail "predicted $(value total_bytes predicted) bytes for a growing batch, $first without growth"
  dry_run_matches_a_real_run 1 vit.yaml "${small[@]}" "$grows" run.steps=7
  same "$(value total_bytes predicted)" "$first" "where the run ends before the batch grows"
  # --fits and the table of strategies also cover the whole run
  millrace train vit.yaml --dry-run --json "${small[@]/#/--set=}" --set "$grows" >predicted
  millrace train vit.yaml --dry-run --json "${small[@]/#/--set=}" --set "$grows" --all-strategies >all
  contains "$(cat all)" "$(grep -o '"memory":{[^}]*},"a_step":{[^}]*}' predicted | head -n 1)"
  millrace train vit.yaml --dry-run --json "${small[@]/#/--set=}" --set "$grows" --fits "$(value total_bytes predicted)" >fits
  same "$(grep -o '"memory_bytes":[0-9]*' fits | cut -d: -f2 | sort -n | tail -n 1)" "$(value total_bytes predicted)"
}

flops_count_the_matrix_products() {
  local items=24 width=48 layers=3 block=32 vocabulary=512 pairs forward
  millrace train gpt2.yaml --dry-run --json --set model.vocabulary=$vocabulary >predicted
  pairs=$((block * (block + 1) / 2))
  # per item: the products of each block, its attention (scores and weighted sums), the head
  forward=$((layers * (24 * width * width * block + 4 * pairs * width) + 2 * width * vocabulary * block))
  same "$(printf %.0f "$(grep -o '"flops":[0-9.e+]*' predicted | cut -d: -f2)")" $((3 * forward * items)) "flops"
}

# The resident memory of strategies differs by the predicted amounts. All groups of the model have
# the size of a block, except the last norm: shard_grad_op keeps a buffer of the largest group's size
# for each group, and barely touches the norm's buffer.
no_strategy_keeps_an_unreported_copy() {
  has_mpi || skip "there is no MPI"
  [[ -z ${SANITIZE:-} ]] || skip "a sanitizer's own memory hides it"
  local strategy less found_less list=(--set model.width=384 --set model.heads=8 --set model.layers=3 --set model.vocabulary=4608 --set run.steps=1 --set batch.global=2
    --set batch.micro=1 --set checkpoint.staging=8MiB)
  declare -A predicted found
  for strategy in $strategies; do
    rm -rf runs/big
    millrace train gpt2.yaml --dry-run --ranks 2 --json "${list[@]}" --set parallel.strategy="$strategy" >predicted
    "$mpirun_sh" 2 "$MILLRACE" train gpt2.yaml --json "${list[@]}" --set run.dir=runs/big --set parallel.strategy="$strategy" >found 2>errors || fail "$(cat errors)"
    predicted[$strategy]=$(value total_bytes predicted) found[$strategy]=$(value resident_peak_bytes found)
    less=$((predicted[ddp] - predicted[$strategy])) found_less=$((found[ddp] - found[$strategy]))
    [[ $strategy == ddp ]] || ((less > 10000000)) || fail "predicted only $less bytes less than ddp for $strategy"
    ((found_less >= less * 85 / 100)) && { [[ $strategy == shard_grad_op ]] || ((found_less <= less * 115 / 100)); } ||
      fail "predicted $less bytes less than ddp for $strategy, found $found_less"
  done
}

# figures FILE: the figures for each setting that --fits lists.
figures() { grep -o '"memory_bytes":[^}]*' "$1"; }

fitting_settings_are_listed_by_cost() {
  millrace train gpt2.yaml --dry-run --ranks 4 --json >predicted
  local total smaller=0
  total=$(value total_bytes predicted)
  # all fit: sorted by traffic, then by computation
  millrace train gpt2.yaml --dry-run --ranks 4 --fits 1GB --json >fits
  same "$(grep -o '"set":' fits | wc -l)" 10 "settings"
  same "$(figures fits | sort | uniq -d)" "" "identical settings"
  grep -o '"sent_bytes":[0-9]*,"flops":[0-9.e+]*' fits | tr ',' ' ' | sed 's/"[a-z_]*"://g' >costs
  sort -s -k1,1n -k2,2g costs | cmp - costs || fail "not by cost: $(cat costs)"
  # less than the given strategy uses: other strategies fit
  millrace train gpt2.yaml --dry-run --ranks 4 --fits $((total - 1)) --json >fits
  while read -r bytes; do
    ((bytes < total)) || fail "$bytes do not fit into $((total - 1))"
    smaller=$((smaller + 1))
  done < <(grep -o '"memory_bytes":[0-9]*' fits | cut -d: -f2)
  ((smaller > 0 && smaller < 10)) || fail "$smaller settings fit into less"
  # a dry run of a listed setting gives the listed figures
  local set least list=()
  set=$(grep -o '"set":"[^"]*"' fits | tail -n 1 | cut -d'"' -f4)
  least=$(grep -o '"memory_bytes":[0-9]*' fits | tail -n 1 | cut -d: -f2)
  for one in $set; do list+=(--set "$one"); done
  millrace train gpt2.yaml --dry-run --ranks 4 --json "${list[@]}" >predicted
  same "$(value total_bytes predicted)" "$least" "$set"
  same "$(status_of "$MILLRACE" train gpt2.yaml --dry-run --ranks 4 --fits 1MiB)" 1 "a limit that nothing meets"
  contains "$(cat errors)" "no setting fits"
  contains "$(cat errors)" "with parallel.strategy=zero2 model.recompute=1 batch.micro=1"
  contains "$(cat errors)" "data.text.block"
}

one_rank_is_offered_the_configured_strategy_only() {
  millrace train gpt2.yaml --dry-run --ranks 1 --fits 1GB --json --set parallel.strategy=zero2 >fits
  same "$(grep -o '"set":"[^"]*"' fits | xargs)" \
    'set:parallel.strategy=zero2 set:parallel.strategy=zero2 model.recompute=1' "settings of one rank"
}

the_smallest_setting_on_a_gpu_offloads_parameters() {
  local n options=(gpt2.yaml --dry-run --set device=cuda --json) list one set least
  millrace train "${options[@]}" >predicted 2>errors || { grep -q 'no CUDA' errors && skip "this build has no CUDA"; fail "$(cat errors)"; }
  for n in 1 4; do
    millrace train "${options[@]}" --ranks $n --fits 1GB >fits 2>errors || fail "$(cat errors)"
    same "$(figures fits | sort | uniq -d)" "" "$n ranks: identical settings"
    least=$(grep -o '"memory_bytes":[0-9]*' fits | cut -d: -f2 | sort -n | head -n 1)
    set=$(grep -o "\"set\":\"[^\"]*\",\"memory_bytes\":$least" fits | head -n 1 | cut -d'"' -f4)
    contains "$set" "parallel.offload.params=true"
    list=()
    for one in $set; do list+=(--set "$one"); done
    millrace train "${options[@]}" --ranks $n "${list[@]}" >predicted 2>errors || fail "$set: $(cat errors)"
  done
}

# For each way to configure the batch, the listed setting gives the listed memory.
a_halved_micro_batch_is_listed_as_a_usable_setting() {
  local batch_settings least set list one
  grep -v '^batch' gpt2.yaml >free.yaml
  for batch_settings in "batch.global=48 batch.micro=4" "batch.global=48 batch.accumulation=3" "batch.micro=4 batch.accumulation=3" \
    "batch.global=48 batch.micro=4 batch.accumulation=3"; do
    list=()
    for one in $batch_settings; do list+=(--set "$one"); done
    millrace train free.yaml --dry-run --ranks 4 --fits 1GB --json "${list[@]}" >fits
    least=$(grep -o '"memory_bytes":[0-9]*' fits | cut -d: -f2 | sort -n | head -n 1)
    millrace train free.yaml --dry-run --ranks 4 --fits $((least - 1)) --json "${list[@]}" >fits
    set=$(grep -o '"set":"[^"]*"' fits | head -n 1 | cut -d'"' -f4)
    contains "$set" "batch.micro=2"
    for one in $set; do list+=(--set "$one"); done
    millrace train free.yaml --dry-run --ranks 4 --json "${list[@]}" >predicted
    same "$(value total_bytes predicted) $(value micro_batches_count predicted)" "$(value memory_bytes fits) 24" "$batch_settings: $set"
  done
}

all_strategies_match_individual_dry_runs() {
  local strategy
  millrace train vit.yaml --dry-run --ranks 3 --all-strategies --json >all
  for strategy in $strategies; do
    millrace train vit.yaml --dry-run --ranks 3 --set parallel.strategy="$strategy" --json >predicted
    grep -o "\"strategy\":\"$strategy\",\"memory\":{[^}]*},\"a_step\":{[^}]*},\"checkpoint_bytes\":[0-9]*" all >of_all || fail "$strategy is absent"
    contains "$(cat predicted)" "$(sed 's/^"strategy":"[^"]*",//' of_all)"
  done
  same "$(millrace train vit.yaml --dry-run --ranks 3 --all-strategies | wc -l)" 7 "lines of the table"
}

only_valid_settings_are_listed() {
  local set=(--set parallel.reduction=fast --set parallel.local_sgd.steps=2)
  same "$(millrace train gpt2.yaml --dry-run --ranks 4 --all-strategies "${set[@]}" | tail -n +2 | cut -d' ' -f1)" ddp "with local updates"
  millrace train gpt2.yaml --dry-run --ranks 4 --fits 1GB --json "${set[@]}" >fits
  same "$(grep -o '"set":"parallel.strategy=[a-z0-9_]*' fits | cut -d= -f2 | sort -u)" ddp "with local updates, what fits"
  millrace train gpt2.yaml --dry-run --ranks 4 --all-strategies --json --set parallel.strategy=zero3 --set parallel.offload.params=true >predicted
  same "$(grep -o '"strategy":"[a-z0-9_]*' predicted | cut -d'"' -f4 | xargs)" "zero3 shard_grad_op hybrid_shard" "with parameters in the host's memory"
}

# The parts of blocks that all ranks hold determine which rank writes a part; each part takes a
# whole block of staging.
each_ranks_part_of_the_consolidated_file_is_reported() {
  has_mpi || skip "there is no MPI"
  local full=checkpoint.layout=full
  dry_run_matches_a_real_run 1 vit.yaml $full
  dry_run_matches_a_real_run 3 gpt2.yaml $full model.width=256 parallel.strategy=zero3
  dry_run_matches_a_real_run 2 vit.yaml $full parallel.strategy=ddp model.width=256
  dry_run_matches_a_real_run 4 vit.yaml $full parallel.strategy=hybrid_shard parallel.shard=2 parallel.keep_below_params=3000
  dry_run_matches_a_real_run 2 gpt2.yaml $full parallel.reduction=fast parallel.local_sgd.steps=2
}

dry_run_options_are_refused_without_dry_run() {
  same "$(status_of "$MILLRACE" train vit.yaml --fits 1GB)" 2
  contains "$(cat errors)" "--dry-run"
  same "$(status_of "$MILLRACE" train vit.yaml --dry-run --ranks 4 --local-ranks 3)" 2
}

run_cases the_null_device_is_a_dry_run replicated_and_sharded_state_is_counted one_rank_uses_the_predicted_memory each_strategy_uses_the_predicted_memory_and_traffic each_setting_uses_the_predicted_memory_and_traffic non_exact_settings_use_the_predicted_memory_and_traffic \
  a_growing_batch_reports_the_maximum_memory flops_count_the_matrix_products fitting_settings_are_listed_by_cost \
  one_rank_is_offered_the_configured_strategy_only the_smallest_setting_on_a_gpu_offloads_parameters a_halved_micro_batch_is_listed_as_a_usable_setting \
  all_strategies_match_individual_dry_runs \
  only_valid_settings_are_listed each_ranks_part_of_the_consolidated_file_is_reported dry_run_options_are_refused_without_dry_run no_strategy_keeps_an_unreported_copy
