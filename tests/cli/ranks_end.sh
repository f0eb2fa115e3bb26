#!/usr/bin/env bash
# A run on real ranks that is asked to stop, or has a killed, suspended or stuck rank: all ranks end
# soon and report why.
. "$(dirname "$0")/lib.sh"
mpirun_sh=$TEST_SOURCE_DIR/tests/support/mpirun.sh
command -v mpirun >/dev/null && [[ -n ${MPI:-} ]] || skip "there is no MPI"

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 1000000}
data:       {train: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 32, patch: 8}
batch:      {global: 12, micro: 4}
checkpoint: {every: 0}
log:        {every: 1}
YAML
# Records each rank's pid. Only rank 1 has FAULT.
cat >rank <<'SH'
#!/bin/sh
echo $$ >pid.$OMPI_COMM_WORLD_RANK
[ "$OMPI_COMM_WORLD_RANK" != 1 ] || export MILLRACE_FAULT="${FAULT:-}"
exec "$@"
SH
chmod +x rank

# start_run OPTION...: starts three ranks as $job and waits for three steps, or STEPS.
start_run() {
  rm -f pid.* && : >errors
  "$mpirun_sh" 3 ./rank "$MILLRACE" train train.yaml "$@" >out 2>errors &
  job=$!
  trap 'kill -TERM $job' EXIT # even if the test fails
  until [[ $(grep -c '^step [0-9]*/' errors) -ge ${STEPS:-3} ]]; do
    kill -0 $job 2>/dev/null || fail "it ended: $(cat errors)"
    sleep 0.05
  done
}
# wait_for_end: waits until all ranks are gone; sets $exit_status to mpirun's status.
wait_for_end() {
  local r
  exit_status=0
  wait $job || exit_status=$?
  trap - EXIT
  for r in 0 1 2; do
    while kill -0 "$(cat pid.$r)" 2>/dev/null; do sleep 0.05; done
  done
}

a_signal_to_any_rank_stops_all_after_the_same_step() {
  local round=0 rank signal
  for rank in 0 2; do
    for signal in TERM USR1; do
      round=$((round + 1))
      start_run --set run.dir=runs/signal
      kill -$signal "$(cat pid.$rank)"
      wait_for_end
      same "$exit_status" 75 "$(cat errors)"
      grep -q '^stopped on request after step' errors
      ! grep -q '^millrace' errors || fail "$(cat errors)"
      same "$(find runs/signal/ckpt -name 'step-*' | wc -l)" $((round < 3 ? round : 3)) "checkpoints after $round stops"
    done
  done
  same "$(grep -c '^resuming at step' errors)" 1
}

a_timed_save_happens_on_all_ranks() {
  start_run --set run.dir=runs/clock --set checkpoint.every=50ms
  until grep -q 'checkpoint saved' errors; do
    kill -0 $job 2>/dev/null || fail "it ended: $(cat errors)"
    sleep 0.05
  done
  kill -TERM "$(cat pid.1)"
  wait_for_end
  same "$exit_status" 75 "$(cat errors)"
  millrace verify runs/clock/ckpt --quiet
}

a_killed_rank_ends_the_run() {
  start_run --set run.dir=runs/killed
  kill -KILL "$(cat pid.1)"
  wait_for_end
  [[ $exit_status != 0 ]] || fail "mpirun reported success"
  contains "$(cat errors)" "signal 9 (Killed)"
}

an_unresponsive_rank_is_named() {
  start_run --set run.dir=runs/stopped --set parallel.timeout=10s
  kill -STOP "$(cat pid.2)"
  wait_for_end
  [[ $exit_status != 0 ]] || fail "mpirun reported success"
  contains "$(cat errors)" "rank 2: no answer, as if the process were stopped"
}

a_stuck_rank_is_named_with_its_operation() {
  # the loader keeps so few photos in memory: it reads only for the first step
  STEPS=0 FAULT=read:hold@3+:shard-000000 start_run --set run.dir=runs/stuck --set parallel.timeout=10s
  wait_for_end
  [[ $exit_status != 0 ]] || fail "mpirun reported success"
  grep -qE '^millrace: rank [02]: rank [02] of 3 waited too long for (the step|gradients of ).*: found nothing from ranks? ([02], )?1(, 2)?; .*rank 1: at data of step [0-9]+ for [0-9.]+ s; ' errors
}

run_cases a_signal_to_any_rank_stops_all_after_the_same_step a_timed_save_happens_on_all_ranks a_killed_rank_ends_the_run \
  an_unresponsive_rank_is_named a_stuck_rank_is_named_with_its_operation
