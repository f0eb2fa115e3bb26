/*
 * mpi_activity — queries the activity of late ranks. An engine's thread replies even if the rest of
 * its process is busy, but not if the process is stopped.
 *
 * Threads: the engine's thread only.
 */
#ifndef MILLRACE_COMM_MPI_MPI_ACTIVITY_H
#define MILLRACE_COMM_MPI_MPI_ACTIVITY_H

#include "comm/mpi/mpi_engine.h"

struct mpi_activity;

/* Starts listening for queries. Other users of control must use other tags. */
int mpi_activity_open(struct engine *engine, MPI_Comm control, struct mpi_activity **ret_activity,
                      struct err *err);
/* run_ended: does not call MPI or free memory. NULL is fine. */
void mpi_activity_close(struct mpi_activity *activity, bool run_ended);

/* Replies to a pending query. Does not block. */
void mpi_activity_serve(struct mpi_activity *activity);

/* See query_activity in engine_ops. */
const char *mpi_activity_query(struct mpi_activity *activity, int rank, uint64_t since_ns,
                               uint64_t *ret_queried_ns);

#endif
