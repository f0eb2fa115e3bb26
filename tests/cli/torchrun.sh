#!/usr/bin/env bash
# Ranks with torchrun's variables and without MPI: they give the same bits as one rank, and end
# together.
. "$(dirname "$0")/torchrun_lib.sh"
torchrun_sh=$TEST_SOURCE_DIR/tests/support/torchrun.sh

# Records each rank's pid and output.
cat >rank <<'SH'
#!/bin/sh
echo $$ >pid.$RANK
exec "$@" >said.$RANK 2>&1
SH
chmod +x rank

# ranks N COMMAND...: prints the status.
ranks() {
  local status=0
  rm -f pid.* said.*
  "$torchrun_sh" "$1" ./rank "${@:2}" || status=$?
  echo "$status"
}

torchrun_gives_the_bits_of_one_rank_and_of_mpirun() {
  local strategy
  millrace train train.yaml --set run.dir=runs/one --quiet >/dev/null
  for strategy in ddp zero1 zero3; do
    same "$(ranks 3 "$MILLRACE" train train.yaml --set run.dir=runs/$strategy --set parallel.strategy=$strategy)" 0 "$(cat said.*)"
    millrace ckpt diff runs/one/ckpt runs/$strategy/ckpt >/dev/null || fail "$strategy has other bits"
  done
  [[ -n ${MPI:-} ]] && command -v mpirun >/dev/null || return 0
  "$TEST_SOURCE_DIR/tests/support/mpirun.sh" 2 "$MILLRACE" train train.yaml --set run.dir=runs/mpi --quiet >/dev/null
  millrace ckpt diff runs/mpi/ckpt runs/ddp/ckpt >/dev/null || fail "mpirun has other bits"
}

a_trace_holds_the_tcp_traffic_of_ranks() {
  need_python
  same "$(ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/traced --profile 2:3 --quiet)" 0 "$(cat said.*)"
  "$python" "$TEST_SOURCE_DIR/tests/oracle/chrome_trace.py" runs/traced/trace-2-3.json >seen
  same "$(grep -o 'tcp 0' seen | wc -l)" 2 "$(cat seen)"
  for name in progress post "next round" "a reduction" "sent_bytes"; do
    grep -q "\"$name\"" runs/traced/trace-2-3.json || fail "nothing of $name"
  done
}

a_trace_distinguishes_parameter_all_gathers_from_gradient_sums() {
  local trace=runs/named/trace-2-3.json
  same "$(ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/named --set parallel.strategy=zero3 --profile 2:3 --quiet)" \
    0 "$(cat said.*)"
  grep -q '"gather weights"' $trace || fail "no gather has its name"
  grep -q '"sum gradients"' $trace || fail "no sum has its name"
  ! grep -q '"an all-to-all"' $trace || fail "something has the name of its operation alone"
}

# tracks FILE: the number of compute threads of rank 0, excluding its main thread.
tracks() { grep -o '"compute [0-9]*"' "$1" | sort -u | wc -l; }

# A rank whose share is one CPU computes on its main thread only.
ranks_on_a_host_divide_its_cpus() {
  (($(nproc) > 1)) || skip "one processor"
  local all=(--set threads=auto --set data.workers=auto)
  same "$(ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/share --profile 2:3 "${all[@]}")" 0 "$(cat said.*)"
  contains "$(cat said.0)" "divided among its ranks: rank 0 uses $(($(nproc) / 2)) of $(nproc)"
  same "$(tracks runs/share/trace-2-3.json)" "$(($(nproc) / 2 - 1))"
  cat >bound <<'SH'
#!/bin/sh
exec taskset -c "$(echo "$CPUS" | cut -d' ' -f$((RANK + 1)))" ./rank "$@"
SH
  chmod +x bound
  CPUS=$("$python" -c 'import os; print(*sorted(os.sched_getaffinity(0)))') \
    "$torchrun_sh" 2 ./bound "$MILLRACE" train train.yaml --set run.dir=runs/bound "${all[@]}" || fail "$(cat said.*)"
  ! grep -q "divided among" said.0 || fail "a bound rank gave up a part of its own: $(cat said.0)"
}

only_rank_0_prints() {
  same "$(ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/speaks)" 0 "$(cat said.*)"
  contains "$(cat said.0)" "checkpoint saved"
  same "$(cat said.1)" ""
}

