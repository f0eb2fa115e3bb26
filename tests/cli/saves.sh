#!/usr/bin/env bash
# When `millrace train` saves, what it keeps, and how it ends: steps, clock, epochs, evaluations,
# a time limit, a failed save.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 12}
data:       {train: shards, val: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 32, patch: 8}
batch:      {global: 16, micro: 8}
schedule:   {type: constant}
checkpoint: {every: 2, keep: {last: 0}}
eval:       {every: 5}
YAML
millrace train train.yaml --quiet >/dev/null || exit 1

# train NAME SETTING...: a separate run; its log goes to errors, its status is printed.
train() {
  local name=$1 settings=() setting
  shift
  for setting; do settings+=(--set "$setting"); done
  status_of millrace train train.yaml --set run.dir="runs/$name" "${settings[@]}"
}
steps_of() { ls "$1" | sed -n 's/^step-0*//p' | paste -sd ' '; }

saves_happen_at_configured_steps_and_epoch_ends() {
  same "$(steps_of runs/a/ckpt)" "2 4 6 8 10 12"
  same "$(train epochs checkpoint.every=0 checkpoint.on_epoch_end=true)" 0 # epochs of 3 steps: 56 images in batches of 16
  same "$(steps_of runs/epochs/ckpt)" "3 6 9 12"
  same "$(train both checkpoint.every=5 checkpoint.on_epoch_end=true)" 0
  same "$(steps_of runs/both/ckpt)" "3 5 6 9 10 12"
  same "$(millrace ckpt hash runs/both/ckpt)" "$(millrace ckpt hash runs/a/ckpt)"
}

# epochs_of NAME: prints the epochs in its progress lines, then in its evaluations.
epochs_of() {
  json '" / ".join(" ".join(str(line["epoch"]) for line in d if key in line) for key in ("loss", "val_loss"))' \
    "runs/$1/metrics.jsonl"
}

progress_lines_name_the_epoch_of_their_samples() { # epochs of 3 steps, then of 1
  need_python
  same "$(train lines log.every=1 eval.every=3)" 0
  same "$(epochs_of lines)" "0 0 0 1 1 1 2 2 2 3 3 3 / 0 1 2 3"
  same "$(train grown log.every=1 eval.every=3 batch.schedule=1:3 run.steps=6)" 0
  same "$(epochs_of grown)" "0 0 0 1 2 3 / 0 3"
  same "$(train halves log.every=1 eval.every=3 run.steps=3)" 0
  same "$(train halves log.every=1 eval.every=3)" 0 # resumes at the end of an epoch
  same "$(epochs_of halves)" "0 0 0 1 1 1 2 2 2 3 3 3 / 0 1 2 3"
}

per_node_folders_on_one_host_are_the_folder_itself() {
  same "$(train own checkpoint.shared=false)" 0
  same "$(steps_of runs/own/ckpt)" "2 4 6 8 10 12"
  same "$(millrace ckpt hash runs/own/ckpt)" "$(millrace ckpt hash runs/a/ckpt)"
  ! grep -q elsewhere runs/own/ckpt/step-00000012/manifest.json || fail "something is elsewhere"
}

timed_saves_change_no_bit() {
  local pid status=0 step
  "$MILLRACE" train train.yaml --set run.dir=runs/clock --set run.steps=1000000 --set checkpoint.every=1ms --set checkpoint.keep.last=2 \
    >clock.out 2>clock.log &
  pid=$!
  until [[ $(grep -c 'checkpoint saved' clock.log) -ge 3 ]]; do kill -0 $pid; sleep 0.02; done
  kill -TERM $pid
  wait $pid || status=$?
  same $status 75
  step=$(sed -n 's/^step  *//p' clock.out)
  same "$(train whole run.steps="$step" checkpoint.every=0)" 0
  same "$(millrace ckpt hash "runs/whole/ckpt/step-$(printf %08d "$step")")" "$(millrace ckpt hash runs/clock/ckpt)"
}

retention_keeps_the_last_the_multiples_and_the_best() {
  need_python
  same "$(train all checkpoint.keep.last=0 checkpoint.keep.best.count=0 checkpoint.every=1)" 0
  same "$(train retained checkpoint.every=1 checkpoint.keep.last=2 checkpoint.keep.every=4 checkpoint.keep.best.count=1)" 0
  millrace ckpt list runs/all/ckpt --json >list
  local expected
  expected=$(json '" ".join(map(str, sorted({4, 8, 12, 11} | {min((c["metrics"]["val_loss"], c["step"]) for c in d["checkpoints"] if c["metrics"].get("val_step") == c["step"])[1]})))' list)
  same "$(steps_of runs/retained/ckpt)" "$expected"
  same "$(train accurate checkpoint.every=1 checkpoint.keep.last=1 checkpoint.keep.best.metric=val_accuracy checkpoint.keep.best.mode=max \
    checkpoint.keep.best.count=2)" 0
  expected=$(json '" ".join(map(str, sorted({12} | {s for _, s in sorted((-c["metrics"]["val_accuracy"], c["step"]) for c in d["checkpoints"] if c["metrics"].get("val_step") == c["step"])[:2]})))' list)
  same "$(steps_of runs/accurate/ckpt)" "$expected"
}

keeping_the_best_saves_at_every_evaluation() {
  same "$(train best checkpoint.every=0 checkpoint.keep.last=9 checkpoint.keep.best.count=1)" 0
  same "$(steps_of runs/best/ckpt)" "5 10 12"
}

