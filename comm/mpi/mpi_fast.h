/*
 * mpi_fast — sums over the ranks of a communicator of comm_mpi by the library's own reduction. It
 * needs one of MPI's communicators, which is made when it is first asked for.
 */
#ifndef MILLRACE_COMM_MPI_MPI_FAST_H
#define MILLRACE_COMM_MPI_MPI_FAST_H

#include "comm/engine/engine_comm.h"

#include <mpi.h>

struct comm_mpi {
    struct engine_comm base;
    bool is_prepared; /* the caller's: a sum was asked for */
    bool is_made;     /* the engine's thread's, as fast */
    MPI_Comm fast;
};

/* As reduce_scatter of comm_ops. count is not 0. */
int mpi_fast_reduce_scatter(struct comm *comm, const void *send, void *receive, size_t count,
                            enum dtype dtype, const struct comm_options *options,
                            struct comm_work *work, struct err *err);
/* Gives back what sums needed. */
void mpi_fast_close(struct comm *comm);

#endif
