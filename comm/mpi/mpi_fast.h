/*
 * mpi_fast — sums over the ranks of a comm_mpi communicator by the library's own reduction. Needs
 * an MPI communicator, which the first sum creates.
 */
#ifndef MILLRACE_COMM_MPI_MPI_FAST_H
#define MILLRACE_COMM_MPI_MPI_FAST_H

#include "comm/engine/engine_comm.h"

#include <mpi.h>

struct comm_mpi {
    struct engine_comm base;
    bool is_prepared; /* the caller's: a sum was requested */
    bool is_made;     /* the engine thread's, like fast */
    MPI_Comm fast;
};

/* Like reduce_scatter of comm_ops. count must not be 0. */
int mpi_fast_reduce_scatter(struct comm *comm, const void *send, void *receive, size_t count,
                            enum dtype dtype, const struct comm_options *options,
                            struct comm_work *work, struct err *err);
/* Frees the MPI communicator. */
void mpi_fast_close(struct comm *comm);

#endif
