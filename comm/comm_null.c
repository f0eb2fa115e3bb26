/*
 * comm_null — see comm_null.h.
 */
#include "comm/comm_null.h"

#include <errno.h>
#include <stdlib.h>

static int done(struct comm *comm, const struct comm_options *options, struct comm_work *work)
{
    *work = (struct comm_work){.comm = comm, .what = options ? options->what : NULL, .done = true};
    return 0;
}

/* Keeps rank and ranks, because the colors of other ranks are unknown. */
static int null_split(struct comm *comm, int color, int key, struct comm **ret_comm,
                      struct err *err)
{
    (void)key;
    *ret_comm = NULL;
    return color < 0
               ? 0
               : comm_null_open(comm->rank, comm->ranks, comm->takes_device_memory, ret_comm, err);
}

static int null_all_gather(struct comm *comm, const void *send, void *receive, size_t bytes,
                           const struct comm_options *options, struct comm_work *work,
                           struct err *err)
{
    (void)send, (void)receive, (void)bytes, (void)err;
    return done(comm, options, work);
}

static int null_reduce_scatter(struct comm *comm, const void *send, void *receive, size_t count,
                               enum dtype dtype, enum comm_order order,
                               const struct comm_options *options, struct comm_work *work,
                               struct err *err)
{
    (void)send, (void)receive, (void)count, (void)dtype, (void)order, (void)err;
    return done(comm, options, work);
}

static int null_all_reduce_i64(struct comm *comm, int64_t *values, size_t count,
                               enum comm_i64_op op, const struct comm_options *options,
                               struct comm_work *work, struct err *err)
{
    (void)values, (void)count, (void)op, (void)err;
    return done(comm, options, work);
}

static int null_all_to_all(struct comm *comm, const void *send, const size_t *send_offsets,
                           const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                           const size_t *receive_bytes, const struct comm_options *options,
                           struct comm_work *work, struct err *err)
{
    (void)send, (void)send_offsets, (void)send_bytes, (void)err;
    (void)receive, (void)receive_offsets, (void)receive_bytes;
    return done(comm, options, work);
}

static int null_send(struct comm *comm, const void *data, size_t bytes, int to, int tag,
                     const struct comm_options *options, struct comm_work *work, struct err *err)
{
    (void)data, (void)bytes, (void)to, (void)tag, (void)err;
    return done(comm, options, work);
}

static int null_receive(struct comm *comm, void *data, size_t bytes, int from, int tag,
                        const struct comm_options *options, struct comm_work *work, struct err *err)
{
    (void)data, (void)bytes, (void)from, (void)tag, (void)err;
    return done(comm, options, work);
}

static int null_test(struct comm_work *work, bool *ret_done, struct err *err)
{
    (void)work, (void)err;
    *ret_done = true;
    return 0;
}

static void null_abort(struct comm *comm)
{
    (void)comm;
}

static void null_close(struct comm *comm)
{
    free(comm);
}

static const struct comm_ops null_ops = {
    .name = "null",
    .split = null_split,
    .all_gather = null_all_gather,
    .reduce_scatter = null_reduce_scatter,
    .all_reduce_i64 = null_all_reduce_i64,
    .all_to_all = null_all_to_all,
    .send = null_send,
    .receive = null_receive,
    .test = null_test,
    .abort = null_abort,
    .close = null_close,
};

int comm_null_open(int rank, int ranks, bool takes_device_memory, struct comm **ret_comm,
                   struct err *err)
{
    struct comm *comm = malloc(sizeof *comm);
    if (!comm)
        return err_set(err, -ENOMEM, "out of memory for a rank by itself");
    *comm = (struct comm){
        .ops = &null_ops, .rank = rank, .ranks = ranks, .takes_device_memory = takes_device_memory};
    *ret_comm = comm;
    return 0;
}
