/*
 * ranks — reads from the launcher's environment variables how many processes this run has, and
 * which one this is. Starts nothing.
 *
 * | launcher | variables | |---|---| | torchrun | RANK, WORLD_SIZE, LOCAL_RANK; MASTER_ADDR,
 * MASTER_PORT, TORCHELASTIC_RUN_ID | | Open MPI's mpirun | OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK
 * | | MPICH's mpirun, srun --mpi=pmi2 | PMI_RANK, PMI_SIZE, MPI_LOCALRANKID | | MVAPICH's mpirun |
 * MV2_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK | | jsrun | JSM_NAMESPACE_RANK, _SIZE, _LOCAL_RANK | |
 * Flux | FLUX_TASK_RANK, FLUX_JOB_SIZE, FLUX_TASK_LOCAL_ID | | PALS | PALS_RANKID, PMI_SIZE,
 * PALS_LOCAL_RANKID | | srun | SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID |
 *
 * A rank without a count is refused, because such a process would train as rank 0 of 1. This
 * applies to PMIX_RANK alone (prterun), ALPS_APP_PE, JOB_COMPLETION_INDEX of a Kubernetes indexed
 * job, AWS_BATCH_JOB_NODE_INDEX, and the rank variables of the launchers above. RANK=0 and
 * WORLD_SIZE=1 declare a run of one process.
 *
 * If both torchrun and an MPI launcher set ranks, they must agree. The count of a job step (jsrun,
 * Flux, PALS, Slurm) applies only if no other launcher sets one, because a step may be a script
 * that calls mpirun. For Slurm it is the size of srun's step. SLURM_NTASKS is the size of the job,
 * which is also set in a batch script and in salloc's shell. A process started there without srun
 * is alone; it can report job_tasks.
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

/* variable: getenv, or a test double. -EINVAL, naming the variables: they contradict each other,
 * are not numbers, or set a rank but no count. */
int ranks_detect(const char *(*variable)(const char *name), struct ranks *ret_ranks,
                 struct err *err);
/* "mpirun (OMPI_COMM_WORLD_SIZE)" and so on; static. */
const char *ranks_launcher_name(enum ranks_launcher launcher);

/* Opens the communicator of those ranks. A lone rank uses comm_self. torchrun's ranks use comm_tcp,
 * once they have found each other. Others use libmillrace_mpi, which is searched for next to the
 * program's libraries and loaded only then. -ENOTSUP: it was not found. -EINVAL: MPI and the
 * launcher disagree on the ranks, as when srun lacks --mpi=pmix. -EINTR: stop, which may be NULL,
 * became nonzero before torchrun's ranks had met. */
int ranks_open(const struct ranks *ranks, const atomic_int *stop, struct comm **ret_comm,
               struct err *err);
/* Describes the library ranks_open would load: "Open MPI v4.1.4". -ENOTSUP with what is missing. */
enum { RANKS_LIBRARY_BYTES = 64 };
int ranks_library(char text[RANKS_LIBRARY_BYTES], struct err *err);

#endif
