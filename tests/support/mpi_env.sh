# mpi_env — sourced; sets what Open MPI and sanitizers need in a test.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# One machine: shared memory only. Ranks are not bound to cores, which tests share with others.
export OMPI_MCA_btl=self,vader OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
mpi_env_folder=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
# Only complete stacks distinguish Open MPI's leaks from ours, but they make startup five times
# slower; MPI_LEAKS requests them.
if [[ -n ${MPI_LEAKS:-} ]]; then mpi_env_leaks=detect_leaks=1:fast_unwind_on_malloc=0; else mpi_env_leaks=detect_leaks=0; fi
export LSAN_OPTIONS="${LSAN_OPTIONS:+$LSAN_OPTIONS:}suppressions=$mpi_env_folder/mpi.lsan:print_suppressions=0"
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}suppressions=$mpi_env_folder/mpi.tsan:print_suppressions=0"
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}$mpi_env_leaks"
