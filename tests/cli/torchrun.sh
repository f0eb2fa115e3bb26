#!/usr/bin/env bash
# Ranks with torchrun's variables and without MPI: their results are bit-identical to those of
# one rank, and they end together.
. "$(dirname "$0")/torchrun_lib.sh"
torchrun_sh=$TEST_SOURCE_DIR/tests/support/torchrun.sh

# Records each rank's pid and output.
cat >rank <<'SH'
#!/bin/sh
echo $$ >pid.$RANK
exec "$@" >output.$RANK 2>&1
SH
chmod +x rank

# ranks N COMMAND...: prints the status.
ranks() {
  local status=0
  rm -f pid.* output.*
  "$torchrun_sh" "$1" ./rank "${@:2}" || status=$?
  echo "$status"
}

torchrun_gives_the_bits_of_one_rank_and_of_mpirun() {
  local strategy
  millrace train train.yaml --set run.dir=runs/one --quiet >/dev/null
  for strategy in ddp zero1 zero3; do
    same "$(ranks 3 "$MILLRACE" train train.yaml --set run.dir=runs/$strategy --set parallel.strategy=$strategy)" 0 "$(cat output.*)"
    millrace ckpt diff runs/one/ckpt runs/$strategy/ckpt >/dev/null || fail "$strategy has different bits"
  done
  [[ -n ${MPI:-} ]] && command -v mpirun >/dev/null || return 0
  "$TEST_SOURCE_DIR/tests/support/mpirun.sh" 2 "$MILLRACE" train train.yaml --set run.dir=runs/mpi --quiet >/dev/null
  millrace ckpt diff runs/mpi/ckpt runs/ddp/ckpt >/dev/null || fail "mpirun has different bits"
}

a_trace_holds_the_tcp_traffic_of_ranks() {
  need_python
  same "$(ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/traced --profile 2:3 --quiet)" 0 "$(cat output.*)"
  "$python" "$TEST_SOURCE_DIR/tests/oracle/chrome_trace.py" runs/traced/trace-2-3.json >seen
  same "$(grep -o 'tcp 0' seen | wc -l)" 2 "$(cat seen)"
  for name in progress post "next round" "a reduction" "sent_bytes"; do
    grep -q "\"$name\"" runs/traced/trace-2-3.json || fail "no $name in the trace"
  done
}

a_trace_distinguishes_parameter_all_gathers_from_gradient_sums() {
  local trace=runs/named/trace-2-3.json
  same "$(ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/named --set parallel.strategy=zero3 --profile 2:3 --quiet)" \
    0 "$(cat output.*)"
  grep -q '"gather weights"' $trace || fail "no gather has its name"
  grep -q '"sum gradients"' $trace || fail "no sum has its name"
  ! grep -q '"an all-to-all"' $trace || fail "an operation has no specific name"
}

# count_compute_threads FILE: prints the number of compute threads of rank 0, excluding its main thread.
count_compute_threads() { grep -o '"compute [0-9]*"' "$1" | sort -u | wc -l; }

# A rank with one CPU computes only on its main thread.
ranks_on_a_host_divide_its_cpus() {
  (($(nproc) > 1)) || skip "one processor"
  local all=(--set threads=auto --set data.workers=auto)
  same "$(ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/share --profile 2:3 "${all[@]}")" 0 "$(cat output.*)"
  contains "$(cat output.0)" "divided among its ranks: rank 0 uses $(($(nproc) / 2)) of $(nproc)"
  same "$(count_compute_threads runs/share/trace-2-3.json)" "$(($(nproc) / 2 - 1))"
  cat >bound <<'SH'
#!/bin/sh
exec taskset -c "$(echo "$CPUS" | cut -d' ' -f$((RANK + 1)))" ./rank "$@"
SH
  chmod +x bound
  CPUS=$("$python" -c 'import os; print(*sorted(os.sched_getaffinity(0)))') \
    "$torchrun_sh" 2 ./bound "$MILLRACE" train train.yaml --set run.dir=runs/bound "${all[@]}" || fail "$(cat output.*)"
  ! grep -q "divided among" output.0 || fail "a bound rank gave up some of its CPUs: $(cat output.0)"
}

only_rank_0_prints() {
  same "$(ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/speaks)" 0 "$(cat output.*)"
  contains "$(cat output.0)" "checkpoint saved"
  same "$(cat output.1)" ""
}

a_killed_rank_ends_the_others_and_is_named() {
  local status=0
  rm -f pid.* output.*
  "$torchrun_sh" 3 ./rank "$MILLRACE" train train.yaml --set run.dir=runs/killed --set run.steps=1000000 --set log.every=1 &
  local job=$!
  wait_for_steps kill -0 $job
  kill -9 "$(cat pid.1)"
  wait $job || status=$?
  same "$status" 137
  contains "$(cat output.0 output.2)" "the run was ended: rank 1 is gone"
  ! kill -0 "$(cat pid.0)" 2>/dev/null || fail "rank 0 is still running"
  ! kill -0 "$(cat pid.2)" 2>/dev/null || fail "rank 2 is still running"
}

