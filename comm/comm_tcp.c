/*
 * comm_tcp — see comm_tcp.h. Every operation is messages between its ranks, which tcp_engine carries out.
 *
 * Each rank of a communicator has a name of its own for it, which it tells the others as they split; what is sent to it carries that and, of a letter,
 * the letter's own tag.
 */
#include "comm/comm_tcp.h"

#include "base/clock.h"
#include "comm/tcp_engine.h"
#include "comm/tree_sum.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPLIT_TIMEOUT_NS (UINT64_C(1800) * CLOCK_NS_PER_S)

enum { LETTER_TAG_MAX = 1 << 24 };

/* Shared by the communicators that stem from one open. */
struct shared {
    struct tcp_engine *engine;
    int rank; /* of the world */
    atomic_int comms_count;
};

/* Immutable after open. */
struct comm_tcp {
    struct comm base;
    struct shared *shared;
    int *world_ranks; /* [ranks] */
    uint32_t *names;  /* [ranks]: what each calls it */
};

/* Of a reduction, before its words or leaves. */
struct reduction {
    struct comm_tcp *comm;
    void *target;
    size_t count;
    enum comm_i64_op how;
    enum dtype dtype;
};

static struct comm_tcp *tcp_of(struct comm *comm)
{
    return (struct comm_tcp *)comm;
}

static struct tcp_engine *engine_of(struct comm *comm)
{
    return tcp_of(comm)->shared->engine;
}

/* The other ranks from the next one on. */
static int other_of(const struct comm *comm, int i)
{
    return (comm->rank + i) % comm->ranks;
}

/* Of what that rank receives. letter: -1 of collectives. */
static uint64_t tag_of(const struct comm_tcp *comm, int receiver, int letter)
{
    return (uint64_t)comm->names[receiver] << 32 | ((uint32_t)letter + 1);
}

static int begin(struct comm *base, const struct comm_options *options, const char *name,
                 struct tcp_op **ret_op, struct err *err)
{
    int status = tcp_engine_take(engine_of(base), ret_op, err);
    if (status)
        return status;
    struct tcp_op *op = *ret_op;
    op->deadline_ns = options ? options->deadline_ns : 0;
    op->world_ranks = tcp_of(base)->world_ranks;
    op->ranks = base->ranks;
    snprintf(op->what, sizeof op->what, "%s", options && options->what ? options->what : name);
    return 0;
}

/* Or takes it back where planning it failed. */
static int start(struct comm *base, struct tcp_op *op, int status, const struct comm_options *options,
                 struct comm_work *work, struct err *err)
{
    if (status) {
        tcp_engine_give(engine_of(base), op);
        return err_set(err, status, "out of memory for an exchange of %d ranks", base->ranks);
    }
    *work = (struct comm_work){
        .comm = base, .state = op, .deadline_ns = op->deadline_ns, .what = options ? options->what : NULL};
    tcp_engine_start(engine_of(base), op);
    return 0;
}

static int plan(struct comm *base, struct tcp_op *op, int rank, bool is_send, const void *data, size_t bytes,
                int letter)
{
    struct comm_tcp *comm = tcp_of(base);
    return tcp_op_plan(
        op, &(struct tcp_message){.data = (void *)(uintptr_t)data,
                                  .frame = {tag_of(comm, is_send ? rank : base->rank, letter), bytes},
                                  .peer = comm->world_ranks[rank],
                                  .is_send = is_send});
}

static int plan_gather(struct comm *base, struct tcp_op *op, const void *send, char *receive, size_t bytes)
{
    int status = 0;
    for (int i = 1; i < base->ranks && bytes > 0 && !status; i++) {
        int rank = other_of(base, i);
        status = plan(base, op, rank, false, receive + (size_t)rank * bytes, bytes, -1);
        if (!status)
            status = plan(base, op, rank, true, send, bytes, -1);
    }
    return status;
}

