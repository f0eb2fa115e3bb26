#!/usr/bin/env bash
# mpirun RANKS COMMAND...: real ranks for a test, as many as it asks for on any number of cores, also as root. 77 where there is no mpirun.
# --absent: what a test says whose program was not built.
[[ $1 != --absent ]] || { echo "SKIPPED: this build found no MPI" >&2; exit 77; }
ranks=$1
shift
command -v mpirun >/dev/null || { echo "SKIPPED: mpirun is not installed" >&2; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# One machine: shared memory only. Ranks are not bound to cores, which tests share with others.
export OMPI_MCA_btl=self,vader OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# What Open MPI itself leaves behind is known by the whole stack, which the quick way of looking at it does not give.
here=$(dirname "$(realpath "$0")")
export LSAN_OPTIONS="${LSAN_OPTIONS:+$LSAN_OPTIONS:}suppressions=$here/mpi.lsan:print_suppressions=0"
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}suppressions=$here/mpi.tsan:print_suppressions=0"
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}fast_unwind_on_malloc=0"
exec mpirun -n "$ranks" "$@" </dev/null
