/*
 * ranks — what the launcher says: how many processes this run has, and which of them this is. From
 * the environment alone; nothing is started.
 *
 * | launcher | variables |
 * |---|---|
 * | torchrun | RANK, WORLD_SIZE, LOCAL_RANK; MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID |
 * | Open MPI's mpirun | OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK |
 * | MPICH's mpirun, srun --mpi=pmi2 | PMI_RANK, PMI_SIZE, MPI_LOCALRANKID |
 * | MVAPICH's mpirun | MV2_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK |
 * | jsrun | JSM_NAMESPACE_RANK, _SIZE, _LOCAL_RANK |
 * | Flux | FLUX_TASK_RANK, FLUX_JOB_SIZE, FLUX_TASK_LOCAL_ID |
 * | PALS | PALS_RANKID, PMI_SIZE, PALS_LOCAL_RANKID |
 * | srun | SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID |
 *
 * A rank without a count is refused, because such a process would train as rank 0 of 1: PMIX_RANK
 * alone (prterun), ALPS_APP_PE, JOB_COMPLETION_INDEX of a Kubernetes indexed job,
 * AWS_BATCH_JOB_NODE_INDEX, or the rank variable of a launcher above. RANK=0 and WORLD_SIZE=1
 * declare a run of one process.
 *
 * torchrun's ranks and those of MPI's launcher must agree where both are given. The count of a step
 * (jsrun, Flux, PALS, Slurm) applies only where no other does: a step may be a script that calls
 * mpirun. Slurm's is that of srun's step. SLURM_NTASKS is the job's, which a batch script and the
 * shell of salloc have too. A process that one of these starts without srun is alone; job_tasks
 * lets it say so.
 */
#ifndef MILLRACE_COMM_RANKS_RANKS_H
#define MILLRACE_COMM_RANKS_RANKS_H

#include "base/err.h"
#include "comm/comm.h"

#include <stdatomic.h>

enum ranks_launcher {
    RANKS_ALONE,
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
    int local_rank; /* on its machine; -1 where nobody says */
    int job_tasks;  /* of the Slurm job around a process that is alone; 0 where there is none */
    struct {
        char address[RANKS_ADDRESS_BYTES]; /* of rank 0's machine; "": nobody says */
        int port;
        uint64_t token; /* of the run: of its id and the port */
    } bootstrap;        /* of torchrun's ranks */
};

/* variable: getenv, or a test's own. -EINVAL, naming the variables, where they contradict each
 * other, are no numbers, or give a rank but no count. */
int ranks_detect(const char *(*variable)(const char *name), struct ranks *ret_ranks,
                 struct err *err);
/* "mpirun (OMPI_COMM_WORLD_SIZE)" and so on; lives for ever. */
const char *ranks_launcher_name(enum ranks_launcher launcher);

/* The communicator of those ranks: comm_self for one that is alone; of torchrun's comm_tcp, where
 * they have found each other; else by libmillrace_mpi, which is looked for beside the program's own
 * libraries and loaded only then. -ENOTSUP where it is not there; -EINVAL where MPI knows of
 * another number of ranks than the launcher, as where srun was not told --mpi=pmix; -EINTR where
 * ranks of torchrun have not met when stop, which may be NULL, is no longer 0. */
int ranks_open(const struct ranks *ranks, const atomic_int *stop, struct comm **ret_comm,
               struct err *err);
/* What ranks_open would load: "Open MPI v4.1.4". -ENOTSUP with what is missing. */
enum { RANKS_LIBRARY_BYTES = 64 };
int ranks_library(char text[RANKS_LIBRARY_BYTES], struct err *err);

#endif