static int tcp_all_gather(struct comm *base, const void *send, void *receive, size_t bytes,
                          const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct tcp_op *op;
    int status = begin(base, options, "gathering", &op, err);
    if (status)
        return status;
    char *own = (char *)receive + (size_t)base->rank * bytes;
    if (bytes > 0 && own != send)
        memmove(own, send, bytes);
    return start(base, op, plan_gather(base, op, send, receive, bytes), options, work, err);
}

static int tcp_all_to_all(struct comm *base, const void *send, const size_t *send_offsets,
                          const size_t *send_bytes, void *receive, const size_t *receive_offsets,
                          const size_t *receive_bytes, const struct comm_options *options,
                          struct comm_work *work, struct err *err)
{
    struct tcp_op *op;
    int own = base->rank, status = begin(base, options, "an all-to-all", &op, err);
    if (status)
        return status;
    assert(send_bytes[own] == receive_bytes[own]);
    if (send_bytes[own] > 0)
        memmove((char *)receive + receive_offsets[own], (const char *)send + send_offsets[own],
                send_bytes[own]);
    for (int i = 1; i < base->ranks && !status; i++) {
        int rank = other_of(base, i);
        if (receive_bytes[rank] > 0)
            status =
                plan(base, op, rank, false, (char *)receive + receive_offsets[rank], receive_bytes[rank], -1);
        if (send_bytes[rank] > 0 && !status)
            status =
                plan(base, op, rank, true, (const char *)send + send_offsets[rank], send_bytes[rank], -1);
    }
    return start(base, op, status, options, work, err);
}

/* Sums. */

static void reduce_words(int64_t *values, const int64_t *more, size_t count, enum comm_i64_op how)
{
    for (size_t i = 0; i < count; i++)
        values[i] = how == COMM_SUM   ? (int64_t)((uint64_t)values[i] + (uint64_t)more[i])
                    : how == COMM_MAX ? (more[i] > values[i] ? more[i] : values[i])
                                      : (values[i] | more[i]);
}

static void finish_words(struct tcp_op *op)
{
    const struct reduction *reduction = op->scratch;
    const struct comm *base = &reduction->comm->base;
    const int64_t *words = (const void *)(reduction + 1);
    for (int r = 0; r < base->ranks; r++)
        if (r != base->rank)
            reduce_words(reduction->target, words + (size_t)r * reduction->count, reduction->count,
                         reduction->how);
}

static int tcp_all_reduce_i64(struct comm *base, int64_t *values, size_t count, enum comm_i64_op how,
                              const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct tcp_op *op;
    size_t bytes = count * sizeof *values;
    int status = begin(base, options, "a reduction", &op, err);
    if (status)
        return status;
    struct reduction *reduction = tcp_op_scratch(op, sizeof *reduction + (size_t)base->ranks * bytes);
    if (reduction && bytes > 0) {
        *reduction = (struct reduction){.comm = tcp_of(base), .target = values, .count = count, .how = how};
        op->finish = finish_words;
        char *words = (char *)(reduction + 1), *own = words + (size_t)base->rank * bytes;
        memcpy(own, values, bytes);
        status = plan_gather(base, op, own, words, bytes);
    }
    return start(base, op, reduction ? status : -ENOMEM, options, work, err);
}

static void finish_sum(struct tcp_op *op)
{
    struct reduction *sum = op->scratch;
    size_t bytes = sum->count * dtype_bytes(sum->dtype);
    tree_sum(sum + 1, (size_t)sum->comm->base.ranks, bytes, sum->count, sum->dtype);
    memcpy(sum->target, sum + 1, bytes);
}

