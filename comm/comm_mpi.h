/*
 * comm_mpi — comm.h's table over MPI, for ranks that MPI started. MPI runs on its own thread.
 *
 *     struct comm *comm;
 *     int status = comm_mpi_open(NULL, &comm, err);     // all ranks; starts MPI
 *     ... comm->ops, comm_wait, comm->ops->split ...
 *     comm_close(comm);  // the last close ends MPI, together with the other ranks
 *
 * It is a separate library, libmillrace_mpi, so that single-process programs do not need MPI.
 *
 * Exchanges are direct messages between ranks, so a missed deadline names the ranks that sent
 * nothing. It ends the run, as an abort does: on all ranks, all communicators of one open end with
 * -ECONNABORTED (-ETIMEDOUT on the rank that missed the deadline), and MPI is not called again.
 * Messages in flight are not canceled, so the process can then only close and exit. The launcher
 * (mpirun, srun --kill-on-bad-exit) ends the ranks that do not, and those left when a rank dies.
 *
 * Threads: one thread at a time per communicator; different communicators concurrently. Exception:
 * the first COMM_FAST on a communicator creates an MPI communicator, for which its ranks wait for
 * each other. No two of these may run at the same time.
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
    size_t message_bytes_max; /* longer messages are split; 0: 8 MiB. The same on all ranks */
};

/* Collective, blocks. Starts MPI unless the program has; it must then have requested
 * MPI_THREAD_MULTIPLE (else -EINVAL), and ends MPI itself. options: NULL for the defaults. -EBUSY:
 * one is open, or its run was ended. -EALREADY: MPI was ended and cannot start again. */
int comm_mpi_open(const struct comm_mpi_options *options, struct comm **ret_comm, struct err *err);

/* The version of millrace that this library belongs to; static. */
const char *comm_mpi_version(void);
/* Writes the start of MPI's own description, "Open MPI v4.1.4". Works before MPI is started.
 * Returns text. */
enum { COMM_MPI_TEXT_BYTES = 64 };
const char *comm_mpi_library(char text[COMM_MPI_TEXT_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
