/*
 * mpi_thread — the engine from within: what its thread and its callers share. See mpi_engine.h.
 *
 * Guarded by the mutex: what callers hand over (queue, unused operations, contexts, what was asked for) and what they wait for (is_done,
 * status and detail of operations, ended). The active operations and all progress of MPI are the thread's alone.
 */
#ifndef MILLRACE_COMM_MPI_THREAD_H
#define MILLRACE_COMM_MPI_THREAD_H

#include "comm/mpi_engine.h"
#include "comm/mpi_inquiry.h"

#include <pthread.h>

enum { MPI_WHY_BYTES = 240 };

struct mpi_engine {
    pthread_t thread; /* immutable after open, as all down to tags_count */
    bool owns_mpi;
    int rank, ranks;
    size_t message_bytes_max;
    MPI_Comm world, control;
    int tags_count; /* of a context */

    struct mpi_inquiry *inquiry; /* once open, as those above; its note is for any thread */

    MPI_Request control_request; /* the thread's, as all down to track */
    char control_why[MPI_WHY_BYTES];
    struct mpi_op *active;
    uint64_t last_event_ns;
    struct trace_track *track; /* NULL: no trace */

    pthread_mutex_t mutex;
    pthread_cond_t wake;    /* the thread: something was handed over */
    pthread_cond_t changed; /* callers: something is done */
    bool is_open, quit, abort_asked, ended;
    int open_status;
    struct err open_detail;
    char why[MPI_WHY_BYTES]; /* of abort_asked, from which on only the thread writes it; then of ended */
    struct mpi_op *queue_first, *queue_last, *unused;
    struct trace_track *track_given; /* what track is to be */
    bool context_used[MPI_CONTEXTS_MAX];
    int context_next; /* names are used again as late as possible */
};

/* The thread: starts MPI and says so by is_open, carries out what comes until quit, ends MPI. argument: the engine. */
void *mpi_thread_main(void *argument);
/* -ECONNABORTED with who ended the run and why. The mutex is held. */
int mpi_thread_tell_ended(const struct mpi_engine *engine, struct err *err);

#endif
