#!/usr/bin/env bash
# Tests failing runs on three ranks: no rank hangs, and each reports the reason.
. "$(dirname "$0")/../cli/lib.sh"
command -v mpirun >/dev/null && [[ ${MPI:-} == TRUE ]] || skip "there is no MPI"

# run_failure NAME: runs the program with that failure. mpirun's messages go to `said`, rank R's result to got.R.
# A sanitizer checks for leaks.
run_failure() {
  local status=0
  rm -f got.*
  "$TEST_SOURCE_DIR/tests/support/mpirun.sh" 3 "$ENDS" "$1" >said 2>&1 || status=$?
  ! grep -q 'LeakSanitizer\|AddressSanitizer' said || fail "$(cat said)"
  return "$status"
}

an_expired_deadline_ends_the_run_and_names_the_late_rank() {
  ! run_failure late || fail "mpirun reported success"
  contains "$(cat got.0)" "ETIMEDOUT rank 0 of 3 waited too long for the gradients of step 7"
  contains "$(cat got.0)" "nothing from rank 1; rank 1: at data of step 7 for "
  for r in 1 2; do
    contains "$(cat got.$r)" "ECONNABORTED the run was ended: rank 0: "
    contains "$(cat got.$r)" "waited too long for the gradients of step 7: nothing from rank 1"
    ! grep -q 'at data' got.$r || fail "$(cat got.$r)"
  done
}

a_rank_that_receives_nothing_is_named() {
  ! run_failure vain || fail "mpirun reported success"
  contains "$(cat got.0)" "ETIMEDOUT rank 0 of 3 waited too long for the weights"
  contains "$(cat got.0)" "rank 2 received nothing"
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

diverging_calls_are_reported() {
  ! run_failure otherwise || fail "mpirun reported success"
  contains "$(cat got.*)" "EPROTO gathering: rank"
  contains "$(cat got.*)" "all ranks must make the same calls in the same order"
}

checked_calls_name_the_diverging_rank() {
  run_failure checked || fail "$(cat said)"
  same "$(cat got.0)" "EPROTO ranks do not make the same calls: call 2 of rank 1: expected all_gather of 8 bytes for the weights, as on rank 0, found all_reduce_i64 of 1 integers (sum) for the norm"
  same "$(cat got.1 got.2 | sort -u)" "EPROTO Protocol error"
}

checked_slices_name_ranks_with_mismatched_sizes() {
  run_failure slices || fail "$(cat said)"
  same "$(cat got.0)" "EPROTO ranks do not make the same calls: call 2, all_to_all for the rows: rank 1 does not send what rank 2 expects: expected 4 bytes, found 5"
  same "$(cat got.1 got.2 | sort -u)" "EPROTO Protocol error"
}

ranks_deadlocked_on_different_communicators_are_reported() {
  ! run_failure elsewhere || fail "mpirun reported success"
  same "$(cat got.0)" "EPROTO ranks do not make the same calls: they wait for each other, rank 0 in call 2 on a communicator of 3 ranks, rank 1 in call 2 on another communicator of 3: expected all_gather of 8 bytes for the weights, as on rank 0, found all_reduce_i64 of 1 integers (sum) for the norm"
  same "$(cat got.1 got.2 | sort -u)" "EPROTO Protocol error"
}

checked_calls_wait_for_a_slow_rank() {
  run_failure slow-checked || fail "$(cat said)"
  same "$(cat got.0 got.1 got.2 | sort -u)" "0 "
}

a_rank_missing_from_a_checked_split_is_named() {
  ! run_failure split || fail "mpirun reported success"
  for r in 0 2; do
    contains "$(cat got.$r)" "waited too long for split"
    contains "$(cat got.$r)" "nothing from rank 1"
  done
}

a_slow_but_live_rank_is_awaited() {
  run_failure slow || fail "$(cat said)"
  same "$(cat got.0 got.1 got.2 | sort -u)" "0 "
}

no_deadline_passes_while_a_rank_waits_for_its_disk() {
  run_failure disk || fail "$(cat said)"
  same "$(cat got.0 got.1 got.2 | sort -u)" "0 "
}

a_silent_rank_ends_work_without_a_deadline() {
  rm -f got.*
  echo lost >got.1
  ! "$TEST_SOURCE_DIR/tests/support/mpirun.sh" 3 "$ENDS" silent >said 2>&1 || fail "mpirun reported success"
  contains "$(cat got.0)" "ETIMEDOUT rank 0 of 3 waited too long for the weights"
  contains "$(cat got.0)" "nothing from rank 1; rank 1: no answer, as if the process were stopped"
  contains "$(cat got.2)" "ECONNABORTED the run was ended: rank 0: "
}

a_split_obeys_the_rank_timeout() {
  ! run_failure unsplit || fail "mpirun reported success"
  contains "$(cat got.0 got.2)" "of 3 waited too long for splitting the ranks"
}

a_dead_rank_ends_the_others() {
  ! run_failure dead || fail "mpirun reported success"
  contains "$(cat said)" "signal 9 (Killed)"
  [[ ! -e got.0 && ! -e got.2 ]] || fail "others went on"
}

run_cases no_deadline_passes_while_a_rank_waits_for_its_disk \
  ranks_deadlocked_on_different_communicators_are_reported \
  checked_calls_wait_for_a_slow_rank a_slow_but_live_rank_is_awaited a_silent_rank_ends_work_without_a_deadline a_split_obeys_the_rank_timeout \
  an_expired_deadline_ends_the_run_and_names_the_late_rank a_rank_that_receives_nothing_is_named an_abort_ends_all_work_on_all_ranks \
  an_abort_is_seen_by_ranks_that_only_poll diverging_calls_are_reported checked_calls_name_the_diverging_rank \
  checked_slices_name_ranks_with_mismatched_sizes a_rank_missing_from_a_checked_split_is_named a_dead_rank_ends_the_others
