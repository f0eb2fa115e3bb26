#!/usr/bin/env bash
# Tests failing comm_nccl runs on three ranks: no rank hangs, and each reports the reason.
. "$(dirname "$0")/../cli/lib.sh"
command -v mpirun >/dev/null && [[ -x ${ENDS:-} ]] || skip "this build has no MPI or no NCCL"

# run_failure NAME: see mpi_ends.sh.
run_failure() {
  local status=0
  rm -f got.*
  "$TEST_SOURCE_DIR/tests/support/mpirun.sh" 3 "$ENDS" "$1" >said 2>&1 || status=$?
  ! grep -q 'LeakSanitizer\|AddressSanitizer\|ThreadSanitizer' said || fail "$(cat said)"
  return "$status"
}

a_missing_rank_ends_the_run_and_is_named() {
  ! run_failure late || fail "mpirun reported success"
  contains "$(cat got.0)" "ETIMEDOUT rank 0 of 3 waited too long for the weights of step 7"
  contains "$(cat got.0)" "nothing from rank 1; rank 1: at data of step 7 for "
  for r in 1 2; do
    contains "$(cat got.$r)" "ECONNABORTED the run was ended: rank 0: "
    contains "$(cat got.$r)" "waited too long for the weights of step 7: nothing from rank 1"
  done
}

a_transfer_that_never_ends_is_aborted() {
  ! run_failure stuck || fail "mpirun reported success"
  contains "$(cat got.0)" "ETIMEDOUT rank 0 of 3 waited too long for the weights of step 7"
  contains "$(cat got.0)" "all ranks arrived, but their GPUs or the network made no progress"
  contains "$(cat got.1)" "ECONNABORTED"
  contains "$(cat got.2)" "ECONNABORTED"
}

an_abort_ends_all_work_on_all_ranks() {
  ! run_failure abort || fail "mpirun reported success"
  for r in 0 1 2; do
    contains "$(cat got.$r)" "ECONNABORTED the run was ended: rank 2 aborted it"
  done
}

an_abort_is_seen_by_ranks_that_only_poll() {
  ! run_failure looked || fail "mpirun reported success"
  for r in 0 1 2; do contains "$(cat got.$r)" "ECONNABORTED the run was ended: rank 2 aborted it"; done
}

halted_work_does_not_block_freeing_memory() {
  ! run_failure halt || fail "mpirun reported success"
  for r in 0 2; do contains "$(cat got.$r)" "ECONNABORTED operations in flight between GPUs were aborted"; done
  contains "$(cat got.1)" "EIO the disk failed"
}

work_on_two_communicators_ends_together() {
  ! run_failure two || fail "mpirun reported success"
  for r in 0 1 2; do contains "$(cat got.$r)" "ECONNABORTED the run was ended: rank 0 aborted it"; done
}

checked_calls_name_the_diverging_rank() {
  ! run_failure checked || fail "mpirun reported success"
  contains "$(cat got.*)" "EPROTO ranks do not make the same calls: call " # the first to detect it ends the others
  contains "$(cat got.*)" "expected all_reduce_i64 of 1 integers (sum) for the weights of step 7, as on rank 0, found all_reduce_i64 of 1 integers (sum) for the norm"
}

a_dead_rank_ends_the_others() {
  ! run_failure dead || fail "mpirun reported success"
  contains "$(cat said)" "signal 9 (Killed)"
}

run_cases a_missing_rank_ends_the_run_and_is_named a_transfer_that_never_ends_is_aborted an_abort_ends_all_work_on_all_ranks \
  an_abort_is_seen_by_ranks_that_only_poll halted_work_does_not_block_freeing_memory work_on_two_communicators_ends_together \
  checked_calls_name_the_diverging_rank a_dead_rank_ends_the_others
