/*
 * engine_sum — exact integer sums and deterministic sums. See engine_comm.h.
 */
#include "base/bytes.h"
#include "comm/engine/engine_comm.h"
#include "comm/engine/tree_sum.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* A deterministic sum holds one piece of a slice from each rank at a time. */
enum { PIECE_BYTES = 1 << 20 };

struct deterministic_sum {
    struct comm *comm;
    const char *send;
    char *receive;
    size_t stride_bytes; /* between leaves: the size of a piece, or of a smaller slice */
    size_t slice_bytes, piece_offset, piece_bytes; /* piece_offset: offset of the piece in flight */
    uint64_t tag;
    enum dtype dtype;
};

struct integer_reduction {
    const struct comm *comm;
    int64_t *values;
    size_t count;
    enum comm_i64_op op;
};

static void reduce_i64(int64_t *values, const int64_t *received, size_t count, enum comm_i64_op op)
{
    for (size_t i = 0; i < count; i++) {
        switch (op) {
        case COMM_SUM:
            values[i] = (int64_t)((uint64_t)values[i] + (uint64_t)received[i]);
            break;
        case COMM_MAX:
            values[i] = received[i] > values[i] ? received[i] : values[i];
            break;
        case COMM_OR:
            values[i] |= received[i];
            break;
        }
    }
}

/* The scratch contains the struct, then the words of all ranks, including this rank's. */
static int reduce_received(struct engine_op *op, struct err *err)
{
    (void)err;
    const struct integer_reduction *reduction = op->scratch;
    const int64_t *words = (const void *)(reduction + 1);
    for (int r = 0; r < reduction->comm->ranks; r++)
        if (r != reduction->comm->rank)
            reduce_i64(reduction->values, words + (size_t)r * reduction->count, reduction->count,
                       reduction->op);
    return 0;
}

int engine_comm_all_reduce_i64(struct comm *comm, int64_t *values, size_t count,
                               enum comm_i64_op reduce_op, const struct comm_options *options,
                               struct comm_work *work, struct err *err)
{
    struct engine_op *op;
    size_t bytes = count * sizeof *values;
    int status = engine_comm_begin(comm, options, "a reduction", &op, err);
    if (status)
        return status;
    struct integer_reduction *reduction =
        engine_op_scratch(op, sizeof *reduction + (size_t)comm->ranks * bytes);
    if (reduction && bytes > 0) {
        *reduction = (struct integer_reduction){comm, values, count, reduce_op};
        op->advance = reduce_received;
        char *words = (char *)(reduction + 1), *own = words + (size_t)comm->rank * bytes;
        memcpy(own, values, bytes);
        status = engine_comm_plan_gather(comm, op, own, words, bytes);
    }
    return engine_comm_start(comm, op, reduction ? status : -ENOMEM, options, work, err);
}

/* Plans to receive the next piece of this rank's slice and to send those of the other ranks. */
static int plan_piece(struct engine_op *op)
{
    struct deterministic_sum *sum = op->scratch;
    struct comm *comm = sum->comm;
    size_t left = sum->slice_bytes - sum->piece_offset, own = (size_t)comm->rank;
    char *leaves = (char *)(sum + 1);
    int status = 0;
    sum->piece_bytes = bytes_min(left, PIECE_BYTES);
    memcpy(leaves + own * sum->stride_bytes, sum->send + own * sum->slice_bytes + sum->piece_offset,
           sum->piece_bytes);
    for (int i = 1; i < comm->ranks && !status; i++) {
        size_t rank = (size_t)engine_comm_peer(comm, i);
        status = engine_comm_plan_receive(comm, op, (int)rank, sum->tag,
                                          leaves + rank * sum->stride_bytes, sum->piece_bytes);
        if (!status)
            status = engine_comm_plan_send(comm, op, (int)rank, sum->tag,
                                           sum->send + rank * sum->slice_bytes + sum->piece_offset,
                                           sum->piece_bytes);
    }
    return status;
}

static int sum_piece(struct engine_op *op, struct err *err)
{
    struct deterministic_sum *sum = op->scratch;
    size_t ranks = (size_t)sum->comm->ranks;
    char *leaves = (char *)(sum + 1);
    do {
        tree_sum(leaves, ranks, sum->stride_bytes, sum->piece_bytes / dtype_bytes(sum->dtype),
                 sum->dtype);
        memcpy(sum->receive + sum->piece_offset, leaves, sum->piece_bytes);
        sum->piece_offset += sum->piece_bytes;
        if (sum->piece_offset == sum->slice_bytes)
            return 0;
        if (plan_piece(op))
            return err_set(err, -ENOMEM, "out of memory for an exchange of %zu ranks", ranks);
    } while (ranks == 1); /* a single rank does not wait */
    return 0;
}

/* Acquires the tag of the next sum, the same on all ranks. -EBUSY: an unfinished sum uses it. */
static int acquire_sum_tag(struct comm *base, struct engine_op *op, struct err *err)
{
    struct engine_comm *comm = engine_comm_of(base);
    unsigned number = comm->sums_count % COMM_DETERMINISTIC_MAX;
    uint64_t bit = UINT64_C(1) << number;
    if (comm->sums_in_flight & bit)
        return err_set(err, -EBUSY,
                       "the canonical sum %d calls before this one has not been waited for",
                       COMM_DETERMINISTIC_MAX);
    comm->sums_count++;
    comm->sums_in_flight |= bit;
    op->sum_bit = bit;
    return (int)number;
}

int engine_comm_reduce_scatter(struct comm *comm, const void *send, void *receive, size_t count,
                               enum dtype dtype, enum comm_reduce_order order,
                               const struct comm_options *options, struct comm_work *work,
                               struct err *err)
{
    static_assert(COMM_DETERMINISTIC_MAX <= 64, "one bit per sum");
    struct engine_op *op;
    (void)order;
    assert(dtype == DTYPE_F32 || dtype == DTYPE_F64);
    int status = engine_comm_begin(comm, options, "a sum over the ranks", &op, err);
    if (status)
        return status;
    if (count == 0)
        return engine_comm_start(comm, op, 0, options, work, err);
    size_t slice_bytes = count * dtype_bytes(dtype),
           stride_bytes = bytes_min(slice_bytes, PIECE_BYTES);
    struct deterministic_sum *sum =
        engine_op_scratch(op, sizeof *sum + (size_t)comm->ranks * stride_bytes);
    if (!sum)
        return engine_comm_start(comm, op, -ENOMEM, options, work, err);
    int number = acquire_sum_tag(comm, op, err);
    if (number < 0) {
        engine_op_release(op);
        return number;
    }
    *sum = (struct deterministic_sum){.comm = comm,
                                      .send = send,
                                      .receive = receive,
                                      .stride_bytes = stride_bytes,
                                      .slice_bytes = slice_bytes,
                                      .tag = ENGINE_TAG_SUM + (uint64_t)number,
                                      .dtype = dtype};
    op->advance = sum_piece;
    status = plan_piece(op);
    if (status)
        /* A retry must use the same tag as the other ranks. */
        engine_comm_of(comm)->sums_count--;
    return engine_comm_start(comm, op, status, options, work, err);
}
