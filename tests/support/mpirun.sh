#!/usr/bin/env bash
# mpirun RANKS COMMAND...: runs a test on real ranks, any number on any number of cores, also as
# root. Exits with 77 without mpirun. --absent: prints the skip message of a test whose program was
# not built.
[[ $1 != --absent ]] || { echo "SKIPPED: this build found no MPI" >&2; exit 77; }
ranks=$1
shift
command -v mpirun >/dev/null || { echo "SKIPPED: mpirun is not installed" >&2; exit 77; }
. "$(dirname "$(realpath "$0")")/mpi_env.sh"
exec mpirun -n "$ranks" "$@" </dev/null
