/*
 * comm_self — a single rank, or a simulated rank of many (comm_null_open). Each call completes its
 * work before it returns.
 *
 * A message to self is buffered until it is received; this is the only allocation after open.
 */
#include "comm/comm.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES_MAX = 64 };

struct message {
    void *data;
    size_t bytes;
    int tag;
};

/* Owner thread only. */
struct comm_self {
    struct comm base;
    bool is_null; /* simulated: moves no data */
    bool aborted;
    size_t messages_count;
    struct message messages[MESSAGES_MAX]; /* oldest first */
};

static struct comm_self *self_of(struct comm *comm)
{
    return (struct comm_self *)comm;
}

/* Initializes work. Returns false if the caller must not move data. */
static bool begin_work(struct comm *comm, const struct comm_options *options,
                       struct comm_work *work)
{
    *work = (struct comm_work){
        .comm = comm,
        .deadline_ns = options ? options->deadline_ns : 0,
        .purpose = options ? options->purpose : NULL,
        .status = self_of(comm)->aborted ? -ECONNABORTED : 0,
        .done = true,
    };
    return !self_of(comm)->aborted && !self_of(comm)->is_null;
}

static void copy_bytes(void *target, const void *source, size_t bytes)
{
    if (bytes > 0 && target != source)
        memmove(target, source, bytes);
}

static int self_split(struct comm *comm, int color, int key, struct comm **ret_comm,
                      struct err *err)
{
    (void)key;
    if (self_of(comm)->aborted)
        return err_set(err, -ECONNABORTED, "the communicator was aborted");
    if (color < 0) {
        *ret_comm = NULL;
        return 0;
    }
    return self_of(comm)->is_null
               ? comm_null_open(comm->rank, comm->ranks, comm->takes_device_memory, ret_comm, err)
               : comm_self_open(ret_comm, err);
}

static int self_all_gather(struct comm *comm, const void *send, void *receive, size_t bytes,
                           const struct comm_options *options, struct comm_work *work,
                           struct err *err)
{
    (void)err;
    if (begin_work(comm, options, work))
        copy_bytes(receive, send, bytes);
    return 0;
}

static int self_reduce_scatter(struct comm *comm, const void *send, void *receive, size_t count,
                               enum dtype dtype, enum comm_reduce_order order,
                               const struct comm_options *options, struct comm_work *work,
                               struct err *err)
{
    (void)order, (void)err;
    assert(dtype == DTYPE_F32 || dtype == DTYPE_F64);
    if (begin_work(comm, options, work))
        copy_bytes(receive, send, count * dtype_bytes(dtype)); /* a tree of one leaf */
    return 0;
}

static int self_all_reduce_i64(struct comm *comm, int64_t *values, size_t count,
                               enum comm_i64_op op, const struct comm_options *options,
                               struct comm_work *work, struct err *err)
{
    (void)values, (void)count, (void)op, (void)err;
    begin_work(comm, options, work);
    return 0;
}

static int self_all_to_all(struct comm *comm, const void *send, const size_t *send_offsets,
                           const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                           const size_t *receive_bytes, const struct comm_options *options,
                           struct comm_work *work, struct err *err)
{
    (void)receive_bytes, (void)err; /* receive_bytes is unused without assertions */
    assert(self_of(comm)->is_null || send_bytes[0] == receive_bytes[0]);
    if (begin_work(comm, options, work) && send_bytes[0] > 0)
        copy_bytes((char *)receive + receive_offsets[0], (const char *)send + send_offsets[0],
                   send_bytes[0]);
    return 0;
}

static int self_send(struct comm *comm, const void *data, size_t bytes, int to, int tag,
                     const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct comm_self *self = self_of(comm);
    assert(self->is_null || to == 0);
    (void)to;
    if (self->messages_count == MESSAGES_MAX)
        return err_set(err, -ENOBUFS, "a rank has sent itself %d messages and read none",
                       MESSAGES_MAX);
    if (!begin_work(comm, options, work))
        return 0;
    void *copy = malloc(bytes > 0 ? bytes : 1);
    if (!copy)
        return err_set(err, -ENOMEM, "not enough memory to send %zu bytes", bytes);
    copy_bytes(copy, data, bytes);
    self->messages[self->messages_count++] =
        (struct message){.data = copy, .bytes = bytes, .tag = tag};
    return 0;
}

static int self_receive(struct comm *comm, void *data, size_t bytes, int from, int tag,
                        const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct comm_self *self = self_of(comm);
    assert(self->is_null || from == 0);
    (void)from;
    if (!begin_work(comm, options, work))
        return 0;
    size_t i = 0;
    while (i < self->messages_count && self->messages[i].tag != tag)
        i++;
    if (i == self->messages_count)
        return err_set(err, -EIO,
                       "a single rank waits for a message (tag %d) that it has not sent to itself",
                       tag);
    if (self->messages[i].bytes != bytes) {
        err_set(err, -EPROTO, "a message (tag %d) has a different size", tag);
        err_expected(err, "%zu bytes", bytes);
        err_found(err, "%zu", self->messages[i].bytes);
        return -EPROTO;
    }
    copy_bytes(data, self->messages[i].data, bytes);
    free(self->messages[i].data);
    self->messages_count--;
    memmove(&self->messages[i], &self->messages[i + 1],
            (self->messages_count - i) * sizeof self->messages[0]);
    return 0;
}

static int self_test(struct comm_work *work, bool *ret_done, struct err *err)
{
    *ret_done = work->done;
    return work->status ? comm_wait(work->comm, work, err) : 0;
}

static void self_abort(struct comm *comm)
{
    self_of(comm)->aborted = true;
}

static void self_close(struct comm *comm)
{
    struct comm_self *self = self_of(comm);
    for (size_t i = 0; i < self->messages_count; i++)
        free(self->messages[i].data);
    free(self);
}

static const struct comm_ops self_ops = {
    .name = "self",
    .split = self_split,
    .all_gather = self_all_gather,
    .reduce_scatter = self_reduce_scatter,
    .all_reduce_i64 = self_all_reduce_i64,
    .all_to_all = self_all_to_all,
    .send = self_send,
    .receive = self_receive,
    .test = self_test,
    .abort = self_abort,
    .close = self_close,
};

static int create_comm_self(const struct comm_self *initial, struct comm **ret_comm,
                            struct err *err)
{
    struct comm_self *self = malloc(sizeof *self);
    if (!self)
        return err_set(err, -ENOMEM, "out of memory for a communicator");
    *self = *initial;
    self->base.ops = &self_ops;
    *ret_comm = &self->base;
    return 0;
}

int comm_self_open(struct comm **ret_comm, struct err *err)
{
    return create_comm_self(&(struct comm_self){.base = {.rank = 0, .ranks = 1}}, ret_comm, err);
}

int comm_null_open(int rank, int ranks, bool takes_device_memory, struct comm **ret_comm,
                   struct err *err)
{
    return create_comm_self(
        &(struct comm_self){
            .base = {.rank = rank, .ranks = ranks, .takes_device_memory = takes_device_memory},
            .is_null = true},
        ret_comm, err);
}
