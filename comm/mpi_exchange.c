/*
 * mpi_exchange — operations of comm_mpi that move bytes and change none: gathering, all-to-all, letters. See mpi_comm.h.
 */
#include "comm/mpi_comm.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A blank operation of this communicator. */
int mpi_comm_begin(struct comm_mpi *comm, const struct comm_options *options, const char *name,
                   struct mpi_op **ret_op, struct err *err)
{
    int status = mpi_engine_take(engine_of(comm), ret_op, err);
    if (status)
        return status;
    struct mpi_op *op = *ret_op;
    op->deadline_ns = options ? options->deadline_ns : 0;
    op->kind = name;
    op->world_ranks = comm->world_ranks;
    op->ranks = comm->base.ranks;
    snprintf(op->what, sizeof op->what, "%s", options && options->what ? options->what : name);
    return 0;
}

/* Starts it, or takes it back where planning it failed. */
int mpi_comm_start(struct comm_mpi *comm, struct mpi_op *op, int status, const struct comm_options *options,
                   struct comm_work *work, struct err *err)
{
    if (status) {
        mpi_engine_give(engine_of(comm), op);
        return err_set(err, status, "out of memory for an exchange of %d ranks", comm->base.ranks);
    }
    *work = (struct comm_work){.comm = &comm->base,
                               .state = op,
                               .deadline_ns = options ? options->deadline_ns : 0,
                               .what = options ? options->what : NULL};
    mpi_engine_start(engine_of(comm), op);
    return 0;
}

int mpi_comm_plan_send(struct comm_mpi *comm, struct mpi_op *op, int to, const void *data, size_t bytes)
{
    return mpi_op_plan(op, &(struct mpi_message){.data = (void *)(uintptr_t)data,
                                                 .bytes = bytes,
                                                 .peer = comm->world_ranks[to],
                                                 .tag = comm->tags[to],
                                                 .is_send = true});
}

int mpi_comm_plan_receive(struct comm_mpi *comm, struct mpi_op *op, int from, void *data, size_t bytes)
{
    return mpi_op_plan(op, &(struct mpi_message){.data = data,
                                                 .bytes = bytes,
                                                 .peer = comm->world_ranks[from],
                                                 .tag = comm->tags[comm->base.rank]});
}

int mpi_comm_plan_gather(struct comm_mpi *comm, struct mpi_op *op, const void *send, char *receive,
                         size_t bytes)
{
    int status = 0;
    for (int i = 1; i < comm->base.ranks && !status; i++) {
        int rank = mpi_comm_other(comm, i);
        status = mpi_comm_plan_receive(comm, op, rank, receive + (size_t)rank * bytes, bytes);
        if (!status)
            status = mpi_comm_plan_send(comm, op, rank, send, bytes);
    }
    return status;
}

int mpi_all_gather(struct comm *base, const void *send, void *receive, size_t bytes,
                   const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct comm_mpi *comm = mpi_of(base);
    struct mpi_op *op;
    int status = mpi_comm_begin(comm, options, "gathering", &op, err);
    if (status)
        return status;
    char *own = (char *)receive + (size_t)base->rank * bytes;
    if (bytes > 0 && own != send)
        memmove(own, send, bytes);
    if (bytes > 0)
        status = mpi_comm_plan_gather(comm, op, send, receive, bytes);
    return mpi_comm_start(comm, op, status, options, work, err);
}

int mpi_all_to_all(struct comm *base, const void *send, const size_t *send_offsets, const size_t *send_bytes,
                   void *receive, const size_t *receive_offsets, const size_t *receive_bytes,
                   const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct comm_mpi *comm = mpi_of(base);
    struct mpi_op *op;
    int status = mpi_comm_begin(comm, options, "an all-to-all", &op, err), own = base->rank;
    if (status)
        return status;
    assert(send_bytes[own] == receive_bytes[own]);
    if (send_bytes[own] > 0)
        memmove((char *)receive + receive_offsets[own], (const char *)send + send_offsets[own],
                send_bytes[own]);
    for (int i = 1; i < base->ranks && !status; i++) {
        int rank = mpi_comm_other(comm, i);
        if (receive_bytes[rank] > 0)
            status = mpi_comm_plan_receive(comm, op, rank, (char *)receive + receive_offsets[rank],
                                           receive_bytes[rank]);
        if (send_bytes[rank] > 0 && !status)
            status =
                mpi_comm_plan_send(comm, op, rank, (const char *)send + send_offsets[rank], send_bytes[rank]);
    }
    return mpi_comm_start(comm, op, status, options, work, err);
}

/* Letters. */

static int post_letter(struct comm *base, struct mpi_message message, int letter_tag,
                       const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct comm_mpi *comm = mpi_of(base);
    struct mpi_op *op;
    int peer = message.peer, receiver = message.is_send ? peer : base->rank;
    assert(peer >= 0 && peer < base->ranks && letter_tag >= 0);
    if (mpi_engine_tag(engine_of(comm), 0, letter_tag) < 0)
        return err_set(err, -EINVAL, "the tag %d is too large for this MPI", letter_tag);
    int status = mpi_comm_begin(comm, options, message.is_send ? "sending a letter" : "a letter", &op, err);
    if (status)
        return status;
    message.peer = comm->world_ranks[peer];
    message.tag = comm->tags[receiver] + letter_tag + 1;
    return mpi_comm_start(comm, op, mpi_op_plan(op, &message), options, work, err);
}

int mpi_send(struct comm *comm, const void *data, size_t bytes, int to, int tag,
             const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct mpi_message message = {
        .data = (void *)(uintptr_t)data, .bytes = bytes, .peer = to, .is_send = true};
    return post_letter(comm, message, tag, options, work, err);
}

int mpi_receive(struct comm *comm, void *data, size_t bytes, int from, int tag,
                const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct mpi_message message = {.data = data, .bytes = bytes, .peer = from};
    return post_letter(comm, message, tag, options, work, err);
}
