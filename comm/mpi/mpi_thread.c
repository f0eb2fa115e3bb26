/*
 * mpi_thread — see mpi_thread.h.
 */
#include "comm/mpi/mpi_thread.h"

#include "base/clock.h"
#include "base/os/trace.h"
#include "comm/engine/engine_thread.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

enum {
    TAG_CONTROL = 0, /* on a communicator shared with mpi_activity */
    NO_PAUSE_NS = 30000,
    PAUSE_DIVISOR = 16, /* 1/16 of the time since the last event */
    PAUSE_FIRST_NS = 20000,
    PAUSE_LAST_NS = 1000000,
    PAUSE_IDLE_NS = 50000000,
    POLL_TRACED_NS = 20000, /* longer polls are traced even without completions */
    NOTIFY_NS = 1000000000, /* to notify the other ranks of the end of the run */
};

/* Starting and ending MPI, on the thread. */

static int init_mpi(struct mpi_engine *engine, struct err *err)
{
    int initialized = 0, finalized = 0, provided = MPI_THREAD_SINGLE;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (finalized)
        return err_set(err, -EALREADY,
                       "MPI was finalized in this process and cannot be started again");
    int status = initialized
                     ? mpi_check(MPI_Query_thread(&provided), "querying the thread level", err)
                     : mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided),
                                 "starting", err);
    if (status)
        return status;
    engine->owns_mpi = !initialized;
    if (!initialized || provided == MPI_THREAD_MULTIPLE)
        return 0;
    err_set(err, -EINVAL,
            "the program started MPI without MPI_THREAD_MULTIPLE, so no other thread may call it");
    err_advise(
        err, "call MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...), or let comm_mpi_open start MPI");
    return -EINVAL;
}

static int duplicate_world(struct mpi_engine *engine, struct err *err)
{
    int *tag_max = NULL, is_set = 0;
    int status = mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &engine->world),
                           "duplicating the world communicator", err);
    if (!status)
        status = mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &engine->control),
                           "duplicating the world communicator", err);
    if (status)
        return status;
    MPI_Comm_set_errhandler(engine->world, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(engine->control, MPI_ERRORS_RETURN);
    MPI_Comm_rank(engine->world, &engine->base.rank);
    MPI_Comm_size(engine->world, &engine->base.ranks);
    MPI_Comm_get_attr(engine->world, MPI_TAG_UB, &tag_max, &is_set);
    engine->base.comm_ids_count = ENGINE_COMMS_MAX;
    engine->base.tags_count = (uint64_t)(is_set ? *tag_max : 32767) / ENGINE_COMMS_MAX;
    status = mpi_activity_open(&engine->base, engine->control, &engine->activity, err);
    return status ? status
                  : mpi_check(MPI_Irecv(engine->control_reason, ENGINE_REASON_BYTES, MPI_BYTE,
                                        MPI_ANY_SOURCE, TAG_CONTROL, engine->control,
                                        &engine->control_request),
                              "listening", err);
}

