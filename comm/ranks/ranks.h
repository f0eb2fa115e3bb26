/*
 * ranks — finds the number of ranks and this process's rank in the launcher's environment variables
 * (the tables in ranks.c).
 *
 * A rank without a count is refused, because such a process would train as rank 0 of 1. RANK=0 and
 * WORLD_SIZE=1 declare a run of one process.
 *
 * If both torchrun and an MPI launcher set ranks, they must agree. The count of a job step (jsrun,
 * Flux, PALS, Slurm) applies only if no other launcher sets one, because a step may be a script
 * that calls mpirun. SLURM_NTASKS is the size of the job, not of the step, and is also set in batch
 * scripts and salloc's shell. A process started there without srun is alone, and can report
 * job_tasks.
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
    RANKS_JSRUN, /* from here on: steps of a job */
    RANKS_FLUX,
    RANKS_PALS,
    RANKS_SLURM,
};

enum { RANKS_ADDRESS_BYTES = 256 };

struct ranks {
    enum ranks_launcher launcher;
    int rank, ranks;
    int local_rank; /* on its machine; -1 if unknown */
    int job_tasks;  /* of the Slurm job around a lone process; 0 if there is none */
    struct {
        char address[RANKS_ADDRESS_BYTES]; /* of rank 0's machine; "": unknown */
        int port;
        uint64_t token; /* hash of the run's id and the port */
    } bootstrap;        /* of torchrun's ranks */
};

/* variable: getenv, or a test double. -EINVAL names the variables that contradict each other, are
 * not numbers, or set a rank but no count. */
int ranks_detect(const char *(*variable)(const char *name), struct ranks *ret_ranks,
                 struct err *err);
/* "mpirun (OMPI_COMM_WORLD_SIZE)" and so on; static. */
const char *ranks_launcher_name(enum ranks_launcher launcher);

/* Opens the communicator: comm_self for a lone rank, comm_tcp for torchrun's, otherwise
 * libmillrace_mpi, which is loaded only then. -ENOTSUP: it was not found. -EINVAL: MPI and the
 * launcher disagree on the ranks, such as without srun's --mpi=pmix. -EINTR: stop, which may be
 * NULL, became nonzero before torchrun's ranks were connected. */
int ranks_open(const struct ranks *ranks, const atomic_int *stop, struct comm **ret_comm,
               struct err *err);
/* Describes libmillrace_mpi's MPI: "Open MPI v4.1.4". -ENOTSUP names what is missing. */
enum { RANKS_LIBRARY_BYTES = 64 };
int ranks_library(char text[RANKS_LIBRARY_BYTES], struct err *err);

#endif
