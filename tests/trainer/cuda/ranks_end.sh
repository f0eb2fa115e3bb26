#!/usr/bin/env bash
# A run on the GPUs of three ranks, one of which fails while the others wait in NCCL: no rank
# hangs, and every rank reports why.
. "$(dirname "$0")/../../cli/lib.sh"
command -v mpirun >/dev/null && [[ -x ${ENDS:-} ]] || skip "this build has no MPI or no NCCL"

a_rank_that_fails_while_others_wait_in_nccl_reports_why_and_ends_all() {
  local status=0
  "$ENDS" make
  "$TEST_SOURCE_DIR/tests/support/mpirun.sh" 3 "$ENDS" >said 2>&1 || status=$?
  ! grep -q 'LeakSanitizer\|AddressSanitizer\|ThreadSanitizer\|cuda_on_cpu: violation' said || fail "$(cat said)"
  contains "$(cat got.1)" "EIO could not read"
  for r in 0 2; do contains "$(cat got.$r)" "ECONNABORTED the run was ended: rank 1 aborted it"; done
}

run_cases a_rank_that_fails_while_others_wait_in_nccl_reports_why_and_ends_all
