/*
 * mpi_thread — see mpi_thread.h.
 */
#include "comm/mpi_thread.h"

#include "base/clock.h"
#include "base/trace.h"
#include "comm/mpi_op.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TAG_CONTROL = 0, /* on a copy of the world that mpi_inquiry uses too */
    NO_PAUSE_NS = 30000,
    PAUSE_SHARE = 16, /* of the time for which nothing happened */
    PAUSE_FIRST_NS = 20000,
    PAUSE_LAST_NS = 1000000,
    PAUSE_IDLE_NS = 50000000,
    LOOK_TRACED_NS = 20000,   /* MPI was busy itself, though nothing has ended */
    FAREWELL_NS = 1000000000, /* for telling the others that the run has ended */
};

/* Starting and ending MPI, on the thread. */

static int init_mpi(struct mpi_engine *engine, struct err *err)
{
    int initialized = 0, finalized = 0, provided = MPI_THREAD_SINGLE;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (finalized)
        return err_set(err, -EALREADY, "MPI was ended in this process, and can't be started again");
    int status =
        initialized ? mpi_check(MPI_Query_thread(&provided), "its threads", err)
                    : mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "starting", err);
    if (status)
        return status;
    engine->owns_mpi = !initialized;
    if (!initialized || provided == MPI_THREAD_MULTIPLE)
        return 0;
    err_set(err, -EINVAL,
            "the program started MPI without MPI_THREAD_MULTIPLE, so that no other thread may call it");
    return err_advise(
        err, "call MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...), or leave starting MPI to comm_mpi_open");
}

static int make_worlds(struct mpi_engine *engine, struct err *err)
{
    int *tag_max = NULL, is_set = 0;
    int status = mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &engine->world), "copying the world", err);
    if (!status)
        status = mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &engine->control), "copying the world", err);
    if (status)
        return status;
    MPI_Comm_set_errhandler(engine->world, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(engine->control, MPI_ERRORS_RETURN);
    MPI_Comm_rank(engine->world, &engine->rank);
    MPI_Comm_size(engine->world, &engine->ranks);
    MPI_Comm_get_attr(engine->world, MPI_TAG_UB, &tag_max, &is_set);
    engine->tags_count = (is_set ? *tag_max : 32767) / MPI_CONTEXTS_MAX;
    status = mpi_inquiry_open(engine->control, engine->ranks, &engine->inquiry, err);
    return status ? status
                  : mpi_check(MPI_Irecv(engine->control_why, MPI_WHY_BYTES, MPI_BYTE, MPI_ANY_SOURCE,
                                        TAG_CONTROL, engine->control, &engine->control_request),
                              "listening", err);
}

