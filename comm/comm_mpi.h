/*
 * comm_mpi — comm.h over MPI, for ranks started by MPI. MPI runs on a separate thread.
 *
 *     struct comm *comm;
 *     int status = comm_mpi_open(NULL, &comm, err);     // all ranks; starts MPI
 *     ... comm->ops, comm_wait, comm->ops->split ...
 *     comm_close(comm);  // the last close finalizes MPI; collective
 *
 * It is a separate library, libmillrace_mpi, so that other programs do not need MPI.
 *
 * Ranks exchange point-to-point messages, so the error of a missed deadline names the late ranks.
 * Like an abort, a missed deadline ends the run: on all ranks, all communicators from one open call
 * end with -ECONNABORTED (-ETIMEDOUT on the rank that missed the deadline), and MPI is not called
 * again. Messages in flight are not canceled; the process can only close its communicators and
 * exit. The launcher (mpirun, srun --kill-on-bad-exit) then kills the remaining ranks, as it does
 * when a rank dies.
 *
 * Threads: one thread at a time per communicator; different communicators concurrently. Exception:
 * the first COMM_FAST sum on a communicator collectively creates an MPI communicator. Such first
 * sums must not overlap.
 */
#ifndef MILLRACE_COMM_COMM_MPI_H
#define MILLRACE_COMM_COMM_MPI_H

#include "base/err.h"
#include "comm/comm.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct comm_mpi_options {
    size_t message_bytes_max; /* longer messages are split; the same on all ranks; 0: 8 MiB */
};

/* Collective, blocks. Initializes MPI unless the program already has; the program must then have
 * requested MPI_THREAD_MULTIPLE (else -EINVAL) and must finalize MPI itself. options: NULL for
 * defaults. -EBUSY: another communicator is open, or an earlier run was aborted. -EALREADY: MPI is
 * finalized and cannot restart. */
int comm_mpi_open(const struct comm_mpi_options *options, struct comm **ret_comm, struct err *err);

/* This library's millrace version; static. */
const char *comm_mpi_version(void);
/* Writes MPI's name and version, "Open MPI v4.1.4". Works before MPI is initialized. Returns
 * text. */
enum { COMM_MPI_TEXT_BYTES = 64 };
const char *comm_mpi_library(char text[COMM_MPI_TEXT_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
