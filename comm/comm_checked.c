/*
 * comm_checked — see comm_checked.h.
 */
#include "comm/comm_checked.h"

#include "base/clock.h"
#include "base/hash.h"
#include "comm/call.h"
#include "comm/deadlock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct comm_checked {
    struct comm base;
    struct comm *inner;
    bool is_part; /* was split from another one and shares its deadlock; owns inner */
    bool has_failed;
    uint64_t timeout_ns;       /* of a split */
    struct deadlock *deadlock; /* NULL: one rank */
    uint64_t communicator;     /* comm_call's */
    uint64_t calls_count;
    struct comm_call *calls; /* [ranks] */
    /* [ranks][2 * ranks]: the bytes each rank sends to each, and expects from each */
    uint64_t *slices;
};

static struct comm_checked *checked_of(struct comm *comm)
{
    return (struct comm_checked *)comm;
}

static int compare(const struct comm_checked *comm, struct err *err)
{
    for (int r = 1; r < comm->base.ranks; r++) {
        char expected[COMM_CALL_LINE_BYTES], found[COMM_CALL_LINE_BYTES];
        if (memcmp(&comm->calls[r], &comm->calls[0], sizeof comm->calls[0]) == 0)
            continue;
        comm_call_format(&comm->calls[0], expected);
        comm_call_format(&comm->calls[r], found);
        err_set(err, -EPROTO, "ranks do not make the same calls: call %" PRIu64 " of rank %d",
                comm->calls[r].number, r);
        err_expected(err, "%s, as on rank 0", expected);
        err_found(err, "%s", found);
        return -EPROTO;
    }
    return 0;
}

/* Every rank finds the same error; comm_agree leaves one to print it. */
static int agree(const struct comm_checked *comm, int status, const struct comm_options *options,
                 struct err *err)
{
    return status ? comm_agree(comm->inner, status, options, err) : 0;
}

/* Gathers `bytes` bytes per rank into all, which already holds this rank's. */
static int gather_from_all(struct comm_checked *comm, void *all, size_t bytes,
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

/* Fails on all ranks unless all of them make this call. */
static int check(struct comm_checked *comm, const char *name, uint64_t size, const char *unit,
                 const struct comm_options *options, struct err *err)
{
    struct comm_call *own = &comm->calls[comm->base.rank];
    const char *purpose = options ? options->what : NULL;
    const struct comm_options checking = {.deadline_ns = options ? options->deadline_ns : 0,
                                          .what = purpose ? purpose : name};
    comm_call_init(own, name, size, unit, purpose);
    own->communicator = comm->communicator;
    own->number = ++comm->calls_count;
    int status = gather_from_all(comm, comm->calls, sizeof *own, &checking, err);
    return status ? status : agree(comm, compare(comm, err), &checking, err);
}

static int compare_slices(const struct comm_checked *comm, struct err *err)
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
                    call->number, call->name, *call->purpose ? " for " : "", call->purpose, from,
                    to);
            err_expected(err, "%" PRIu64 " bytes", expected);
            err_found(err, "%" PRIu64, sent);
            return -EPROTO;
        }
    }
    return 0;
}

/* Fails on all ranks unless each rank sends what the receiver expects. Call after check. */
static int check_slices(struct comm_checked *comm, const size_t *send_bytes,
                        const size_t *receive_bytes, const struct comm_options *options,
                        struct err *err)
{
    size_t ranks = (size_t)comm->base.ranks;
    uint64_t *own = comm->slices + (size_t)comm->base.rank * 2 * ranks;
    struct comm_options checking = {.deadline_ns = options ? options->deadline_ns : 0,
                                    .what =
                                        options && options->what ? options->what : "all_to_all"};
    for (size_t r = 0; r < ranks; r++) {
        own[r] = send_bytes[r];
        own[ranks + r] = receive_bytes[r];
    }
    int status = gather_from_all(comm, comm->slices, 2 * ranks * sizeof *own, &checking, err);
    return status ? status : agree(comm, compare_slices(comm, err), &checking, err);
}