static void end_mpi(struct mpi_engine *engine)
{
    mpi_inquiry_close(engine->inquiry, engine->ended);
    if (engine->ended)
        return; /* others may be gone: what waits for them would never return */
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

static void finish(struct mpi_engine *engine, struct mpi_op *op, int status, const struct err *detail)
{
    pthread_mutex_lock(&engine->mutex);
    op->status = status;
    op->detail = *detail;
    op->is_done = true;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
}

int mpi_thread_tell_ended(const struct mpi_engine *engine, struct err *err)
{
    return err_set(err, -ECONNABORTED, "the run was ended: %.230s", engine->why);
}

/* A word to each other rank, as far as they take it in time. */
static void tell_others(struct mpi_engine *engine)
{
    MPI_Request *requests = calloc((size_t)engine->ranks, sizeof *requests);
    uint64_t until_ns = clock_now_ns() + FAREWELL_NS;
    int count = 0, all = 0;
    for (int r = 0; r < engine->ranks && requests; r++)
        if (r != engine->rank && MPI_Isend(engine->why, MPI_WHY_BYTES, MPI_BYTE, r, TAG_CONTROL,
                                           engine->control, &requests[count]) == MPI_SUCCESS)
            count++;
    while (!all && clock_now_ns() < until_ns && requests) {
        if (MPI_Testall(count, requests, &all, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            break;
        sched_yield();
    }
    free(requests);
}

/* Everything under way ends. The active operations are done afterwards. own: the failure of this process that is why, where it is one. */
static void end_run(struct mpi_engine *engine, const char *why, const struct err *own, bool others_know)
{
    struct err detail = {0};
    pthread_mutex_lock(&engine->mutex);
    engine->abort_asked = true; /* from here on callers leave `why` as it is, which the others are sent */
    memmove(engine->why, why, strnlen(why, MPI_WHY_BYTES - 1) + 1);
    engine->why[MPI_WHY_BYTES - 1] = '\0';
    pthread_mutex_unlock(&engine->mutex);
    if (!others_know)
        tell_others(engine);
    pthread_mutex_lock(&engine->mutex);
    engine->ended = true;
    mpi_thread_tell_ended(engine, &detail);
    if (own)
        detail = *own;
    for (struct mpi_op *op = engine->queue_first; op; op = op->next) {
        op->status = -ECONNABORTED;
        op->detail = detail;
        op->is_done = true;
    }
    engine->queue_first = engine->queue_last = NULL;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
    for (struct mpi_op *op = engine->active, *next; op; op = next) {
        next = op->next; /* whoever waits for it may take it as soon as it is done */
        finish(engine, op, -ECONNABORTED, &detail);
    }
    engine->active = NULL;
}

/* The operation fails, and with it the run: nobody can know what the other ranks have got of it. */
static void fail(struct mpi_engine *engine, struct mpi_op *op, int status, const struct err *detail)
{
    char why[MPI_WHY_BYTES];
    struct mpi_op **link = &engine->active;
    while (*link != op)
        link = &(*link)->next;
    *link = op->next;
    int found = (int)strcspn(detail->found, ";"); /* they need not know what else was asked */
    snprintf(why, sizeof why, "rank %d: %.150s%s%.*s", engine->rank, detail->what, found > 0 ? ": " : "",
             found < 60 ? found : 60, detail->found);
    end_run(engine, why, detail, false);
    finish(engine, op, status, detail);
}

static void fail_late(struct mpi_engine *engine, struct mpi_op *op)
{
    struct err detail = {0};
    char late[120], doing[240];
    mpi_op_tell_late(op, late, sizeof late);
    mpi_inquiry_ask(engine->inquiry, op, doing, sizeof doing);
    err_set(&detail, -ETIMEDOUT, "rank %d of %d waited too long for %s", engine->rank, engine->ranks,
            op->what);
    err_found(&detail, "%s%s", late, doing);
    err_advise(&detail, "look for the rank that stopped or is slow; raise the timeout if it is only slow");
    fail(engine, op, -ETIMEDOUT, &detail);
}

/* Progress. */

/* True once it is done. Rounds follow each other until there is something to wait for. */
static int move_on(struct mpi_engine *engine, struct mpi_op *op, bool *ret_done, struct err *err)
{
    *ret_done = false;
    while (mpi_op_round_is_done(op)) {
        if (!op->advance) {
            *ret_done = true;
            return 0;
        }
        uint64_t began_ns = trace_begin(engine->track);
        mpi_op_next_round(op);
        int status = op->advance(op, err);
        if (status)
            return status;
        if (op->planned_count == 0)
            op->advance = NULL;
        status = mpi_op_post(op, engine->world, err);
        trace_end(engine->track, "next round", began_ns);
        if (status)
            return status;
    }
    return 0;
}

/* -errno: the run has ended. */
static int progress_op(struct mpi_engine *engine, struct mpi_op **link)
{
    struct mpi_op *op = *link;
    struct err detail = {0};
    bool done = false;
    int count = mpi_op_ask(op, &detail);
    int status = count < 0 ? count : move_on(engine, op, &done, &detail);
    if (status) {
        fail(engine, op, status, &detail);
        return status;
    }
    if (count > 0 || done)
        engine->last_event_ns = clock_now_ns();
    if (done) {
        *link = op->next;
        trace_end_flight(engine->track, op->kind, op->traced_ns, "sent_bytes", op->sent_bytes);
        finish(engine, op, 0, &detail);
    } else if (op->deadline_ns && clock_now_ns() >= op->deadline_ns) {
        fail_late(engine, op);
        return -ETIMEDOUT;
    }
    return 0;
}

static void hear_control(struct mpi_engine *engine)
{
    int heard = 0;
    mpi_inquiry_serve(engine->inquiry);
    if (MPI_Test(&engine->control_request, &heard, MPI_STATUS_IGNORE) != MPI_SUCCESS || !heard)
        return;
    engine->control_why[MPI_WHY_BYTES - 1] = '\0';
    end_run(engine, engine->control_why, NULL, true);
}

/* One look at everything. */
static void progress(struct mpi_engine *engine)
{
    struct mpi_op **link = &engine->active;
    hear_control(engine);
    while (!engine->ended && *link) {
        struct mpi_op *op = *link;
        if (progress_op(engine, link))
            return;
        if (*link == op)
            link = &op->next;
    }
}

/* Takes over what was handed over. */
static void accept_ops(struct mpi_engine *engine, struct mpi_op *first)
{
    struct mpi_op **link = &engine->active;
    while (*link)
        link = &(*link)->next;
    for (struct mpi_op *op = first, *next; op; op = next) {
        struct err detail = {0};
        next = op->next;
        op->next = NULL;
        *link = op;
        link = &op->next;
        op->traced_ns = trace_begin(engine->track);
        int status = mpi_op_post(op, engine->world, &detail);
        trace_end(engine->track, "post", op->traced_ns);
        if (status) {
            *link = next; /* they end as well */
            fail(engine, op, status, &detail);
            return;
        }
    }
    if (first)
        engine->last_event_ns = clock_now_ns();
}

/* Whatever there is to do now. */
static void work(struct mpi_engine *engine, struct mpi_op *first, bool abort_asked)
{
    uint64_t began_ns = trace_begin(engine->track);
    accept_ops(engine, first);
    if (abort_asked && !engine->ended)
        end_run(engine, engine->why, NULL, false);
    if (!engine->ended)
        progress(engine);
    if (began_ns > 0 && (engine->last_event_ns >= began_ns || clock_now_ns() - began_ns >= LOOK_TRACED_NS))
        trace_end(engine->track, "progress", began_ns);
}

/* The mutex is held. */
static void pause_thread(struct mpi_engine *engine)
{
    uint64_t now_ns = clock_now_ns(), pause_ns = PAUSE_IDLE_NS;
    if (engine->active) {
        uint64_t quiet_ns = now_ns - engine->last_event_ns;
        if (quiet_ns < NO_PAUSE_NS) {
            pthread_mutex_unlock(&engine->mutex);
            sched_yield();
            pthread_mutex_lock(&engine->mutex);
            return;
        }
        pause_ns = quiet_ns / PAUSE_SHARE;
        pause_ns = pause_ns < PAUSE_FIRST_NS ? PAUSE_FIRST_NS : pause_ns;
        pause_ns = pause_ns > PAUSE_LAST_NS ? PAUSE_LAST_NS : pause_ns;
    }
    uint64_t until_ns = now_ns + pause_ns;
    struct timespec until = {.tv_sec = (time_t)(until_ns / CLOCK_NS_PER_S),
                             .tv_nsec = (long)(until_ns % CLOCK_NS_PER_S)};
    if (!engine->queue_first && !engine->abort_asked && !engine->quit)
        pthread_cond_timedwait(&engine->wake, &engine->mutex, &until);
}

/* Until it is told to quit and nothing is left. The mutex is held. */
static void serve(struct mpi_engine *engine)
{
    while (!engine->quit || engine->queue_first || engine->active) {
        struct mpi_op *first = engine->queue_first;
        bool abort_asked = engine->abort_asked && !engine->ended;
        engine->queue_first = engine->queue_last = NULL;
        if (engine->ended) { /* nothing is handed over any more */
            pthread_cond_wait(&engine->wake, &engine->mutex);
            continue;
        }
        engine->track = engine->track_given;
        pthread_mutex_unlock(&engine->mutex);
        work(engine, first, abort_asked);
        pthread_mutex_lock(&engine->mutex);
        if (!engine->ended)
            pause_thread(engine);
    }
}

void *mpi_thread_main(void *argument)
{
    struct mpi_engine *engine = argument;
    struct err detail = {0};
    int status = init_mpi(engine, &detail);
    if (!status)
        status = make_worlds(engine, &detail);
    pthread_mutex_lock(&engine->mutex);
    engine->open_status = status;
    engine->open_detail = detail;
    engine->is_open = true;
    pthread_cond_broadcast(&engine->changed);
    if (!status)
        serve(engine);
    pthread_mutex_unlock(&engine->mutex);
    if (!status)
        end_mpi(engine);
    return NULL;
}
