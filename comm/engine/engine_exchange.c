/*
 * engine_exchange — all-gather, all-to-all and messages. See engine_comm.h.
 */
#include "comm/engine/engine_comm.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

int engine_comm_plan_send(struct comm *base, struct engine_op *op, int to, uint64_t tag,
                          const void *data, size_t bytes)
{
    const struct engine_comm *comm = engine_comm_of(base);
    op->sent_bytes += bytes;
    return comm->engine->ops->plan(op, &(struct engine_message){.data = (void *)(uintptr_t)data,
                                                                .bytes = bytes,
                                                                .tag = comm->tags[to] + tag,
                                                                .peer = comm->world_ranks[to],
                                                                .is_send = true});
}

int engine_comm_plan_receive(struct comm *base, struct engine_op *op, int from, uint64_t tag,
                             void *data, size_t bytes)
{
    const struct engine_comm *comm = engine_comm_of(base);
    return comm->engine->ops->plan(op, &(struct engine_message){.data = data,
                                                                .bytes = bytes,
                                                                .tag = comm->tags[base->rank] + tag,
                                                                .peer = comm->world_ranks[from]});
}

int engine_comm_plan_gather(struct comm *base, struct engine_op *op, const void *send,
                            char *receive, size_t bytes)
{
    int status = 0;
    for (int i = 1; i < base->ranks && !status; i++) {
        int rank = engine_comm_peer(base, i);
        status = engine_comm_plan_receive(base, op, rank, ENGINE_TAG_COLLECTIVE,
                                          receive + (size_t)rank * bytes, bytes);
        if (!status)
            status = engine_comm_plan_send(base, op, rank, ENGINE_TAG_COLLECTIVE, send, bytes);
    }
    return status;
}

int engine_comm_all_gather(struct comm *base, const void *send, void *receive, size_t bytes,
                           const struct comm_options *options, struct comm_work *work,
                           struct err *err)
{
    struct engine_op *op;
    int status = engine_comm_begin(base, options, "gathering", &op, err);
    if (status)
        return status;
    char *own = (char *)receive + (size_t)base->rank * bytes;
    if (bytes > 0 && own != send)
        memmove(own, send, bytes);
    if (bytes > 0)
        status = engine_comm_plan_gather(base, op, send, receive, bytes);
    return engine_comm_start(base, op, status, options, work, err);
}

int engine_comm_all_to_all(struct comm *base, const void *send, const size_t *send_offsets,
                           const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                           const size_t *receive_bytes, const struct comm_options *options,
                           struct comm_work *work, struct err *err)
{
    const char *from = send;
    char *to = receive;
    struct engine_op *op;
    int own = base->rank, status = engine_comm_begin(base, options, "an all-to-all", &op, err);
    if (status)
        return status;
    assert(send_bytes[own] == receive_bytes[own]);
    if (send_bytes[own] > 0)
        memmove(to + receive_offsets[own], from + send_offsets[own], send_bytes[own]);
    for (int i = 1; i < base->ranks && !status; i++) {
        int rank = engine_comm_peer(base, i);
        if (receive_bytes[rank] > 0)
            status = engine_comm_plan_receive(base, op, rank, ENGINE_TAG_COLLECTIVE,
                                              to + receive_offsets[rank], receive_bytes[rank]);
        if (send_bytes[rank] > 0 && !status)
            status = engine_comm_plan_send(base, op, rank, ENGINE_TAG_COLLECTIVE,
                                           from + send_offsets[rank], send_bytes[rank]);
    }
    return engine_comm_start(base, op, status, options, work, err);
}

/* Messages. */

static int begin_message(struct comm *base, int rank, int tag, const struct comm_options *options,
                         const char *kind, struct engine_op **ret_op, struct err *err)
{
    const struct engine_comm *comm = engine_comm_of(base);
    (void)rank; /* unused without assertions */
    assert(rank >= 0 && rank < base->ranks && tag >= 0);
    if (ENGINE_TAG_MESSAGE + (uint64_t)tag >= comm->engine->tags_count)
        return err_set(err, -EINVAL, "the tag %d is too large for %s, which has %llu tags", tag,
                       base->ops->name,
                       (unsigned long long)comm->engine->tags_count - ENGINE_TAG_MESSAGE);
    return engine_comm_begin(base, options, kind, ret_op, err);
}

int engine_comm_send(struct comm *base, const void *data, size_t bytes, int to, int tag,
                     const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct engine_op *op;
    int status = begin_message(base, to, tag, options, "sending a message", &op, err);
    if (status)
        return status;
    status = engine_comm_plan_send(base, op, to, ENGINE_TAG_MESSAGE + (uint64_t)tag, data, bytes);
    return engine_comm_start(base, op, status, options, work, err);
}

int engine_comm_receive(struct comm *base, void *data, size_t bytes, int from, int tag,
                        const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct engine_op *op;
    int status = begin_message(base, from, tag, options, "a message", &op, err);
    if (status)
        return status;
    status =
        engine_comm_plan_receive(base, op, from, ENGINE_TAG_MESSAGE + (uint64_t)tag, data, bytes);
    return engine_comm_start(base, op, status, options, work, err);
}
