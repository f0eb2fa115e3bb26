/*
 * mpi_engine — see mpi_engine.h. The callers' side; the thread is in mpi_thread.c.
 */
#include "comm/mpi_engine.h"

#include "base/thread.h"
#include "base/trace.h"
#include "comm/comm.h"
#include "comm/mpi_op.h"
#include "comm/mpi_thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MESSAGE_DEFAULT_BYTES = 8 << 20 };

/* MPI is one a process, and so is this. */
static atomic_flag engine_exists = ATOMIC_FLAG_INIT;

static void release(struct mpi_engine *engine)
{
    for (struct mpi_op *op = engine->unused, *next; op; op = next) {
        next = op->next;
        mpi_op_deinit(op);
        free(op);
    }
    pthread_cond_destroy(&engine->changed);
    pthread_cond_destroy(&engine->wake);
    pthread_mutex_destroy(&engine->mutex);
    free(engine);
    atomic_flag_clear(&engine_exists);
}

static int start_thread(struct mpi_engine *engine, struct err *err)
{
    int status = thread_start(&engine->thread, mpi_thread_main, engine);
    if (status)
        return err_errno(err, status, "no thread for MPI");
    pthread_mutex_lock(&engine->mutex);
    while (!engine->is_open)
        pthread_cond_wait(&engine->changed, &engine->mutex);
    status = engine->open_status;
    if (status && err)
        *err = engine->open_detail;
    pthread_mutex_unlock(&engine->mutex);
    if (status)
        pthread_join(engine->thread, NULL);
    return status;
}

int mpi_engine_open(size_t message_bytes_max, struct mpi_engine **ret_engine, struct err *err)
{
    pthread_condattr_t monotonic;
    if (atomic_flag_test_and_set(&engine_exists))
        return err_set(
            err, -EBUSY,
            "MPI is in use by another communicator of all ranks (split that one), or its run was ended");
    struct mpi_engine *engine = calloc(1, sizeof *engine);
    if (!engine) {
        atomic_flag_clear(&engine_exists);
        return err_set(err, -ENOMEM, "out of memory for MPI");
    }
    engine->message_bytes_max = message_bytes_max ? message_bytes_max : MESSAGE_DEFAULT_BYTES;
    engine->control_request = MPI_REQUEST_NULL;
    pthread_mutex_init(&engine->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&engine->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&engine->changed, NULL);
    int status = start_thread(engine, err);
    if (status)
        release(engine);
    else
        *ret_engine = engine;
    return status;
}

void mpi_engine_close(struct mpi_engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    engine->quit = true;
    pthread_cond_signal(&engine->wake);
    pthread_mutex_unlock(&engine->mutex);
    pthread_join(engine->thread, NULL);
    if (engine->ended)
        comm_retain(engine);
    else
        release(engine);
}

int mpi_engine_rank(const struct mpi_engine *engine)
{
    return engine->rank;
}

int mpi_engine_ranks(const struct mpi_engine *engine)
{
    return engine->ranks;
}

size_t mpi_engine_message_bytes_max(const struct mpi_engine *engine)
{
    return engine->message_bytes_max;
}

MPI_Comm mpi_engine_world(const struct mpi_engine *engine)
{
    return engine->world;
}

int mpi_engine_name_context(struct mpi_engine *engine, int *ret_context, struct err *err)
{
    int status = -ENOBUFS;
    pthread_mutex_lock(&engine->mutex);
    for (int i = 0; i < MPI_CONTEXTS_MAX && status; i++) {
        int context = (engine->context_next + i) % MPI_CONTEXTS_MAX;
        if (engine->context_used[context])
            continue;
        engine->context_used[context] = true;
        engine->context_next = context + 1;
        *ret_context = context;
        status = 0;
    }
    pthread_mutex_unlock(&engine->mutex);
    return status ? err_set(err, status, "a process has %d communicators open", MPI_CONTEXTS_MAX) : 0;
}

void mpi_engine_forget_context(struct mpi_engine *engine, int context)
{
    pthread_mutex_lock(&engine->mutex);
    engine->context_used[context] = false;
    pthread_mutex_unlock(&engine->mutex);
}

int mpi_engine_tag(const struct mpi_engine *engine, int context, int letter)
{
    return letter >= engine->tags_count - 1 ? -1 : context * engine->tags_count + letter + 1;
}

int mpi_engine_take(struct mpi_engine *engine, struct mpi_op **ret_op, struct err *err)
{
    pthread_mutex_lock(&engine->mutex);
    int status = engine->ended ? mpi_thread_tell_ended(engine, err) : 0;
    struct mpi_op *op = engine->unused;
    if (!status && op)
        engine->unused = op->next;
    pthread_mutex_unlock(&engine->mutex);
    if (status)
        return status;
    if (!op)
        op = calloc(1, sizeof *op);
    if (!op)
        return err_set(err, -ENOMEM, "out of memory for an exchange");
    op->engine = engine;
    op->next = NULL;
    mpi_op_clear(op);
    *ret_op = op;
    return 0;
}

void mpi_engine_give(struct mpi_engine *engine, struct mpi_op *op)
{
    pthread_mutex_lock(&engine->mutex);
    op->next = engine->unused;
    engine->unused = op;
    pthread_mutex_unlock(&engine->mutex);
}

void mpi_engine_start(struct mpi_engine *engine, struct mpi_op *op)
{
    pthread_mutex_lock(&engine->mutex);
    if (engine->ended) {
        op->status = mpi_thread_tell_ended(engine, &op->detail);
        op->is_done = true;
    } else {
        if (engine->queue_last)
            engine->queue_last->next = op;
        else
            engine->queue_first = op;
        engine->queue_last = op;
        pthread_cond_signal(&engine->wake);
    }
    pthread_mutex_unlock(&engine->mutex);
}

bool mpi_engine_is_done(struct mpi_engine *engine, struct mpi_op *op)
{
    pthread_mutex_lock(&engine->mutex);
    bool is_done = op->is_done;
    pthread_mutex_unlock(&engine->mutex);
    return is_done;
}

void mpi_engine_wait(struct mpi_engine *engine, struct mpi_op *op)
{
    pthread_mutex_lock(&engine->mutex);
    while (!op->is_done)
        pthread_cond_wait(&engine->changed, &engine->mutex);
    pthread_mutex_unlock(&engine->mutex);
}

int mpi_engine_check(struct mpi_engine *engine, struct err *err)
{
    pthread_mutex_lock(&engine->mutex);
    int status = engine->ended ? mpi_thread_tell_ended(engine, err) : 0;
    pthread_mutex_unlock(&engine->mutex);
    return status;
}

void mpi_engine_note(struct mpi_engine *engine, const char *what, uint64_t number)
{
    mpi_inquiry_note(engine->inquiry, what, number);
}

void mpi_engine_add_track(struct mpi_engine *engine, struct trace *trace)
{
    struct trace_track *track = trace_add_track(trace, "mpi", 0);
    pthread_mutex_lock(&engine->mutex);
    engine->track_given = track;
    pthread_mutex_unlock(&engine->mutex);
}

void mpi_engine_abort(struct mpi_engine *engine, const char *why)
{
    pthread_mutex_lock(&engine->mutex);
    if (!engine->ended && !engine->abort_asked) {
        snprintf(engine->why, sizeof engine->why, "%s", why);
        engine->abort_asked = true;
        pthread_cond_signal(&engine->wake);
    }
    while (!engine->ended)
        pthread_cond_wait(&engine->changed, &engine->mutex);
    pthread_mutex_unlock(&engine->mutex);
}
