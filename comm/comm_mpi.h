/*
 * comm_mpi — ranks that MPI started: comm.h's table over MPI, which runs on a thread of its own.
 *
 *     struct comm *comm;
 *     int status = comm_mpi_open(NULL, &comm, err);     // all ranks; starts MPI
 *     ... comm->ops, comm_wait, comm->ops->split ...
 *     comm_close(comm);  // the last one ends MPI, together with the other ranks
 *
 * It is a library of its own, libmillrace_mpi, so that what needs no ranks needs no MPI.
 *
 * Every exchange is made of direct messages between its ranks. So a deadline that passes is
 * enforced without any help of the program, and names the ranks from which nothing came. A deadline
 * that passes ends the run: as after an abort, all communicators that stem from the same open end
 * with -ECONNABORTED, on all ranks (what is in flight at the rank whose deadline it was: with
 * that), and nothing of MPI is called any more. What was in flight is not taken back: where the
 * network or another rank moves bytes by itself, it may do so until this process exits, and buffers
 * stay borrowed as long (comm.h). What is left is to close and to exit; the launcher ends the ranks
 * that don't. A rank that dies is noticed by the launcher (mpirun, srun --kill-on-bad-exit), which
 * ends the others.
 *
 * Threads: communicators may be used at the same time by different threads, each by one thread at a
 * time. But the first COMM_FAST on a communicator has MPI make one of its own, for which its ranks
 * wait for each other: no two of these at the same time.
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
    size_t message_bytes_max; /* longer ones are cut; 0: 8 MiB. The same on all ranks */
};

/* The communicator of all ranks. Starts MPI unless the program has (then with MPI_THREAD_MULTIPLE,
 * or it is -EINVAL, and the program ends it). Collective, blocks. options: NULL for the defaults.
 * -EBUSY where one is open or its run was ended, -EALREADY where MPI was ended before: it can't be
 * started twice. */
int comm_mpi_open(const struct comm_mpi_options *options, struct comm **ret_comm, struct err *err);

/* The version of millrace that this library belongs to; lives for ever. */
const char *comm_mpi_version(void);
/* What MPI says of itself, its first words: "Open MPI v4.1.4". Also before it is started. Returns
 * text. */
enum { COMM_MPI_TEXT_BYTES = 64 };
const char *comm_mpi_library(char text[COMM_MPI_TEXT_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