static void finish_mpi(struct mpi_engine *engine)
{
    mpi_activity_close(engine->activity, engine->base.has_ended);
    if (engine->base.has_ended)
        return; /* other ranks may have exited, so MPI_Finalize may hang */
    if (engine->control_request != MPI_REQUEST_NULL) {
        MPI_Cancel(&engine->control_request);
        MPI_Wait(&engine->control_request, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&engine->control);
    MPI_Comm_free(&engine->world);
    if (engine->owns_mpi)
        MPI_Finalize();
}

/* Ending the run. */

void mpi_thread_notify_others(struct engine *base)
{
    struct mpi_engine *engine = mpi_engine_of(base);
    MPI_Request *requests = calloc((size_t)base->ranks, sizeof *requests);
    uint64_t until_ns = clock_now_ns() + NOTIFY_NS;
    int count = 0, all = 0;
    for (int r = 0; r < base->ranks && requests; r++)
        if (r != base->rank &&
            MPI_Isend(base->reason, ENGINE_REASON_BYTES, MPI_BYTE, r, TAG_CONTROL, engine->control,
                      &requests[count]) == MPI_SUCCESS)
            count++;
    while (!all && clock_now_ns() < until_ns && requests) {
        if (MPI_Testall(count, requests, &all, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            break;
        sched_yield();
    }
    free(requests);
}

/* Progress. */

static void serve_control(struct mpi_engine *engine)
{
    int received = 0;
    mpi_activity_serve(engine->activity);
    if (MPI_Test(&engine->control_request, &received, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
        !received)
        return;
    engine->control_reason[ENGINE_REASON_BYTES - 1] = '\0';
    engine_end_run(&engine->base, engine->control_reason, NULL, true);
}

static void run_once(struct mpi_engine *engine, struct engine_op *first, bool abort_requested)
{
    struct engine *base = &engine->base;
    uint64_t began_ns = trace_begin(base->track);
    engine_start_ops(base, first, abort_requested);
    if (first)
        engine->last_event_ns = clock_now_ns();
    if (!base->has_ended)
        serve_control(engine);
    if (engine_progress(base))
        engine->last_event_ns = clock_now_ns();
    engine_check_deadlines(base);
    if (began_ns > 0 &&
        (engine->last_event_ns >= began_ns || clock_now_ns() - began_ns >= POLL_TRACED_NS))
        trace_end(base->track, "progress", began_ns);
}

/* Call with the mutex held. */
static void pause_thread(struct mpi_engine *engine)
{
    struct engine *base = &engine->base;
    uint64_t now_ns = clock_now_ns(), pause_ns = PAUSE_IDLE_NS;
    if (base->active_ops) {
        uint64_t quiet_ns = now_ns - engine->last_event_ns;
        if (quiet_ns < NO_PAUSE_NS) {
            pthread_mutex_unlock(&base->mutex);
            sched_yield();
            pthread_mutex_lock(&base->mutex);
            return;
        }
        pause_ns = quiet_ns / PAUSE_DIVISOR;
        pause_ns = pause_ns < PAUSE_FIRST_NS ? PAUSE_FIRST_NS : pause_ns;
        pause_ns = pause_ns > PAUSE_LAST_NS ? PAUSE_LAST_NS : pause_ns;
    }
    struct timespec until = clock_timespec(now_ns + pause_ns);
    if (!base->queue_first && !base->abort_requested && !base->quit_requested)
        pthread_cond_timedwait(&engine->wake, &base->mutex, &until);
}

/* Runs until quit is set and nothing is left to do. Call with the mutex held. */
static void serve(struct mpi_engine *engine)
{
    struct engine *base = &engine->base;
    while (!base->quit_requested || base->queue_first || base->active_ops) {
        if (base->has_ended) { /* no more operations can be queued */
            pthread_cond_wait(&engine->wake, &base->mutex);
            continue;
        }
        bool abort_requested = base->abort_requested;
        struct engine_op *first = engine_take_queued_ops(base);
        pthread_mutex_unlock(&base->mutex);
        run_once(engine, first, abort_requested);
        pthread_mutex_lock(&base->mutex);
        if (!base->has_ended)
            pause_thread(engine);
    }
}

void *mpi_thread_main(void *argument)
{
    struct mpi_engine *engine = argument;
    struct err detail = {0};
    int status = init_mpi(engine, &detail);
    if (!status)
        status = duplicate_world(engine, &detail);
    pthread_mutex_lock(&engine->base.mutex);
    engine->open_status = status;
    engine->open_detail = detail;
    engine->is_open = true;
    pthread_cond_broadcast(&engine->base.completion);
    if (!status)
        serve(engine);
    pthread_mutex_unlock(&engine->base.mutex);
    if (!status)
        finish_mpi(engine);
    return NULL;
}
