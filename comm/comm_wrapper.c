/*
 * comm_wrapper — see comm_wrapper.h.
 */
#include "comm/comm_wrapper.h"

#include "base/clock.h"
#include "base/hash.h"
#include "comm/call.h"
#include "comm/deadlock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Only checked communicators use the fields after owns_inner; the others have calls == NULL. */
struct comm_wrapper {
    struct comm base;
    struct comm *inner;
    struct comm_counts *counts; /* NULL: none */
    bool owns_inner;            /* split from another wrapper; borrows its deadlock */
    bool has_failed;
    uint64_t timeout_ns;       /* for a split */
    struct deadlock *deadlock; /* NULL: a single rank */
    uint64_t communicator_id;
    uint64_t calls_count;
    struct comm_call *calls; /* [ranks] */
    /* [ranks][2 * ranks]: bytes that each rank sends to, then expects from, each rank */
    uint64_t *slices;
};

static struct comm_wrapper *wrapper_of(struct comm *comm)
{
    return (struct comm_wrapper *)comm;
}

static struct comm *inner_of(struct comm *comm)
{
    return wrapper_of(comm)->inner;
}

static void count_bytes(struct comm *comm, uint64_t sent_bytes, uint64_t received_bytes)
{
    struct comm_counts *counts = wrapper_of(comm)->counts;
    if (!counts)
        return;
    atomic_fetch_add_explicit(&counts->sent_bytes, sent_bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->received_bytes, received_bytes, memory_order_relaxed);
}

static uint64_t other_ranks_count(const struct comm *comm)
{
    return (uint64_t)comm->ranks - 1;
}

static int compare_calls(const struct comm_wrapper *comm, struct err *err)
{
    for (int r = 1; r < comm->base.ranks; r++) {
        char expected[COMM_CALL_LINE_BYTES], found[COMM_CALL_LINE_BYTES];
        if (memcmp(&comm->calls[r], &comm->calls[0], sizeof comm->calls[0]) == 0)
            continue;
        comm_call_format(&comm->calls[0], expected);
        comm_call_format(&comm->calls[r], found);
        err_set(err, -EPROTO, "ranks do not make the same calls: call %" PRIu64 " of rank %d",
                comm->calls[r].sequence_number, r);
        err_expected(err, "%s, as on rank 0", expected);
        err_found(err, "%s", found);
        return -EPROTO;
    }
    return 0;
}

/* Every rank finds the same error; comm_agree clears it on all but one. */
static int agree_on_error(const struct comm_wrapper *comm, int status,
                          const struct comm_options *options, struct err *err)
{
    return status ? comm_agree(comm->inner, status, options, err) : 0;
}

/* Gathers `bytes` bytes per rank into all, which already contains this rank's part. */
static int gather_from_all(struct comm_wrapper *comm, void *all, size_t bytes,
                           const struct comm_options *options, struct err *err)
{
    struct comm_work work;
    deadlock_enter(comm->deadlock, &comm->calls[comm->base.rank], comm->base.ranks);
    int status =
        comm->inner->ops->all_gather(comm->inner, (char *)all + (size_t)comm->base.rank * bytes,
                                     all, bytes, options, &work, err);
    if (!status)
        status = comm_wait(comm->inner, &work, err);
    deadlock_leave(comm->deadlock);
    int verdict = status ? deadlock_verdict(comm->deadlock, err) : 0;
    comm->has_failed = comm->has_failed || status;
    return verdict ? verdict : status;
}

static struct comm_options check_options(const struct comm_options *options, const char *name)
{
    return (struct comm_options){.deadline_ns = options ? options->deadline_ns : 0,
                                 .purpose = options && options->purpose ? options->purpose : name};
}

/* Fails on all ranks unless all of them make this call. */
static int check_call(struct comm *base, const char *name, uint64_t size, const char *unit,
                      const struct comm_options *options, struct err *err)
{
    struct comm_wrapper *comm = wrapper_of(base);
    const struct comm_options checking = check_options(options, name);
    if (!comm->calls)
        return 0;
    struct comm_call *own = &comm->calls[base->rank];
    comm_call_init(own, name, size, unit, options ? options->purpose : NULL);
    own->communicator_id = comm->communicator_id;
    own->sequence_number = ++comm->calls_count;
    int status = gather_from_all(comm, comm->calls, sizeof *own, &checking, err);
    return status ? status : agree_on_error(comm, compare_calls(comm, err), &checking, err);
}

static int compare_slices(const struct comm_wrapper *comm, struct err *err)
{
    size_t ranks = (size_t)comm->base.ranks;
    const struct comm_call *call = &comm->calls[comm->base.rank];
    for (size_t from = 0; from < ranks; from++) {
        for (size_t to = 0; to < ranks; to++) {
            uint64_t sent = comm->slices[from * 2 * ranks + to];
            uint64_t expected = comm->slices[to * 2 * ranks + ranks + from];
            if (sent == expected)
                continue;
            err_set(err, -EPROTO,
                    "ranks do not make the same calls: call %" PRIu64
                    ", %s%s%s: rank %zu does not send what rank %zu expects",
                    call->sequence_number, call->name, *call->purpose ? " for " : "", call->purpose,
                    from, to);
            err_expected(err, "%" PRIu64 " bytes", expected);
            err_found(err, "%" PRIu64, sent);
            return -EPROTO;
        }
    }
    return 0;
}

