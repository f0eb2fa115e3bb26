/*
 * ranks — what the launcher says: how many processes this run has, and which of them this is. From the environment alone; nothing is started.
 *
 * | launcher | variables |
 * |---|---|
 * | torchrun | RANK, WORLD_SIZE, LOCAL_RANK; MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID |
 * | Open MPI's mpirun | OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK |
 * | MPICH's mpirun, srun --mpi=pmi2 | PMI_RANK, PMI_SIZE, MPI_LOCALRANKID |
 * | srun | SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID |
 *
 * PMIX_RANK alone, as by prterun, names no count: it is refused. torchrun's and a launcher's of MPI must agree where both are there. Slurm's count only where no other's are: a step may be a script
 * that calls mpirun. They are those of srun's step: SLURM_NTASKS is the job's, which a batch script and the shell of salloc have too, and a
 * process that one of these starts without srun is alone; job_tasks lets it say so.
 */
#ifndef MILLRACE_COMM_RANKS_H
#define MILLRACE_COMM_RANKS_H

#include "base/err.h"
#include "comm/comm.h"

#include <stdatomic.h>

enum ranks_launcher { RANKS_ALONE, RANKS_TORCHRUN, RANKS_OPEN_MPI, RANKS_PMI, RANKS_SLURM };

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
    } meeting;          /* of torchrun's ranks */
};

/* variable: getenv, or a test's own. -EINVAL where variables contradict each other or are no numbers, naming them. */
int ranks_detect(const char *(*variable)(const char *name), struct ranks *ret_ranks, struct err *err);
/* "mpirun (OMPI_COMM_WORLD_SIZE)" and so on; lives for ever. */
const char *ranks_launcher_name(enum ranks_launcher launcher);

/* The communicator of those ranks: comm_self for one that is alone; of torchrun's comm_tcp, where they have found each other; else by libmillrace_mpi, which is looked for beside the
 * program's own libraries and loaded only then. -ENOTSUP where it is not there; -EINVAL where MPI knows
 * of another number of ranks than the launcher, as where srun was not told --mpi=pmix; -EINTR where ranks of torchrun have not met when stop, which may be
 * NULL, is no longer 0. */
int ranks_open(const struct ranks *ranks, const atomic_int *stop, struct comm **ret_comm, struct err *err);
/* What ranks_open would load: "Open MPI v4.1.4". -ENOTSUP with what is missing. */
enum { RANKS_LIBRARY_BYTES = 64 };
int ranks_library(char text[RANKS_LIBRARY_BYTES], struct err *err);

#endif