static int checked_all_gather(struct comm *base, const void *send, void *receive, size_t bytes,
                              const struct comm_options *options, struct comm_work *work,
                              struct err *err)
{
    struct comm_checked *comm = checked_of(base);
    int status = check(comm, "all_gather", bytes, "bytes", options, err);
    return status ? status
                  : comm->inner->ops->all_gather(comm->inner, send, receive, bytes, options, work,
                                                 err);
}

static int checked_reduce_scatter(struct comm *base, const void *send, void *receive, size_t count,
                                  enum dtype dtype, enum comm_order order,
                                  const struct comm_options *options, struct comm_work *work,
                                  struct err *err)
{
    struct comm_checked *comm = checked_of(base);
    char unit[16];
    snprintf(unit, sizeof unit, "%.7s %s", dtype_name(dtype), order == COMM_FAST ? "fast" : "");
    int status = check(comm, "reduce_scatter", count, unit, options, err);
    return status ? status
                  : comm->inner->ops->reduce_scatter(comm->inner, send, receive, count, dtype,
                                                     order, options, work, err);
}

static int checked_all_reduce_i64(struct comm *base, int64_t *values, size_t count,
                                  enum comm_i64_op op, const struct comm_options *options,
                                  struct comm_work *work, struct err *err)
{
    static const char *const names[] = {
        [COMM_SUM] = "integers (sum)", [COMM_MAX] = "integers (max)", [COMM_OR] = "integers (or)"};
    struct comm_checked *comm = checked_of(base);
    int status = check(comm, "all_reduce_i64", count, names[op], options, err);
    return status ? status
                  : comm->inner->ops->all_reduce_i64(comm->inner, values, count, op, options, work,
                                                     err);
}

static int checked_all_to_all(struct comm *base, const void *send, const size_t *send_offsets,
                              const size_t *send_bytes, void *receive,
                              const size_t *receive_offsets, const size_t *receive_bytes,
                              const struct comm_options *options, struct comm_work *work,
                              struct err *err)
{
    struct comm_checked *comm = checked_of(base);
    int status = check(comm, "all_to_all", (uint64_t)base->ranks, "slices", options, err);
    if (!status)
        status = check_slices(comm, send_bytes, receive_bytes, options, err);
    return status
               ? status
               : comm->inner->ops->all_to_all(comm->inner, send, send_offsets, send_bytes, receive,
                                              receive_offsets, receive_bytes, options, work, err);
}

static int checked_send(struct comm *base, const void *data, size_t bytes, int to, int tag,
                        const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct comm *inner = checked_of(base)->inner;
    return inner->ops->send(inner, data, bytes, to, tag, options, work, err);
}

static int checked_receive(struct comm *base, void *data, size_t bytes, int from, int tag,
                           const struct comm_options *options, struct comm_work *work,
                           struct err *err)
{
    struct comm *inner = checked_of(base)->inner;
    return inner->ops->receive(inner, data, bytes, from, tag, options, work, err);
}

/* Work belongs to the inner communicator. */
static int checked_test(struct comm_work *work, bool *ret_done, struct err *err)
{
    return work->comm->ops->test(work, ret_done, err);
}

static int checked_wait(struct comm_work *work, struct err *err)
{
    return comm_wait(work->comm, work, err);
}

static void checked_note(struct comm *base, const char *what, uint64_t step, bool may_be_slow)
{
    struct comm *inner = checked_of(base)->inner;
    if (inner->ops->set_activity)
        inner->ops->set_activity(inner, what, step, may_be_slow);
}

static void checked_add_tracks(struct comm *base, struct trace *trace)
{
    struct comm *inner = checked_of(base)->inner;
    if (inner->ops->add_tracks)
        inner->ops->add_tracks(inner, trace);
}

static int checked_check(struct comm *base, struct err *err)
{
    struct comm *inner = checked_of(base)->inner;
    return inner->ops->check ? inner->ops->check(inner, err) : 0;
}

static void checked_abort(struct comm *base)
{
    struct comm *inner = checked_of(base)->inner;
    inner->ops->abort(inner);
}