/* Fails on all ranks unless every rank sends exactly as many bytes as each receiver expects. Call
 * after check_call. */
static int check_slices(struct comm *base, const size_t *send_bytes, const size_t *receive_bytes,
                        const struct comm_options *options, struct err *err)
{
    struct comm_wrapper *comm = wrapper_of(base);
    const struct comm_options checking = check_options(options, "all_to_all");
    size_t ranks = (size_t)base->ranks;
    if (!comm->calls)
        return 0;
    uint64_t *own = comm->slices + (size_t)base->rank * 2 * ranks;
    for (size_t r = 0; r < ranks; r++) {
        own[r] = send_bytes[r];
        own[ranks + r] = receive_bytes[r];
    }
    int status = gather_from_all(comm, comm->slices, 2 * ranks * sizeof *own, &checking, err);
    return status ? status : agree_on_error(comm, compare_slices(comm, err), &checking, err);
}

static int wrapper_all_gather(struct comm *comm, const void *send, void *receive, size_t bytes,
                              const struct comm_options *options, struct comm_work *work,
                              struct err *err)
{
    struct comm *inner = inner_of(comm);
    count_bytes(comm, bytes * other_ranks_count(comm), bytes * other_ranks_count(comm));
    int status = check_call(comm, "all_gather", bytes, "bytes", options, err);
    return status ? status
                  : inner->ops->all_gather(inner, send, receive, bytes, options, work, err);
}

static int wrapper_reduce_scatter(struct comm *comm, const void *send, void *receive,
                                  size_t elements, enum dtype dtype, enum comm_reduce_order order,
                                  const struct comm_options *options, struct comm_work *work,
                                  struct err *err)
{
    struct comm *inner = inner_of(comm);
    uint64_t bytes = elements * dtype_bytes(dtype) * other_ranks_count(comm);
    char unit[16];
    count_bytes(comm, bytes, bytes);
    snprintf(unit, sizeof unit, "%.7s %s", dtype_name(dtype), order == COMM_FAST ? "fast" : "");
    int status = check_call(comm, "reduce_scatter", elements, unit, options, err);
    return status ? status
                  : inner->ops->reduce_scatter(inner, send, receive, elements, dtype, order,
                                               options, work, err);
}

static int wrapper_all_reduce_i64(struct comm *comm, int64_t *values, size_t elements,
                                  enum comm_i64_op op, const struct comm_options *options,
                                  struct comm_work *work, struct err *err)
{
    static const char *const names[] = {
        [COMM_SUM] = "integers (sum)", [COMM_MAX] = "integers (max)", [COMM_OR] = "integers (or)"};
    struct comm *inner = inner_of(comm);
    uint64_t bytes = other_ranks_count(comm) > 0 ? elements * sizeof *values : 0;
    count_bytes(comm, bytes, bytes);
    int status = check_call(comm, "all_reduce_i64", elements, names[op], options, err);
    return status ? status
                  : inner->ops->all_reduce_i64(inner, values, elements, op, options, work, err);
}

static int wrapper_all_to_all(struct comm *comm, const void *send, const size_t *send_offsets,
                              const size_t *send_bytes, void *receive,
                              const size_t *receive_offsets, const size_t *receive_bytes,
                              const struct comm_options *options, struct comm_work *work,
                              struct err *err)
{
    struct comm *inner = inner_of(comm);
    for (int rank = 0; rank < comm->ranks; rank++)
        if (rank != comm->rank)
            count_bytes(comm, send_bytes[rank], receive_bytes[rank]);
    int status = check_call(comm, "all_to_all", (uint64_t)comm->ranks, "slices", options, err);
    if (!status)
        status = check_slices(comm, send_bytes, receive_bytes, options, err);
    return status ? status
                  : inner->ops->all_to_all(inner, send, send_offsets, send_bytes, receive,
                                           receive_offsets, receive_bytes, options, work, err);
}

static int wrapper_send(struct comm *comm, const void *data, size_t bytes, int to, int tag,
                        const struct comm_options *options, struct comm_work *work, struct err *err)
{
    count_bytes(comm, to == comm->rank ? 0 : bytes, 0);
    return inner_of(comm)->ops->send(inner_of(comm), data, bytes, to, tag, options, work, err);
}

static int wrapper_receive(struct comm *comm, void *data, size_t bytes, int from, int tag,
                           const struct comm_options *options, struct comm_work *work,
                           struct err *err)
{
    count_bytes(comm, 0, from == comm->rank ? 0 : bytes);
    return inner_of(comm)->ops->receive(inner_of(comm), data, bytes, from, tag, options, work, err);
}

/* Work belongs to the inner communicator. */
static int wrapper_test(struct comm_work *work, bool *ret_done, struct err *err)
{
    return work->comm->ops->test(work, ret_done, err);
}

static int wrapper_wait(struct comm_work *work, struct err *err)
{
    return comm_wait(work->comm, work, err);
}

