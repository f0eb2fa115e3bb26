/*
 * tcp_engine_open — see tcp_engine.h. The thread is in tcp_thread.c.
 */
#include "comm/tcp/tcp_engine.h"

#include "base/os/thread.h"
#include "comm/tcp/tcp_thread.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void deinit_op(struct engine_op *op)
{
    free(tcp_op_of(op)->messages);
}

static int plan(struct engine_op *base, const struct engine_message *message)
{
    struct tcp_op *op = tcp_op_of(base);
    if (base->planned_count == op->capacity) {
        size_t capacity = op->capacity ? op->capacity * 2 : 16;
        struct tcp_message *messages = realloc(op->messages, capacity * sizeof *messages);
        if (!messages)
            return -ENOMEM;
        op->messages = messages;
        op->capacity = capacity;
    }
    op->messages[base->planned_count++] =
        (struct tcp_message){.data = message->data,
                             .frame = {message->tag, message->bytes},
                             .peer = message->peer,
                             .is_send = message->is_send,
                             .op = op};
    return 0;
}

static int post(struct engine_op *op, struct err *err)
{
    const struct tcp_engine *engine = tcp_engine_of(op->engine);
    int status = 0;
    for (size_t i = 0; i < op->planned_count && !status; i++) {
        struct tcp_message *message = &tcp_op_of(op)->messages[i];
        status = tcp_peer_post(&engine->peers[message->peer], message,
                               message->peer == engine->base.rank, err);
    }
    return status;
}

static bool has_unfinished(const struct engine_op *base, int peer, bool is_send)
{
    const struct tcp_op *op = (const struct tcp_op *)base;
    for (size_t i = 0; i < base->planned_count; i++)
        if (op->messages[i].peer == peer && op->messages[i].is_send == is_send &&
            !op->messages[i].is_done)
            return true;
    return false;
}

static void wake_thread(struct engine *engine)
{
    const uint64_t one = 1;
    while (write(tcp_engine_of(engine)->wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void release(struct tcp_engine *engine)
{
    engine_deinit(&engine->base);
    for (int r = 0; r < engine->base.ranks; r++)
        tcp_peer_deinit(&engine->peers[r]);
    if (engine->wake >= 0)
        close(engine->wake);
    free(engine->peers);
    free(engine);
}

static void close_engine(struct engine *base)
{
    engine_quit(base);
    release(tcp_engine_of(base));
}

static const struct engine_ops tcp_engine_ops = {
    .op_bytes = sizeof(struct tcp_op),
    .deinit = deinit_op,
    .plan = plan,
    .wake = wake_thread,
    .close = close_engine,
    .post = post,
    .query_activity = tcp_thread_query_activity,
    .has_unfinished = has_unfinished,
    .notify_others = tcp_thread_notify_others,
};

int tcp_engine_open(int *sockets, int rank, int ranks, struct engine **ret_engine, struct err *err)
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
    engine->base.rank = rank;
    engine->base.ranks = ranks;
    engine->base.tags_count = TCP_TAGS_COUNT;
    engine->base.comm_ids_count = TCP_COMM_IDS_COUNT;
    engine->peers = peers;
    engine->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (int r = 0; r < ranks; r++) {
        peers[r].rank = r;
        peers[r].socket = sockets[r];
    }
    engine_init(&engine->base, &tcp_engine_ops);
    int status =
        engine->wake < 0 ? -errno : thread_start(&engine->base.thread, tcp_thread_main, engine);
    if (status) {
        release(engine);
        return err_errno(err, status, "could not start a thread for TCP");
    }
    *ret_engine = &engine->base;
    return 0;
}
