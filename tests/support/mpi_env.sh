# mpi_env — sourced: what Open MPI needs in a test, and what sanitizers need to know of it.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# One machine: shared memory only. Ranks are not bound to cores, which tests share with others.
export OMPI_MCA_btl=self,vader OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# What Open MPI itself leaves behind is known by the whole stack, which the quick way of looking at it does not give.
mpi_env_folder=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
export LSAN_OPTIONS="${LSAN_OPTIONS:+$LSAN_OPTIONS:}suppressions=$mpi_env_folder/mpi.lsan:print_suppressions=0"
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}suppressions=$mpi_env_folder/mpi.tsan:print_suppressions=0"
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}fast_unwind_on_malloc=0"