static void wrapper_set_activity(struct comm *comm, const char *activity, uint64_t step,
                                 bool may_be_slow)
{
    comm_set_activity(inner_of(comm), activity, step, may_be_slow);
}

static void wrapper_add_tracks(struct comm *comm, struct trace *trace)
{
    comm_add_tracks(inner_of(comm), trace);
}

static int wrapper_check(struct comm *comm, struct err *err)
{
    return comm_check(inner_of(comm), err);
}

static void wrapper_abort(struct comm *comm)
{
    inner_of(comm)->ops->abort(inner_of(comm));
}

static void wrapper_close(struct comm *base)
{
    struct comm_wrapper *comm = wrapper_of(base);
    if (comm->owns_inner)
        comm_close(comm->inner);
    else
        deadlock_close(comm->deadlock);
    if (comm->has_failed) { /* other ranks may still access them */
        comm_retain(comm->calls);
        comm_retain(comm->slices);
    } else {
        free(comm->calls);
        free(comm->slices);
    }
    free(comm);
}

static void wrapper_describe_library(const struct comm *comm, char text[COMM_LIBRARY_BYTES])
{
    comm_describe_library(((const struct comm_wrapper *)comm)->inner, text);
}

/* The same on all ranks of a color. */
static uint64_t split_communicator_id(const struct comm_wrapper *comm, int color)
{
    const uint64_t from[] = {comm->communicator_id, comm->calls_count, (uint64_t)color};
    return hash_64(from, sizeof from);
}

static int create_wrapper(struct comm *inner, bool checks, struct comm_wrapper **ret_comm,
                          struct err *err);

static int wrapper_split(struct comm *base, int color, int key, struct comm **ret_comm,
                         struct err *err)
{
    struct comm_wrapper *comm = wrapper_of(base), *made = NULL;
    struct comm *split = NULL;
    const struct comm_options options = {
        .deadline_ns = comm->timeout_ns ? clock_now_ns() + comm->timeout_ns : 0};
    int status = check_call(base, "split", 1, "communicator", &options, err);
    if (!status)
        status = comm->inner->ops->split(comm->inner, color, key, &split, err);
    if (!status && split)
        status = create_wrapper(split, comm->calls, &made, err);
    if (status) {
        comm_close(split);
        return status;
    }
    if (made) {
        made->owns_inner = true;
        made->counts = comm->counts;
        made->timeout_ns = comm->timeout_ns;
        made->deadlock = comm->deadlock;
        made->communicator_id = split_communicator_id(comm, color);
    }
    *ret_comm = made ? &made->base : NULL;
    return 0;
}

static const struct comm_ops wrapper_ops = {
    .name = "wrapper",
    .split = wrapper_split,
    .all_gather = wrapper_all_gather,
    .reduce_scatter = wrapper_reduce_scatter,
    .all_reduce_i64 = wrapper_all_reduce_i64,
    .all_to_all = wrapper_all_to_all,
    .send = wrapper_send,
    .receive = wrapper_receive,
    .test = wrapper_test,
    .wait = wrapper_wait,
    .set_activity = wrapper_set_activity,
    .add_tracks = wrapper_add_tracks,
    .check = wrapper_check,
    .abort = wrapper_abort,
    .close = wrapper_close,
    .describe_library = wrapper_describe_library,
};

static int create_wrapper(struct comm *inner, bool checks, struct comm_wrapper **ret_comm,
                          struct err *err)
{
    size_t ranks = (size_t)inner->ranks;
    struct comm_wrapper *comm = calloc(1, sizeof *comm);
    struct comm_call *calls = checks ? calloc(ranks, sizeof *calls) : NULL;
    uint64_t *slices = checks ? calloc(2 * ranks * ranks, sizeof *slices) : NULL;
    if (!comm || (checks && (!calls || !slices))) {
        free(comm);
        free(calls);
        free(slices);
        return err_set(err, -ENOMEM, "not enough memory to %s of %d ranks",
                       checks ? "check the calls" : "count the bytes", inner->ranks);
    }
    *comm = (struct comm_wrapper){.base = *inner, .inner = inner, .calls = calls, .slices = slices};
    comm->base.ops = &wrapper_ops;
    *ret_comm = comm;
    return 0;
}

int comm_counted_open(struct comm *inner, struct comm_counts *counts, struct comm **ret_comm,
                      struct err *err)
{
    struct comm_wrapper *comm = NULL;
    int status = create_wrapper(inner, false, &comm, err);
    if (status)
        return status;
    comm->counts = counts;
    *ret_comm = &comm->base;
    return 0;
}

int comm_checked_open(struct comm *inner, uint64_t timeout_ns, struct comm **ret_comm,
                      struct err *err)
{
    struct comm_wrapper *comm = NULL;
    int status = create_wrapper(inner, true, &comm, err);
    if (status)
        return status;
    comm->timeout_ns = timeout_ns;
    if (inner->ranks > 1)
        status = deadlock_open(inner, &comm->deadlock, err);
    if (status)
        wrapper_close(&comm->base);
    else
        *ret_comm = &comm->base;
    return status;
}
