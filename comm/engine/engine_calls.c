/*
 * engine_calls — see engine.h: the callers' side.
 */
#include "comm/engine/engine_thread.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void engine_init(struct engine *engine, const struct engine_ops *ops)
{
    engine->ops = ops;
    engine->activity_since_ns = clock_now_ns();
    pthread_mutex_init(&engine->mutex, NULL);
    pthread_cond_init(&engine->completion, NULL);
}

void engine_deinit(struct engine *engine)
{
    for (struct engine_op *op = engine->allocated_ops, *next; op; op = next) {
        next = op->next_allocated;
        engine->ops->deinit(op);
        free(op->scratch);
        free(op);
    }
    pthread_cond_destroy(&engine->completion);
    pthread_mutex_destroy(&engine->mutex);
}

/* Callers. */

int engine_alloc_comm_id(struct engine *engine, unsigned *ret_id, struct err *err)
{
    int status = -ENOBUFS;
    pthread_mutex_lock(&engine->mutex);
    for (unsigned i = 0; i < ENGINE_COMMS_MAX && status; i++) {
        unsigned id = (engine->next_comm_id + i) % engine->comm_ids_count;
        if (engine->comm_id_is_used[id % ENGINE_COMMS_MAX])
            continue;
        engine->comm_id_is_used[id % ENGINE_COMMS_MAX] = true;
        engine->next_comm_id = id + 1;
        *ret_id = id;
        status = 0;
    }
    pthread_mutex_unlock(&engine->mutex);
    return status ? err_set(err, status, "a process has %d communicators open", ENGINE_COMMS_MAX)
                  : 0;
}

void engine_free_comm_id(struct engine *engine, unsigned id)
{
    pthread_mutex_lock(&engine->mutex);
    engine->comm_id_is_used[id % ENGINE_COMMS_MAX] = false;
    pthread_mutex_unlock(&engine->mutex);
}

int engine_ended_error(const struct engine *engine, struct err *err)
{
    return err_set(err, -ECONNABORTED, "the run was ended: %.230s", engine->reason);
}

int engine_check(struct engine *engine, struct err *err)
{
    pthread_mutex_lock(&engine->mutex);
    int status = engine->has_ended ? engine_ended_error(engine, err) : 0;
    pthread_mutex_unlock(&engine->mutex);
    return status;
}

static struct engine_op *allocate_op(struct engine *engine)
{
    struct engine_op *op = calloc(1, engine->ops->op_bytes);
    if (!op)
        return NULL;
    op->engine = engine;
    pthread_mutex_lock(&engine->mutex);
    op->next_allocated = engine->allocated_ops;
    engine->allocated_ops = op;
    pthread_mutex_unlock(&engine->mutex);
    return op;
}

int engine_op_acquire(struct engine *engine, struct engine_op **ret_op, struct err *err)
{
    pthread_mutex_lock(&engine->mutex);
    int status = engine->has_ended ? engine_ended_error(engine, err) : 0;
    struct engine_op *op = engine->unused_ops;
    if (!status && op)
        engine->unused_ops = op->next;
    pthread_mutex_unlock(&engine->mutex);
    if (status)
        return status;
    if (!op)
        op = allocate_op(engine);
    if (!op)
        return err_set(err, -ENOMEM, "out of memory for an exchange");
    op->next = NULL;
    op->advance = NULL;
    op->planned_count = op->done_count = 0;
    op->deadline_ns = op->wait_began_ns = op->trace_began_ns = op->sent_bytes = op->sum_bit = 0;
    op->is_done = false;
    op->status = 0;
    err_clear(&op->detail);
    *ret_op = op;
    return 0;
}

void engine_op_release(struct engine_op *op)
{
    struct engine *engine = op->engine;
    pthread_mutex_lock(&engine->mutex);
    op->next = engine->unused_ops;
    engine->unused_ops = op;
    pthread_mutex_unlock(&engine->mutex);
}

void *engine_op_scratch(struct engine_op *op, size_t bytes)
{
    if (bytes > op->scratch_bytes) {
        void *scratch = realloc(op->scratch, bytes);
        if (!scratch)
            return NULL;
        op->scratch = scratch;
        op->scratch_bytes = bytes;
    }
    return op->scratch;
}

void engine_start(struct engine_op *op)
{
    struct engine *engine = op->engine;
    pthread_mutex_lock(&engine->mutex);
    bool run_ended = engine->has_ended;
    if (run_ended) {
        op->status = engine_ended_error(engine, &op->detail);
        op->is_done = true;
    } else {
        if (engine->queue_last)
            engine->queue_last->next = op;
        else
            engine->queue_first = op;
        engine->queue_last = op;
    }
    pthread_mutex_unlock(&engine->mutex);
    if (!run_ended)
        engine->ops->wake(engine);
}

bool engine_is_done(struct engine_op *op)
{
    pthread_mutex_lock(&op->engine->mutex);
    bool is_done = op->is_done;
    pthread_mutex_unlock(&op->engine->mutex);
    return is_done;
}

void engine_wait(struct engine_op *op)
{
    struct engine *engine = op->engine;
    pthread_mutex_lock(&engine->mutex);
    while (!op->is_done)
        pthread_cond_wait(&engine->completion, &engine->mutex);
    pthread_mutex_unlock(&engine->mutex);
}

void engine_quit(struct engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    engine->quit_requested = true;
    pthread_cond_broadcast(&engine->completion);
    pthread_mutex_unlock(&engine->mutex);
    engine->ops->wake(engine);
    pthread_join(engine->thread, NULL);
}