static int tcp_reduce_scatter(struct comm *base, const void *send, void *receive, size_t count,
                              enum dtype dtype, enum comm_order order, const struct comm_options *options,
                              struct comm_work *work, struct err *err)
{
    struct tcp_op *op;
    size_t bytes = count * dtype_bytes(dtype);
    (void)order; /* the canonical one will do for both: no library adds here */
    int status = begin(base, options, "a sum over the ranks", &op, err);
    if (status)
        return status;
    struct reduction *sum = tcp_op_scratch(op, sizeof *sum + (size_t)base->ranks * bytes);
    if (sum && bytes > 0) {
        *sum = (struct reduction){.comm = tcp_of(base), .target = receive, .count = count, .dtype = dtype};
        op->finish = finish_sum;
        char *leaves = (char *)(sum + 1);
        memcpy(leaves + (size_t)base->rank * bytes, (const char *)send + (size_t)base->rank * bytes, bytes);
        for (int i = 1; i < base->ranks && !status; i++) {
            size_t rank = (size_t)other_of(base, i);
            status = plan(base, op, (int)rank, false, leaves + rank * bytes, bytes, -1);
            if (!status)
                status = plan(base, op, (int)rank, true, (const char *)send + rank * bytes, bytes, -1);
        }
    }
    return start(base, op, sum ? status : -ENOMEM, options, work, err);
}

/* Letters. */

static int post(struct comm *base, int rank, bool is_send, const void *data, size_t bytes, int tag,
                const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct tcp_op *op;
    assert(rank >= 0 && rank < base->ranks && tag >= 0);
    if (tag > LETTER_TAG_MAX)
        return err_set(err, -EINVAL, "the tag %d is too large", tag);
    int status = begin(base, options, is_send ? "sending a letter" : "a letter", &op, err);
    if (status)
        return status;
    return start(base, op, plan(base, op, rank, is_send, data, bytes, tag), options, work, err);
}

static int tcp_send(struct comm *comm, const void *data, size_t bytes, int to, int tag,
                    const struct comm_options *options, struct comm_work *work, struct err *err)
{
    return post(comm, to, true, data, bytes, tag, options, work, err);
}

static int tcp_receive(struct comm *comm, void *data, size_t bytes, int from, int tag,
                       const struct comm_options *options, struct comm_work *work, struct err *err)
{
    return post(comm, from, false, data, bytes, tag, options, work, err);
}

/* Waiting. */

static int end_work(struct comm_work *work, struct err *err)
{
    struct tcp_op *op = work->state;
    work->status = op->status;
    work->done = true;
    work->state = NULL;
    if (op->status && err)
        *err = op->detail;
    tcp_engine_give(op->engine, op);
    return work->status;
}

static int tcp_test(struct comm_work *work, bool *ret_done, struct err *err)
{
    if (!work->done && tcp_engine_is_done(engine_of(work->comm), work->state))
        end_work(work, err);
    *ret_done = work->done;
    return 0;
}

static int tcp_wait(struct comm_work *work, struct err *err)
{
    tcp_engine_wait(engine_of(work->comm), work->state);
    return end_work(work, err);
}

/* Life. */

static void tcp_note(struct comm *comm, const char *what, uint64_t step)
{
    tcp_engine_note(engine_of(comm), what, step);
}

static int tcp_check(struct comm *comm, struct err *err)
{
    return tcp_engine_check(engine_of(comm), err);
}

static void tcp_abort(struct comm *comm)
{
    char why[80];
    snprintf(why, sizeof why, "rank %d gave it up", tcp_of(comm)->shared->rank);
    tcp_engine_abort(engine_of(comm), why);
}

static void tcp_close(struct comm *base)
{
    struct comm_tcp *comm = tcp_of(base);
    struct shared *shared = comm->shared;
    free(comm->world_ranks);
    free(comm->names);
    free(comm);
    if (atomic_fetch_sub(&shared->comms_count, 1) == 1) {
        tcp_engine_close(shared->engine);
        free(shared);
    }
}

static int tcp_split(struct comm *base, int color, int key, struct comm **ret_comm, struct err *err);

static const struct comm_ops tcp_ops = {
    .name = "tcp",
    .split = tcp_split,
    .all_gather = tcp_all_gather,
    .reduce_scatter = tcp_reduce_scatter,
    .all_reduce_i64 = tcp_all_reduce_i64,
    .all_to_all = tcp_all_to_all,
    .send = tcp_send,
    .receive = tcp_receive,
    .test = tcp_test,
    .wait = tcp_wait,
    .note = tcp_note,
    .check = tcp_check,
    .abort = tcp_abort,
    .close = tcp_close,
};