# Each command runs one step and stops when an evaluation is due; the next command runs it.
kept_steps_and_their_content_do_not_depend_on_stops() {
  need_python
  local rules=(run.steps=6 eval.every=2 checkpoint.every=0 checkpoint.keep.last=1 checkpoint.keep.best.count=2) status run
  same "$(train unstopped "${rules[@]}")" 0
  for _ in {1..7}; do status=$(train stopped "${rules[@]}" run.max_time=1ms); done
  same "$status" 0
  for run in unstopped stopped; do
    millrace ckpt list runs/$run/ckpt --json >list
    json '[(c["step"], c["metrics"]) for c in d["checkpoints"]]' list >$run
  done
  same "$(cat stopped)" "$(cat unstopped)"
  same "$(find runs/stopped -name 'aside*')" ""
}

a_run_stops_before_its_time_limit_and_the_same_command_resumes() {
  local step last
  same "$(train limited run.steps=10000000 run.max_time=2500ms checkpoint.every=0)" 75
  step=$(sed -n 's/^step  *//p' out)
  contains "$(tail -n 1 errors)" "stopped for run.max_time after step $step;"
  same "$(steps_of runs/limited/ckpt)" "$step"
  same "$(train limited run.steps=10000000 run.max_time=1ms checkpoint.every=0)" 75 # one step runs; otherwise repeated attempts would never finish
  last=$(sed -n 's/^step  *//p' out)
  same "$last" $((step + 1))
  same "$(train unlimited run.steps="$last" checkpoint.every=0)" 0
  same "$(millrace ckpt hash runs/limited/ckpt)" "$(millrace ckpt hash runs/unlimited/ckpt)"
  same "$(train unlimited run.steps="$last" run.max_time=1ms checkpoint.every=0)" 0 # the run is complete
}

# The start time given by a job script, or by launch, affects only the limit.
the_time_limit_counts_from_the_given_start() {
  export MILLRACE_BEGAN=1
  same "$(train given-start run.steps=50 run.max_time=23h checkpoint.every=1h)" 75
  contains "$(cat errors)" "stopped for run.max_time after step 1;"
  same "$(train given-start run.steps=3 checkpoint.every=1h)" 0
  same "$(steps_of runs/given-start/ckpt)" "1 3"
  MILLRACE_BEGAN=$(date -d '+1 hour' +%s) # the start time is in the future
  same "$(train ahead run.steps=2 run.max_time=23h)" 0
  MILLRACE_BEGAN=yesterday
  same "$(train never run.steps=2)" 2
  one_line errors
  contains "$(cat errors)" "MILLRACE_BEGAN in the environment is not a time: expected seconds since 1970"
}

# The estimated time of a save is 0.38 s until one is measured; the last save is faster, but the
# reason for the end stays the same.
a_run_stopped_by_its_time_limit_says_so() {
  same "$(train ended model.layers=4 model.width=256 run.max_time=1700ms checkpoint.every=0)" 75
  contains "$(cat errors)" "stopped for run.max_time after step 1;"
  same "$(grep -c 'on request' errors)" 0
}

on_save_error_continues_or_stops_the_run() {
  same "$(MILLRACE_FAULT=finalize:enospc:step-00000008 train continues checkpoint.every=4)" 0
  contains "$(cat errors)" "step-00000008"
  same "$(steps_of runs/continues/ckpt)" "4 12"
  same "$(millrace ckpt hash runs/continues/ckpt)" "$(millrace ckpt hash runs/a/ckpt)"
  same "$(MILLRACE_FAULT=finalize:enospc:step-00000008 train stops checkpoint.every=4 checkpoint.on_save_error=stop)" 1
  contains "$(grep '^millrace: ' errors)" "No space left"
  same "$(steps_of runs/stops/ckpt)" 4
  same "$(train stops checkpoint.every=4 checkpoint.on_save_error=stop)" 0 # from the last complete checkpoint
  contains "$(cat errors)" "resuming at step 4"
  same "$(millrace ckpt hash runs/stops/ckpt)" "$(millrace ckpt hash runs/a/ckpt)"
  same "$(MILLRACE_FAULT=finalize:enospc:step-00000012 train last checkpoint.every=4)" 1 # with any policy: the last step is not saved
  same "$(steps_of runs/last/ckpt)" "4 8"
}

contradictory_rules_are_wrong_usage() {
  local -A advice=([checkpoint.keep.every=4]="checkpoint.keep.last" [checkpoint.keep.best.metric=val_accuracy]="checkpoint.keep.best.mode: max"
    [data.val=]="set data.val" [checkpoint.keep.best.metric=val_los]="val_loss" [checkpoint.every=soon]="15min" [checkpoint.keep.bst.count=1]="checkpoint.keep.best.count")
  local set last
  for set in "${!advice[@]}"; do
    last=3
    [[ $set != checkpoint.keep.every=4 ]] || last=0
    same "$(train wrong checkpoint.keep.last=$last checkpoint.keep.best.count=1 "$set")" 2 "status with $set"
    one_line errors
    contains "$(cat errors)" "${advice[$set]}"
  done
}

run_cases saves_happen_at_configured_steps_and_epoch_ends progress_lines_name_the_epoch_of_their_samples \
  per_node_folders_on_one_host_are_the_folder_itself \
  timed_saves_change_no_bit \
  retention_keeps_the_last_the_multiples_and_the_best keeping_the_best_saves_at_every_evaluation \
  kept_steps_and_their_content_do_not_depend_on_stops \
  a_run_stops_before_its_time_limit_and_the_same_command_resumes \
  the_time_limit_counts_from_the_given_start \
  a_run_stopped_by_its_time_limit_says_so \
  on_save_error_continues_or_stops_the_run \
  contradictory_rules_are_wrong_usage
