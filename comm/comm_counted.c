/*
 * comm_counted — see comm_counted.h.
 */
#include "comm/comm_counted.h"

#include <errno.h>
#include <stdlib.h>

struct comm_counted {
    struct comm base;
    struct comm *inner;
    bool owns_inner;
    struct comm_counts *counts;
};

static struct comm_counted *counted_of(struct comm *comm)
{
    return (struct comm_counted *)comm;
}

static struct comm *inner_of(struct comm *comm)
{
    return counted_of(comm)->inner;
}

static void count(struct comm *comm, uint64_t sent_bytes, uint64_t received_bytes)
{
    struct comm_counts *counts = counted_of(comm)->counts;
    atomic_fetch_add_explicit(&counts->sent_bytes, sent_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->received_bytes, received_bytes, memory_order_relaxed);
}

static uint64_t others(const struct comm *comm)
{
    return (uint64_t)comm->ranks - 1;
}

static int counted_split(struct comm *comm, int color, int key, struct comm **ret_comm,
                         struct err *err)
{
    struct comm *part = NULL;
    int status = inner_of(comm)->ops->split(inner_of(comm), color, key, &part, err);
    *ret_comm = NULL;
    if (status || !part)
        return status;
    status = comm_counted_open(part, counted_of(comm)->counts, ret_comm, err);
    if (status) {
        comm_close(part);
        return status;
    }
    counted_of(*ret_comm)->owns_inner = true;
    return 0;
}

static int counted_all_gather(struct comm *comm, const void *send, void *receive, size_t bytes,
                              const struct comm_options *options, struct comm_work *work,
                              struct err *err)
{
    count(comm, bytes * others(comm), bytes * others(comm));
    return inner_of(comm)->ops->all_gather(inner_of(comm), send, receive, bytes, options, work,
                                           err);
}

static int counted_reduce_scatter(struct comm *comm, const void *send, void *receive,
                                  size_t elements, enum dtype dtype, enum comm_order order,
                                  const struct comm_options *options, struct comm_work *work,
                                  struct err *err)
{
    uint64_t bytes = elements * dtype_bytes(dtype) * others(comm);
    count(comm, bytes, bytes);
    return inner_of(comm)->ops->reduce_scatter(inner_of(comm), send, receive, elements, dtype,
                                               order, options, work, err);
}

static int counted_all_reduce_i64(struct comm *comm, int64_t *values, size_t elements,
                                  enum comm_i64_op op, const struct comm_options *options,
                                  struct comm_work *work, struct err *err)
{
    uint64_t bytes = others(comm) > 0 ? elements * sizeof *values : 0;
    count(comm, bytes, bytes);
    return inner_of(comm)->ops->all_reduce_i64(inner_of(comm), values, elements, op, options, work,
                                               err);
}

static int counted_all_to_all(struct comm *comm, const void *send, const size_t *send_offsets,
                              const size_t *send_bytes, void *receive,
                              const size_t *receive_offsets, const size_t *receive_bytes,
                              const struct comm_options *options, struct comm_work *work,
                              struct err *err)
{
    uint64_t sent = 0, received = 0;
    for (int rank = 0; rank < comm->ranks; rank++)
        if (rank != comm->rank) {
            sent += send_bytes[rank];
            received += receive_bytes[rank];
        }
    count(comm, sent, received);
    return inner_of(comm)->ops->all_to_all(inner_of(comm), send, send_offsets, send_bytes, receive,
                                           receive_offsets, receive_bytes, options, work, err);
}

static int counted_send(struct comm *comm, const void *data, size_t bytes, int to, int tag,
                        const struct comm_options *options, struct comm_work *work, struct err *err)
{
    count(comm, to == comm->rank ? 0 : bytes, 0);
    return inner_of(comm)->ops->send(inner_of(comm), data, bytes, to, tag, options, work, err);
}

static int counted_receive(struct comm *comm, void *data, size_t bytes, int from, int tag,
                           const struct comm_options *options, struct comm_work *work,
                           struct err *err)
{
    count(comm, 0, from == comm->rank ? 0 : bytes);
    return inner_of(comm)->ops->receive(inner_of(comm), data, bytes, from, tag, options, work, err);
}

/* Work belongs to the inner communicator. */
static int counted_test(struct comm_work *work, bool *ret_done, struct err *err)
{
    return work->comm->ops->test(work, ret_done, err);
}

static int counted_wait(struct comm_work *work, struct err *err)
{
    return comm_wait(work->comm, work, err);
}

static void counted_note(struct comm *comm, const char *what, uint64_t step, bool may_be_slow)
{
    if (inner_of(comm)->ops->set_activity)
        inner_of(comm)->ops->set_activity(inner_of(comm), what, step, may_be_slow);
}

static void counted_add_tracks(struct comm *comm, struct trace *trace)
{
    if (inner_of(comm)->ops->add_tracks)
        inner_of(comm)->ops->add_tracks(inner_of(comm), trace);
}

static int counted_check(struct comm *comm, struct err *err)
{
    return inner_of(comm)->ops->check ? inner_of(comm)->ops->check(inner_of(comm), err) : 0;
}

static void counted_abort(struct comm *comm)
{
    inner_of(comm)->ops->abort(inner_of(comm));
}

static void counted_close(struct comm *comm)
{
    if (counted_of(comm)->owns_inner)
        comm_close(inner_of(comm));
    free(comm);
}

static void counted_tell_library(const struct comm *comm, char text[COMM_LIBRARY_BYTES])
{
    const struct comm *inner = ((const struct comm_counted *)comm)->inner;
    text[0] = '\0';
    if (inner->ops->describe_library)
        inner->ops->describe_library(inner, text);
}

static const struct comm_ops counted_ops = {
    .name = "counted",
    .split = counted_split,
    .all_gather = counted_all_gather,
    .reduce_scatter = counted_reduce_scatter,
    .all_reduce_i64 = counted_all_reduce_i64,
    .all_to_all = counted_all_to_all,
    .send = counted_send,
    .receive = counted_receive,
    .test = counted_test,
    .wait = counted_wait,
    .set_activity = counted_note,
    .add_tracks = counted_add_tracks,
    .check = counted_check,
    .abort = counted_abort,
    .close = counted_close,
    .describe_library = counted_tell_library,
};

int comm_counted_open(struct comm *inner, struct comm_counts *counts, struct comm **ret_comm,
                      struct err *err)
{
    struct comm_counted *comm = malloc(sizeof *comm);
    if (!comm)
        return err_set(err, -ENOMEM, "out of memory to count the bytes of %d ranks", inner->ranks);
    *comm = (struct comm_counted){.base = {.ops = &counted_ops,
                                           .rank = inner->rank,
                                           .ranks = inner->ranks,
                                           .takes_device_memory = inner->takes_device_memory},
                                  .inner = inner,
                                  .counts = counts};
    *ret_comm = &comm->base;
    return 0;
}