static int make_comm(struct shared *shared, int ranks, struct comm_tcp **ret_comm, struct err *err)
{
    struct comm_tcp *comm = calloc(1, sizeof *comm);
    int *world_ranks = calloc((size_t)ranks, sizeof *world_ranks);
    uint32_t *names = calloc((size_t)ranks, sizeof *names);
    if (!comm || !world_ranks || !names) {
        free(comm);
        free(world_ranks);
        free(names);
        return err_set(err, -ENOMEM, "out of memory for a communicator of %d ranks", ranks);
    }
    *comm = (struct comm_tcp){.base = {.ops = &tcp_ops, .ranks = ranks},
                              .shared = shared,
                              .world_ranks = world_ranks,
                              .names = names};
    atomic_fetch_add(&shared->comms_count, 1);
    *ret_comm = comm;
    return 0;
}

/* What each rank tells when a communicator is split. */
struct wish {
    int32_t color, key, rank;
    uint32_t name;
};

static int compare_wishes(const void *a, const void *b)
{
    const struct wish *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int select_color(struct wish *wishes, int count, int color)
{
    int selected = 0;
    for (int i = 0; i < count; i++)
        if (wishes[i].color == color)
            wishes[selected++] = wishes[i];
    qsort(wishes, (size_t)selected, sizeof *wishes, compare_wishes);
    return selected;
}

static int gather_wishes(struct comm *base, struct wish *wishes, struct err *err)
{
    const struct comm_options options = {.deadline_ns = clock_now_ns() + SPLIT_TIMEOUT_NS,
                                         .what = "splitting the ranks"};
    struct comm_work work;
    int status = tcp_all_gather(base, &wishes[base->rank], wishes, sizeof *wishes, &options, &work, err);
    return status ? status : tcp_wait(&work, err);
}

static int tcp_split(struct comm *base, int color, int key, struct comm **ret_comm, struct err *err)
{
    struct comm_tcp *comm = tcp_of(base), *made = NULL;
    struct wish *wishes = calloc((size_t)base->ranks, sizeof *wishes);
    if (!wishes)
        return err_set(err, -ENOMEM, "out of memory to split %d ranks", base->ranks);
    wishes[base->rank] = (struct wish){color, key, base->rank, tcp_engine_name(engine_of(base))};
    int status = gather_wishes(base, wishes, err);
    if (status) {
        comm_retain(wishes);
        return status;
    }
    int count = color < 0 ? 0 : select_color(wishes, base->ranks, color);
    if (count > 0)
        status = make_comm(comm->shared, count, &made, err);
    for (int i = 0; i < count && made; i++) {
        made->world_ranks[i] = comm->world_ranks[wishes[i].rank];
        made->names[i] = wishes[i].name;
        if (wishes[i].rank == base->rank)
            made->base.rank = i;
    }
    free(wishes);
    if (!status)
        *ret_comm = made ? &made->base : NULL;
    return status;
}

int comm_tcp_open(const struct tcp_meet_options *options, struct comm **ret_comm, struct err *err)
{
    struct comm_tcp *comm;
    struct shared *shared = calloc(1, sizeof *shared);
    int *sockets = calloc((size_t)options->ranks, sizeof *sockets);
    int status = shared && sockets ? tcp_meet(options, sockets, err)
                                   : err_set(err, -ENOMEM, "out of memory for %d ranks", options->ranks);
    if (!status)
        status = tcp_engine_open(sockets, options->rank, options->ranks, &shared->engine, err);
    free(sockets);
    if (status) {
        free(shared);
        return status;
    }
    shared->rank = options->rank;
    status = make_comm(shared, options->ranks, &comm, err);
    if (status) {
        tcp_engine_close(shared->engine);
        free(shared);
        return status;
    }
    comm->base.rank = options->rank;
    for (int r = 0; r < options->ranks; r++)
        comm->world_ranks[r] = r;
    *ret_comm = &comm->base;
    return 0;
}