static void checked_close(struct comm *base)
{
    struct comm_checked *comm = checked_of(base);
    if (comm->is_part)
        comm_close(comm->inner);
    else
        deadlock_close(comm->deadlock);
    if (comm->has_failed) { /* other ranks may still read and write them */
        comm_retain(comm->calls);
        comm_retain(comm->slices);
    } else {
        free(comm->calls);
        free(comm->slices);
    }
    free(comm);
}

static void checked_tell_library(const struct comm *comm, char text[COMM_LIBRARY_BYTES])
{
    const struct comm *inner = ((const struct comm_checked *)comm)->inner;
    text[0] = '\0';
    if (inner->ops->describe_library)
        inner->ops->describe_library(inner, text);
}

static const struct comm_ops checked_ops;

static int make(struct comm *inner, uint64_t timeout_ns, struct comm_checked **ret_comm,
                struct err *err)
{
    size_t ranks = (size_t)inner->ranks;
    struct comm_checked *comm = calloc(1, sizeof *comm);
    struct comm_call *calls = calloc(ranks, sizeof *calls);
    uint64_t *slices = calloc(2 * ranks * ranks, sizeof *slices);
    if (!comm || !calls || !slices) {
        free(comm);
        free(calls);
        free(slices);
        return err_set(err, -ENOMEM, "out of memory to check the calls of %d ranks", inner->ranks);
    }
    *comm = (struct comm_checked){.base = {.ops = &checked_ops,
                                           .rank = inner->rank,
                                           .ranks = inner->ranks,
                                           .takes_device_memory = inner->takes_device_memory},
                                  .inner = inner,
                                  .timeout_ns = timeout_ns,
                                  .calls = calls,
                                  .slices = slices};
    *ret_comm = comm;
    return 0;
}

/* Identifies the result of a split: equal on the ranks of one color. */
static uint64_t communicator_of(const struct comm_checked *comm, int color)
{
    const uint64_t from[] = {comm->communicator, comm->calls_count, (uint64_t)color};
    return hash_64(from, sizeof from);
}

static int checked_split(struct comm *base, int color, int key, struct comm **ret_comm,
                         struct err *err)
{
    struct comm_checked *comm = checked_of(base), *made = NULL;
    struct comm *part = NULL;
    struct comm_options options = {.deadline_ns =
                                       comm->timeout_ns ? clock_now_ns() + comm->timeout_ns : 0};
    int status = check(comm, "split", 1, "communicator", &options, err);
    if (!status)
        status = comm->inner->ops->split(comm->inner, color, key, &part, err);
    if (!status && part)
        status = make(part, comm->timeout_ns, &made, err);
    if (status) {
        comm_close(part);
        return status;
    }
    if (made) {
        made->is_part = true;
        made->deadlock = comm->deadlock;
        made->communicator = communicator_of(comm, color);
    }
    *ret_comm = made ? &made->base : NULL;
    return 0;
}

static const struct comm_ops checked_ops = {
    .name = "checked",
    .split = checked_split,
    .all_gather = checked_all_gather,
    .reduce_scatter = checked_reduce_scatter,
    .all_reduce_i64 = checked_all_reduce_i64,
    .all_to_all = checked_all_to_all,
    .send = checked_send,
    .receive = checked_receive,
    .test = checked_test,
    .wait = checked_wait,
    .set_activity = checked_note,
    .add_tracks = checked_add_tracks,
    .check = checked_check,
    .abort = checked_abort,
    .close = checked_close,
    .describe_library = checked_tell_library,
};

int comm_checked_open(struct comm *inner, uint64_t timeout_ns, struct comm **ret_comm,
                      struct err *err)
{
    struct comm_checked *comm = NULL;
    int status = make(inner, timeout_ns, &comm, err);
    if (status)
        return status;
    if (inner->ranks > 1)
        status = deadlock_open(inner, &comm->deadlock, err);
    if (status)
        checked_close(&comm->base);
    else
        *ret_comm = &comm->base;
    return status;
}
