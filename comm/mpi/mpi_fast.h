/*
 * mpi_fast — sums with MPI's reduction, on an MPI communicator that the first sum creates.
 */
#ifndef MILLRACE_COMM_MPI_MPI_FAST_H
#define MILLRACE_COMM_MPI_MPI_FAST_H

#include "comm/engine/engine_comm.h"

#include <mpi.h>

struct comm_mpi {
    struct engine_comm base;
    bool is_prepared; /* caller only: a sum was requested */
    bool is_created;  /* thread only, like mpi_comm */
    MPI_Comm mpi_comm;
};

/* See reduce_scatter in comm_ops; count > 0. */
int mpi_fast_reduce_scatter(struct comm *comm, const void *send, void *receive, size_t count,
                            enum dtype dtype, const struct comm_options *options,
                            struct comm_work *work, struct err *err);
void mpi_fast_close(struct comm *comm);

#endif
