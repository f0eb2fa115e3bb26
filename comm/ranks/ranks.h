/*
 * ranks — reads the rank and the number of ranks from the launcher's environment variables (the
 * tables in ranks.c).
 *
 * A rank without a count is an error; otherwise each process would train as rank 0 of 1. RANK=0 and
 * WORLD_SIZE=1 declare a single process.
 *
 * torchrun and MPI launchers must agree. A job step (jsrun, Flux, PALS, Slurm) counts only if no
 * other launcher sets a count, because a step may be a script that calls mpirun. SLURM_NTASKS is
 * the size of the job, not of the step, and is also set in batch scripts and salloc's shell. A
 * process started there without srun is a single rank with job_tasks set.
 */
#ifndef MILLRACE_COMM_RANKS_RANKS_H
#define MILLRACE_COMM_RANKS_RANKS_H

#include "base/err.h"
#include "comm/comm.h"

#include <stdatomic.h>

enum ranks_launcher {
    RANKS_SINGLE,
    RANKS_TORCHRUN,
    RANKS_OPEN_MPI,
    RANKS_MVAPICH,
    RANKS_PMI,
    RANKS_JSRUN, /* this and all below: job steps */
    RANKS_FLUX,
    RANKS_PALS,
    RANKS_SLURM,
};

enum { RANKS_ADDRESS_BYTES = 256 };

struct ranks {
    enum ranks_launcher launcher;
    int rank, ranks;
    int local_rank; /* on its machine; -1: unknown */
    int job_tasks;  /* in the Slurm job around a single process; 0: none */
    struct {
        char address[RANKS_ADDRESS_BYTES]; /* of rank 0; "": unknown */
        int port;
        uint64_t token; /* hash of run id and port */
    } rendezvous;
};

/* get_variable: getenv, or a test double. -EINVAL names contradictory, non-numeric or missing
 * variables. */
int ranks_detect(const char *(*get_variable)(const char *name), struct ranks *ret_ranks,
                 struct err *err);

/* Opens comm_self for a single rank, comm_tcp for torchrun, otherwise libmillrace_mpi, which is
 * loaded on demand. -ENOTSUP: the library is missing. -EINVAL: MPI and the launcher disagree on the
 * ranks, for example without srun's --mpi=pmix. -EINTR: stop became nonzero before torchrun's ranks
 * were connected. stop: NULL is fine. */
int ranks_open(const struct ranks *ranks, const atomic_int *stop, struct comm **ret_comm,
               struct err *err);
/* Describes libmillrace_mpi's MPI: "Open MPI v4.1.4". -ENOTSUP names the missing part. */
enum { RANKS_MPI_LIBRARY_BYTES = 64 };
int ranks_mpi_library(char text[RANKS_MPI_LIBRARY_BYTES], struct err *err);

#endif