a_rank_with_another_world_size_is_reported() {
  cat >odd <<'SH'
#!/bin/sh
[ "$RANK" != 1 ] || export WORLD_SIZE=5
exec ./rank "$@"
SH
  chmod +x odd
  rm -f pid.* output.*
  ! "$torchrun_sh" 2 ./odd "$MILLRACE" train train.yaml --set run.dir=runs/odd || fail "it ran"
  contains "$(cat output.0)" "disagree on the number of ranks"
  contains "$(cat output.0)" "give all ranks the same WORLD_SIZE"
}

ranks_without_a_master_address_report_it() {
  same "$(RANK=0 WORLD_SIZE=2 status_of "$MILLRACE" train train.yaml)" 2
  contains "$(cat errors)" "set MASTER_ADDR and MASTER_PORT as torchrun does"
}

# Writes on one rank take several times parallel.timeout.
a_save_longer_than_the_rank_timeout_succeeds() {
  cat >slow <<'SH'
#!/bin/sh
[ "${RANK:-$OMPI_COMM_WORLD_RANK}" != 1 ] || export MILLRACE_FAULT=write:delay=6s@1
exec "$@"
SH
  chmod +x slow
  local settings=(--set checkpoint.every=0 --set parallel.timeout=2s --set parallel.strategy=zero3)
  millrace train train.yaml --set run.dir=runs/fast --quiet >/dev/null
  same "$(ranks 2 ./slow "$MILLRACE" train train.yaml --set run.dir=runs/slow "${settings[@]}")" 0 "$(cat output.*)"
  millrace ckpt diff runs/fast/ckpt runs/slow/ckpt >/dev/null || fail "the checkpoints differ"
  same "$(ranks 2 ./slow "$MILLRACE" train train.yaml --set run.dir=runs/debug --set parallel.debug=true "${settings[@]}")" 0 "$(cat output.*)"
  [[ -n ${MPI:-} ]] && command -v mpirun >/dev/null || return 0
  "$TEST_SOURCE_DIR/tests/support/mpirun.sh" 2 ./slow "$MILLRACE" train train.yaml --set run.dir=runs/slow-mpi "${settings[@]}" >out 2>&1 ||
    fail "$(cat out)"
}

# The staging of rank 1 is full, so its next update waits for the disk, and rank 0 waits for its
# gradients.
a_rank_waiting_for_its_disk_is_not_late() {
  cat >slow <<'SH'
#!/bin/sh
[ "$RANK" != 1 ] || export MILLRACE_FAULT=write:delay=3s@1+:step-00000002
exec "$@"
SH
  chmod +x slow
  local settings=(--set model.width=256 --set model.heads=4 --set model.layers=2 --set run.steps=4)
  settings+=(--set checkpoint.every=2 --set checkpoint.staging=4MiB --set parallel.timeout=2s)
  same "$(ranks 2 ./slow "$MILLRACE" train train.yaml --set run.dir=runs/full "${settings[@]}")" 0 "$(cat output.*)"
  millrace verify runs/full/ckpt/step-00000002 >/dev/null || fail "the save is damaged"
}

ranks_connect_with_a_secret_file_that_is_never_printed() {
  local secret=cafe0123456789abcdef-$RANDOM-cafe
  echo $secret >secret
  chmod 600 secret
  same "$(MILLRACE_SECRET_FILE=$PWD/secret ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/secret -v)" 0 "$(cat output.*)"
  ! grep -rq "$secret" output.* runs/secret || fail "the secret was printed"
  chmod 644 secret
  ! MILLRACE_SECRET_FILE=$PWD/secret "$torchrun_sh" 2 ./rank "$MILLRACE" train train.yaml --set run.dir=runs/open || fail "it ran"
  contains "$(cat output.0)" "the file of the ranks' secret is open to other users: $PWD/secret"
  contains "$(cat output.0)" "chmod 600 FILE"
}

a_rank_with_another_secret_is_refused() {
  cat >other <<'SH'
#!/bin/sh
[ "$RANK" != 1 ] || export MILLRACE_SECRET=another-secret-of-the-ranks
./rank "$@" || { kill "$(cat pid.0)"; exit 1; }
SH
  chmod +x other
  rm -f pid.* output.*
  ! MILLRACE_SECRET=the-secret-of-the-ranks "$torchrun_sh" 2 ./other "$MILLRACE" train train.yaml --set run.dir=runs/refused ||
    fail "it ran"
  contains "$(cat output.1)" "ranks 1 and 0 do not have the same secret"
  contains "$(cat output.0)" "rank 1 connected without the same secret"
  ! grep -q of-the-ranks output.* || fail "a secret was printed"
}

run_cases torchrun_gives_the_bits_of_one_rank_and_of_mpirun a_trace_holds_the_tcp_traffic_of_ranks a_trace_distinguishes_parameter_all_gathers_from_gradient_sums \
  ranks_on_a_host_divide_its_cpus only_rank_0_prints \
  a_killed_rank_ends_the_others_and_is_named a_rank_with_another_world_size_is_reported ranks_without_a_master_address_report_it \
  ranks_connect_with_a_secret_file_that_is_never_printed a_rank_with_another_secret_is_refused \
  a_rank_waiting_for_its_disk_is_not_late \
  a_save_longer_than_the_rank_timeout_succeeds
