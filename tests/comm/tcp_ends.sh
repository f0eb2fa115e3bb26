#!/usr/bin/env bash
# Tests failing runs of three torchrun ranks: no rank hangs, and each reports the reason.
. "$(dirname "$0")/../cli/lib.sh"

# run_failure NAME [LOST]: runs the program with that failure; rank R's result is in got.R, except for the rank LOST.
# A sanitizer checks for leaks.
run_failure() {
  local status=0
  rm -f got.*
  [[ -z ${2:-} ]] || echo lost >"got.$2"
  "$TEST_SOURCE_DIR/tests/support/torchrun.sh" 3 "$ENDS" "$1" >said 2>&1 || status=$?
  ! grep -q 'Sanitizer' said || fail "$(cat said)"
  same "$status" "${3:-0}" "$(cat said)"
}

an_expired_deadline_over_tcp_ends_the_run_and_names_the_late_rank() {
  run_failure late
  contains "$(cat got.0)" "ETIMEDOUT rank 0 of 3 waited too long for the gradients of step 7"
  contains "$(cat got.0)" "nothing from rank 1; rank 1: at data of step 7 for "
  for r in 1 2; do
    contains "$(cat got.$r)" "ECONNABORTED the run was ended: rank 0: "
    contains "$(cat got.$r)" "waited too long for the gradients of step 7: nothing from rank 1"
    ! grep -q 'at data' got.$r || fail "$(cat got.$r)"
  done
}

a_stopped_rank_over_tcp_is_unresponsive() {
  run_failure stopped 1 137
  contains "$(cat got.0)" "nothing from rank 1; rank 1: no answer, as if the process were stopped"
  contains "$(cat got.2)" "ECONNABORTED the run was ended: rank 0: "
}

a_slow_but_live_rank_is_awaited_over_tcp() {
  run_failure slow
  same "$(cat got.0 got.1 got.2 | sort -u)" "0 "
}

no_deadline_passes_while_a_rank_waits_for_its_disk_over_tcp() {
  run_failure disk
  same "$(cat got.0 got.1 got.2 | sort -u)" "0 "
}

a_silent_rank_ends_work_without_a_deadline_over_tcp() {
  run_failure silent 1 137
  contains "$(cat got.0)" "ETIMEDOUT rank 0 of 3 waited too long for the weights"
  contains "$(cat got.0)" "nothing from rank 1; rank 1: no answer, as if the process were stopped"
  contains "$(cat got.2)" "ECONNABORTED the run was ended: rank 0: "
}

a_split_over_tcp_obeys_the_rank_timeout() {
  run_failure unsplit
  contains "$(cat got.0 got.2)" "of 3 waited too long for splitting the ranks"
}

an_abort_over_tcp_ends_all_work_on_all_ranks() {
  run_failure abort
  for r in 0 1 2; do contains "$(cat got.$r)" "ECONNABORTED the run was ended: rank 2 aborted it"; done
}

an_abort_over_tcp_is_seen_by_ranks_that_only_poll() {
  run_failure looked
  for r in 0 1 2; do contains "$(cat got.$r)" "ECONNABORTED the run was ended: rank 2 aborted it"; done
}

diverging_calls_over_tcp_are_reported() {
  run_failure otherwise
  contains "$(cat got.*)" "EPROTO gathering: rank"
  contains "$(cat got.*)" "all ranks must make the same calls in the same order"
}

checked_calls_over_tcp_name_the_diverging_rank() {
  run_failure checked
  same "$(cat got.0)" "EPROTO ranks do not make the same calls: call 2 of rank 1: expected all_gather of 8 bytes for the weights, as on rank 0, found all_reduce_i64 of 1 integers (sum) for the norm"
  same "$(cat got.1 got.2 | sort -u)" "EPROTO Protocol error"
}

checked_slices_over_tcp_name_ranks_with_mismatched_sizes() {
  run_failure slices
  same "$(cat got.0)" "EPROTO ranks do not make the same calls: call 2, all_to_all for the rows: rank 1 does not send what rank 2 expects: expected 4 bytes, found 5"
  same "$(cat got.1 got.2 | sort -u)" "EPROTO Protocol error"
}

ranks_deadlocked_on_different_communicators_over_tcp_are_reported() {
  run_failure elsewhere
  same "$(cat got.0)" "EPROTO ranks do not make the same calls: they wait for each other, rank 0 in call 2 on a communicator of 3 ranks, rank 1 in call 2 on another communicator of 3: expected all_gather of 8 bytes for the weights, as on rank 0, found all_reduce_i64 of 1 integers (sum) for the norm"
  same "$(cat got.1 got.2 | sort -u)" "EPROTO Protocol error"
}

checked_calls_over_tcp_wait_for_a_slow_rank() {
  run_failure slow-checked
  same "$(cat got.0 got.1 got.2 | sort -u)" "0 "
}

a_rank_missing_from_a_checked_split_over_tcp_is_named() {
  run_failure split
  for r in 0 2; do
    contains "$(cat got.$r)" "waited too long for split"
    contains "$(cat got.$r)" "nothing from rank 1"
  done
}

a_rank_that_left_is_named_by_waiting_ranks() {
  run_failure left 1
  for r in 0 2; do contains "$(cat got.$r)" "ECONNABORTED"; done
  contains "$(cat got.0 got.2)" "rank 1 has left"
}

a_dead_rank_is_named_by_the_others() {
  run_failure dead 1 137
  for r in 0 2; do contains "$(cat got.$r)" "ECONNABORTED the run was ended: rank 1 is gone"; done
}

# rank R: starts rank R of three in the background; it connects and leaves.
rank() { RANK=$1 LOCAL_RANK=$1 "$ENDS" meet </dev/null >"said.$1" 2>&1 & }

a_rank_killed_during_the_rendezvous_may_restart() {
  export WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 10000)) TORCHELASTIC_RUN_ID=again-$$-$RANDOM
  local first killed pid
  rank 0
  first=$!
  rank 2
  killed=$!
  until [[ $(find /proc/$killed/fd -lname 'socket:*' | wc -l) -ge 2 ]]; do kill -0 $killed || fail "$(cat said.2)"; done # it listens and has connected
  kill -9 $killed
  ! wait $killed || fail "it was not killed"
  rank 2
  set -- "$first" $!
  rank 1
  for pid in "$@" $!; do wait "$pid" || fail "a rank ended with $?: $(cat said.*)"; done
}

run_cases no_deadline_passes_while_a_rank_waits_for_its_disk_over_tcp \
  ranks_deadlocked_on_different_communicators_over_tcp_are_reported \
  checked_calls_over_tcp_wait_for_a_slow_rank a_slow_but_live_rank_is_awaited_over_tcp a_silent_rank_ends_work_without_a_deadline_over_tcp \
  a_split_over_tcp_obeys_the_rank_timeout an_expired_deadline_over_tcp_ends_the_run_and_names_the_late_rank a_stopped_rank_over_tcp_is_unresponsive \
  an_abort_over_tcp_ends_all_work_on_all_ranks an_abort_over_tcp_is_seen_by_ranks_that_only_poll diverging_calls_over_tcp_are_reported \
  checked_calls_over_tcp_name_the_diverging_rank checked_slices_over_tcp_name_ranks_with_mismatched_sizes \
  a_rank_missing_from_a_checked_split_over_tcp_is_named a_rank_that_left_is_named_by_waiting_ranks a_dead_rank_is_named_by_the_others \
  a_rank_killed_during_the_rendezvous_may_restart