a_killed_rank_ends_the_others_which_name_it() {
  local status=0
  rm -f pid.* said.*
  "$torchrun_sh" 3 ./rank "$MILLRACE" train train.yaml --set run.dir=runs/killed --set run.steps=1000000 --set log.every=1 &
  local job=$!
  await_steps kill -0 $job
  kill -9 "$(cat pid.1)"
  wait $job || status=$?
  same "$status" 137
  contains "$(cat said.0 said.2)" "the run was ended: rank 1 is gone"
  ! kill -0 "$(cat pid.0)" 2>/dev/null || fail "rank 0 is still there"
  ! kill -0 "$(cat pid.2)" 2>/dev/null || fail "rank 2 is still there"
}

a_rank_with_another_world_size_is_reported() {
  cat >odd <<'SH'
#!/bin/sh
[ "$RANK" != 1 ] || export WORLD_SIZE=5
exec ./rank "$@"
SH
  chmod +x odd
  rm -f pid.* said.*
  ! "$torchrun_sh" 2 ./odd "$MILLRACE" train train.yaml --set run.dir=runs/odd || fail "it ran"
  contains "$(cat said.0)" "disagree on the number of ranks"
  contains "$(cat said.0)" "give all ranks the same WORLD_SIZE"
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
  same "$(ranks 2 ./slow "$MILLRACE" train train.yaml --set run.dir=runs/slow "${settings[@]}")" 0 "$(cat said.*)"
  millrace ckpt diff runs/fast/ckpt runs/slow/ckpt >/dev/null || fail "the save is another one"
  same "$(ranks 2 ./slow "$MILLRACE" train train.yaml --set run.dir=runs/debug --set parallel.debug=true "${settings[@]}")" 0 "$(cat said.*)"
  [[ -n ${MPI:-} ]] && command -v mpirun >/dev/null || return 0
  "$TEST_SOURCE_DIR/tests/support/mpirun.sh" 2 ./slow "$MILLRACE" train train.yaml --set run.dir=runs/slow-mpi "${settings[@]}" >out 2>&1 ||
    fail "$(cat out)"
}

# Its staging is full, so its next update waits for the disk, and the other rank waits for its
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
  same "$(ranks 2 ./slow "$MILLRACE" train train.yaml --set run.dir=runs/full "${settings[@]}")" 0 "$(cat said.*)"
  millrace verify runs/full/ckpt/step-00000002 >/dev/null || fail "the save is damaged"
}

ranks_connect_with_a_secret_file_that_is_never_printed() {
  local secret=cafe0123456789abcdef-$RANDOM-cafe
  echo $secret >secret
  chmod 600 secret
  same "$(MILLRACE_SECRET_FILE=$PWD/secret ranks 2 "$MILLRACE" train train.yaml --set run.dir=runs/secret -v)" 0 "$(cat said.*)"
  ! grep -rq "$secret" said.* runs/secret || fail "the secret was told"
  chmod 644 secret
  ! MILLRACE_SECRET_FILE=$PWD/secret "$torchrun_sh" 2 ./rank "$MILLRACE" train train.yaml --set run.dir=runs/open || fail "it ran"
  contains "$(cat said.0)" "the file of the ranks' secret is open to other users: $PWD/secret"
  contains "$(cat said.0)" "chmod 600 FILE"
}

a_rank_with_another_secret_is_refused() {
  cat >other <<'SH'
#!/bin/sh
[ "$RANK" != 1 ] || export MILLRACE_SECRET=another-secret-of-the-ranks
./rank "$@" || { kill "$(cat pid.0)"; exit 1; }
SH
  chmod +x other
  rm -f pid.* said.*
  ! MILLRACE_SECRET=the-secret-of-the-ranks "$torchrun_sh" 2 ./other "$MILLRACE" train train.yaml --set run.dir=runs/refused ||
    fail "it ran"
  contains "$(cat said.1)" "ranks 1 and 0 do not have the same secret"
  contains "$(cat said.0)" "rank 1 connected without the same secret"
  ! grep -q of-the-ranks said.* || fail "a secret was told"
}

run_cases torchrun_gives_the_bits_of_one_rank_and_of_mpirun a_trace_holds_the_tcp_traffic_of_ranks a_trace_distinguishes_parameter_all_gathers_from_gradient_sums \
  ranks_on_a_host_divide_its_cpus only_rank_0_prints \
  a_killed_rank_ends_the_others_which_name_it a_rank_with_another_world_size_is_reported ranks_without_a_master_address_report_it \
  ranks_connect_with_a_secret_file_that_is_never_printed a_rank_with_another_secret_is_refused \
  a_rank_waiting_for_its_disk_is_not_late \
  a_save_longer_than_the_rank_timeout_succeeds
