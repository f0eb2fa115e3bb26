#!/usr/bin/env bash
# Tests which communicator each launcher's variables select.
. "$(dirname "$0")/../cli/lib.sh"
: "${PRINT_RANK:?}"

a_single_process_loads_no_mpi() {
  same "$("$PRINT_RANK")" "rank 0 of 1 by self"
  LD_DEBUG=libs "$PRINT_RANK" 2>&1 | grep -i libmpi && fail "MPI was loaded" || true
}

mpirun_ranks_are_detected() {
  [[ -n ${MPI:-} ]] && command -v mpirun >/dev/null || skip "there is no MPI"
  same "$("$TEST_SOURCE_DIR/tests/support/mpirun.sh" 3 "$PRINT_RANK" | sort)" $'rank 0 of 3 by mpi\nrank 1 of 3 by mpi\nrank 2 of 3 by mpi'
}

slurm_tasks_without_mpi_support_are_refused() {
  [[ -n ${MPI:-} ]] || skip "there is no MPI"
  # Leaks in Open MPI itself do not matter here.
  same "$(ASAN_OPTIONS=detect_leaks=0 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 status_of "$PRINT_RANK")" 1
  contains "$(cat out)" "expected rank 0 of 4 according to Slurm (SLURM_STEP_NUM_TASKS), found rank 0 of 1 according to MPI; start it with srun --mpi=pmix"
}

other_schedulers_tasks_without_mpi_support_are_refused() {
  [[ -n ${MPI:-} ]] || skip "there is no MPI"
  same "$(ASAN_OPTIONS=detect_leaks=0 FLUX_JOB_SIZE=4 FLUX_TASK_RANK=2 status_of "$PRINT_RANK")" 1
  contains "$(cat out)" "expected rank 2 of 4 according to Flux (FLUX_JOB_SIZE), found rank 0 of 1 according to MPI; start it with flux run"
  same "$(ASAN_OPTIONS=detect_leaks=0 JSM_NAMESPACE_SIZE=4 JSM_NAMESPACE_RANK=2 status_of "$PRINT_RANK")" 1
  contains "$(cat out)" "expected rank 2 of 4 according to jsrun (JSM_NAMESPACE_SIZE), found rank 0 of 1 according to MPI"
  same "$(ASAN_OPTIONS=detect_leaks=0 PMI_SIZE=4 PMI_RANK=2 PALS_RANKID=2 status_of "$PRINT_RANK")" 1
  contains "$(cat out)" "expected rank 2 of 4 according to PALS (PMI_SIZE), found rank 0 of 1 according to MPI"
}

a_pod_of_an_indexed_job_is_not_taken_for_a_single_rank() {
  same "$(JOB_COMPLETION_INDEX=1 status_of "$PRINT_RANK")" 1
  contains "$(cat out)" "only JOB_COMPLETION_INDEX=1; set RANK=\$JOB_COMPLETION_INDEX"
  same "$(JOB_COMPLETION_INDEX=1 RANK=0 WORLD_SIZE=1 "$PRINT_RANK")" "rank 0 of 1 by self"
}

torchrun_ranks_of_an_mpi_only_program_are_advised_to_use_mpirun() {
  same "$(RANK=0 WORLD_SIZE=2 status_of "$PRINT_RANK")" 1
  contains "$(cat out)" "start them with mpirun or srun"
}

a_process_of_a_batch_script_is_a_single_rank() {
  same "$(SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0 "$PRINT_RANK")" "rank 0 of 1 by self"
}

run_cases a_single_process_loads_no_mpi mpirun_ranks_are_detected slurm_tasks_without_mpi_support_are_refused \
  other_schedulers_tasks_without_mpi_support_are_refused a_pod_of_an_indexed_job_is_not_taken_for_a_single_rank \
  torchrun_ranks_of_an_mpi_only_program_are_advised_to_use_mpirun a_process_of_a_batch_script_is_a_single_rank
