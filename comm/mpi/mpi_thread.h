/*
 * mpi_thread — internals of mpi_engine.
 */
#ifndef MILLRACE_COMM_MPI_MPI_THREAD_H
#define MILLRACE_COMM_MPI_MPI_THREAD_H

#include "comm/mpi/mpi_activity.h"
#include "comm/mpi/mpi_engine.h"

struct mpi_engine {
    struct engine base;
    bool owns_mpi; /* immutable after open, like all members down to activity */
    size_t message_bytes_max;
    MPI_Comm world, control;
    struct mpi_activity *activity;

    MPI_Request control_request; /* thread only, like all members down to last_event_ns */
    char control_reason[ENGINE_REASON_BYTES];
    uint64_t last_event_ns;

    pthread_cond_t wake; /* signals requests to the thread */
    bool is_open;        /* guarded by base.mutex, like the two members below */
    int open_status;
    struct err open_detail;
};

static inline struct mpi_engine *mpi_engine_of(struct engine *engine)
{
    return (struct mpi_engine *)engine;
}

/* Initializes MPI and sets is_open; finalizes MPI after quit. argument: the engine. */
void *mpi_thread_main(void *argument);
/* Hook of engine_ops. */
void mpi_thread_notify_others(struct engine *engine);

#endif
