/*
 * tcp_engine — see tcp_engine.h: the callers' side. The thread is in tcp_thread.c.
 */
#include "comm/tcp_engine.h"

#include "base/clock.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "comm/tcp_thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void wake(struct tcp_engine *engine)
{
    const uint64_t one = 1;
    while (write(engine->wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void free_op(struct tcp_op *op)
{
    free(op->messages);
    free(op->scratch);
    free(op);
}

static void release(struct tcp_engine *engine)
{
    for (struct tcp_op *op = engine->made, *next; op;
         op = next) { /* also those that nobody waited for, as the run ended */
        next = op->next_made;
        free_op(op);
    }
    for (int r = 0; engine->peers && r < engine->ranks; r++)
        tcp_peer_deinit(&engine->peers[r]);
    if (engine->wake >= 0)
        close(engine->wake);
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->mutex);
    free(engine->peers);
    free(engine);
}

int tcp_engine_open(int *sockets, int rank, int ranks, struct tcp_engine **ret_engine, struct err *err)
{
    struct tcp_engine *engine = calloc(1, sizeof *engine);
    struct tcp_peer *peers = calloc((size_t)ranks, sizeof *peers);
    if (!engine || !peers) {
        for (int r = 0; r < ranks; r++)
            if (sockets[r] >= 0)
                close(sockets[r]);
        free(engine);
        free(peers);
        return err_set(err, -ENOMEM, "out of memory for %d ranks", ranks);
    }
    *engine = (struct tcp_engine){.rank = rank,
                                  .ranks = ranks,
                                  .peers = peers,
                                  .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                  .doing_since_ns = clock_now_ns()};
    for (int r = 0; r < ranks; r++) {
        peers[r].rank = r;
        peers[r].socket = sockets[r];
    }
    pthread_mutex_init(&engine->mutex, NULL);
    pthread_cond_init(&engine->changed, NULL);
    int status = engine->wake < 0 ? -errno : thread_start(&engine->thread, tcp_thread_main, engine);
    if (status) {
        release(engine);
        return err_errno(err, status, "no thread for TCP");
    }
    *ret_engine = engine;
    return 0;
}

void tcp_engine_close(struct tcp_engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    engine->quit = true;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
    wake(engine);
    pthread_join(engine->thread, NULL);
    release(engine);
}

uint32_t tcp_engine_name(struct tcp_engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    uint32_t name = ++engine->newest_name;
    pthread_mutex_unlock(&engine->mutex);
    return name;
}

int tcp_engine_check(struct tcp_engine *engine, struct err *err)
{
    pthread_mutex_lock(&engine->mutex);
    int status = engine->ended ? tcp_thread_tell_ended(engine, err) : 0;
    pthread_mutex_unlock(&engine->mutex);
    return status;
}

int tcp_engine_take(struct tcp_engine *engine, struct tcp_op **ret_op, struct err *err)
{
    pthread_mutex_lock(&engine->mutex);
    int status = engine->ended ? tcp_thread_tell_ended(engine, err) : 0;
    struct tcp_op *op = engine->unused;
    if (!status && op)
        engine->unused = op->next;
    pthread_mutex_unlock(&engine->mutex);
    if (status)
        return status;
    if (!op) {
        op = calloc(1, sizeof *op);
        if (!op)
            return err_set(err, -ENOMEM, "out of memory for an exchange");
        pthread_mutex_lock(&engine->mutex);
        op->next_made = engine->made;
        engine->made = op;
        pthread_mutex_unlock(&engine->mutex);
    }
    op->next = NULL;
    op->engine = engine;
    op->count = op->done_count = 0;
    op->finish = NULL;
    op->deadline_ns = op->asked_ns = 0;
    op->is_done = false;
    op->status = 0;
    err_clear(&op->detail);
    *ret_op = op;
    return 0;
}

void tcp_engine_give(struct tcp_engine *engine, struct tcp_op *op)
{
    pthread_mutex_lock(&engine->mutex);
    op->next = engine->unused;
    engine->unused = op;
    pthread_mutex_unlock(&engine->mutex);
}

int tcp_op_plan(struct tcp_op *op, const struct tcp_message *message)
{
    if (op->count == op->capacity) {
        size_t capacity = op->capacity ? op->capacity * 2 : 16;
        struct tcp_message *messages = realloc(op->messages, capacity * sizeof *messages);
        if (!messages)
            return -ENOMEM;
        op->messages = messages;
        op->capacity = capacity;
    }
    op->messages[op->count] = *message;
    op->messages[op->count++].is_done = false;
    return 0;
}

void *tcp_op_scratch(struct tcp_op *op, size_t bytes)
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

void tcp_engine_start(struct tcp_engine *engine, struct tcp_op *op)
{
    pthread_mutex_lock(&engine->mutex);
    if (engine->ended) {
        op->status = tcp_thread_tell_ended(engine, &op->detail);
        op->is_done = true;
    } else {
        if (engine->queue_last)
            engine->queue_last->next = op;
        else
            engine->queue_first = op;
        engine->queue_last = op;
    }
    pthread_mutex_unlock(&engine->mutex);
    wake(engine);
}

bool tcp_engine_is_done(struct tcp_engine *engine, struct tcp_op *op)
{
    pthread_mutex_lock(&engine->mutex);
    bool is_done = op->is_done;
    pthread_mutex_unlock(&engine->mutex);
    return is_done;
}

void tcp_engine_wait(struct tcp_engine *engine, struct tcp_op *op)
{
    pthread_mutex_lock(&engine->mutex);
    while (!op->is_done)
        pthread_cond_wait(&engine->changed, &engine->mutex);
    pthread_mutex_unlock(&engine->mutex);
}

void tcp_engine_note(struct tcp_engine *engine, const char *what, uint64_t number)
{
    pthread_mutex_lock(&engine->mutex);
    engine->doing = what;
    engine->doing_number = number;
    engine->doing_since_ns = clock_now_ns();
    pthread_mutex_unlock(&engine->mutex);
}

void tcp_engine_abort(struct tcp_engine *engine, const char *why)
{
    pthread_mutex_lock(&engine->mutex);
    if (!engine->ended && !engine->abort_asked) {
        snprintf(engine->why, sizeof engine->why, "%s", why);
        engine->abort_asked = true;
    }
    pthread_mutex_unlock(&engine->mutex);
    wake(engine);
    pthread_mutex_lock(&engine->mutex);
    while (!engine->ended)
        pthread_cond_wait(&engine->changed, &engine->mutex);
    pthread_mutex_unlock(&engine->mutex);
}
