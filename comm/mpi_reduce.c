/*
 * mpi_reduce — operations of comm_mpi that add up: exact integers, canonical sums, the library's own. See mpi_comm.h.
 */
#include "comm/mpi_comm.h"
#include "comm/mpi_op.h"
#include "comm/tree_sum.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

enum {
    PIECE_BYTES = 1 << 20
}; /* of a slice, in a canonical sum: a rank holds one of each rank's at a time */

/* A canonical sum: what is left of it. */
struct sum {
    struct comm_mpi *comm;
    const char *send;
    char *receive;
    size_t slice_bytes, at_bytes, piece_bytes; /* at: of the piece under way */
    enum dtype dtype;
};

/* An exact reduction. */
struct exact {
    struct comm_mpi *comm;
    int64_t *values;
    size_t count;
    enum comm_i64_op op;
};

/* The library's own: slices of more than INT_MAX elements in all are reduced one after the other. */
struct fast {
    struct comm_mpi *comm;
    const char *send;
    char *receive;
    size_t count;
    enum dtype dtype;
    bool started;
};

static void reduce_words(int64_t *values, const int64_t *more, size_t count, enum comm_i64_op op)
{
    for (size_t i = 0; i < count; i++) {
        switch (op) {
        case COMM_SUM:
            values[i] = (int64_t)((uint64_t)values[i] + (uint64_t)more[i]);
            break;
        case COMM_MAX:
            values[i] = more[i] > values[i] ? more[i] : values[i];
            break;
        case COMM_OR:
            values[i] |= more[i];
            break;
        }
    }
}

/* In the scratch: exact, then the words of each rank, this one's too: those are what is sent. */
static int reduce_exactly(struct mpi_op *op, struct err *err)
{
    (void)err;
    const struct exact *exact = op->scratch;
    const int64_t *words = (const void *)(exact + 1);
    for (int r = 0; r < exact->comm->base.ranks; r++)
        if (r != exact->comm->base.rank)
            reduce_words(exact->values, words + (size_t)r * exact->count, exact->count, exact->op);
    return 0;
}

int mpi_all_reduce_i64(struct comm *base, int64_t *values, size_t count, enum comm_i64_op how,
                       const struct comm_options *options, struct comm_work *work, struct err *err)
{
    struct comm_mpi *comm = mpi_of(base);
    struct mpi_op *op;
    size_t bytes = count * sizeof *values;
    int status = mpi_comm_begin(comm, options, "a reduction", &op, err);
    if (status)
        return status;
    struct exact *exact = mpi_op_scratch(op, sizeof *exact + (size_t)base->ranks * bytes);
    if (exact && bytes > 0) {
        *exact = (struct exact){comm, values, count, how};
        op->advance = reduce_exactly;
        char *words = (char *)(exact + 1), *own = words + (size_t)base->rank * bytes;
        memcpy(own, values, bytes);
        status = mpi_comm_plan_gather(comm, op, own, words, bytes);
    }
    return mpi_comm_start(comm, op, exact ? status : -ENOMEM, options, work, err);
}

/* The next piece of this rank's slice from all, and of all others' slices to them. */
static int plan_piece(struct mpi_op *op)
{
    struct sum *sum = op->scratch;
    struct comm_mpi *comm = sum->comm;
    size_t left = sum->slice_bytes - sum->at_bytes, own = (size_t)comm->base.rank;
    char *leaves = (char *)(sum + 1);
    int status = 0;
    sum->piece_bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
    memcpy(leaves + own * PIECE_BYTES, sum->send + own * sum->slice_bytes + sum->at_bytes, sum->piece_bytes);
    for (int i = 1; i < comm->base.ranks && !status; i++) {
        size_t rank = (size_t)mpi_comm_other(comm, i);
        status = mpi_comm_plan_receive(comm, op, (int)rank, leaves + rank * PIECE_BYTES, sum->piece_bytes);
        if (!status)
            status = mpi_comm_plan_send(
                comm, op, (int)rank, sum->send + rank * sum->slice_bytes + sum->at_bytes, sum->piece_bytes);
    }
    return status;
}

static int sum_piece(struct mpi_op *op, struct err *err)
{
    struct sum *sum = op->scratch;
    char *leaves = (char *)(sum + 1);
    do {
        tree_sum(leaves, (size_t)sum->comm->base.ranks, PIECE_BYTES,
                 sum->piece_bytes / dtype_bytes(sum->dtype), sum->dtype);
        memcpy(sum->receive + sum->at_bytes, leaves, sum->piece_bytes);
        sum->at_bytes += sum->piece_bytes;
        if (sum->at_bytes == sum->slice_bytes)
            return 0;
        if (plan_piece(op))
            return err_set(err, -ENOMEM, "out of memory for an exchange of %d ranks", sum->comm->base.ranks);
    } while (op->planned_count == 0); /* a lone rank awaits nothing */
    return 0;
}

/* The ranks of the communicator as one of MPI's. It blocks the engine, but not for long: all have come. */
static int make_fast(struct comm_mpi *comm, struct err *err)
{
    enum { TAGS = 32768 }; /* that any MPI has */
    MPI_Comm world = mpi_engine_world(comm->shared->engine);
    MPI_Group all, members;
    int tag = (comm->world_ranks[0] * MPI_CONTEXTS_MAX + comm->tags[0]) % TAGS;
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, comm->base.ranks, comm->world_ranks, &members);
    int status =
        mpi_check(MPI_Comm_create_group(world, members, tag, &comm->fast), "making a communicator", err);
    MPI_Group_free(&members);
    MPI_Group_free(&all);
    if (!status)
        MPI_Comm_set_errhandler(comm->fast, MPI_ERRORS_RETURN);
    return status;
}

/* One slice after the other, each in parts that MPI can count. */
static int start_slices(struct mpi_op *op, const struct fast *fast, MPI_Datatype type, struct err *err)
{
    struct comm_mpi *comm = fast->comm;
    size_t element = dtype_bytes(fast->dtype);
    int status = 0;
    for (int root = 0; root < comm->base.ranks; root++) {
        for (size_t at = 0, part; at < fast->count && !status; at += part) {
            part = fast->count - at < INT_MAX ? fast->count - at : INT_MAX;
            MPI_Request request;
            status = mpi_check(MPI_Ireduce(fast->send + ((size_t)root * fast->count + at) * element,
                                           fast->receive + at * element, (int)part, type, MPI_SUM, root,
                                           comm->fast, &request),
                               "reducing", err);
            if (!status && mpi_op_adopt(op, request))
                status = err_set(err, -ENOMEM, "out of memory for a reduction");
        }
    }
    return status;
}

static int start_fast(struct mpi_op *op, struct err *err)
{
    struct fast *fast = op->scratch;
    size_t ranks = (size_t)fast->comm->base.ranks;
    MPI_Datatype type = fast->dtype == DTYPE_F32 ? MPI_FLOAT : MPI_DOUBLE;
    MPI_Request request;
    int status = 0;
    if (fast->started)
        return 0;
    fast->started = true;
    if (fast->comm->fast == MPI_COMM_NULL)
        status = make_fast(fast->comm, err);
    if (status)
        return status;
    if (fast->count > INT_MAX / ranks)
        return start_slices(op, fast, type, err);
    status = mpi_check(MPI_Ireduce_scatter_block(fast->send, fast->receive, (int)fast->count, type, MPI_SUM,
                                                 fast->comm->fast, &request),
                       "reducing", err);
    if (!status && mpi_op_adopt(op, request))
        status = err_set(err, -ENOMEM, "out of memory for a reduction");
    return status;
}

static int plan_fast(struct mpi_op *op, const struct fast *request, bool *prepared)
{
    size_t ranks = (size_t)request->comm->base.ranks, rank = (size_t)request->comm->base.rank;
    struct fast *fast = mpi_op_scratch(op, sizeof *fast + ranks);
    if (!fast)
        return -ENOMEM;
    *fast = *request;
    op->advance = start_fast;
    char *here = (char *)(fast + 1);
    here[rank] = 0;
    int status = *prepared ? 0 : mpi_comm_plan_gather(request->comm, op, here + rank, here, 1);
    *prepared = true;
    return status;
}

static int plan_sum(struct mpi_op *op, const struct sum *request)
{
    struct sum *sum = mpi_op_scratch(op, sizeof *sum + (size_t)request->comm->base.ranks * PIECE_BYTES);
    if (!sum)
        return -ENOMEM;
    *sum = *request;
    op->advance = sum_piece;
    return plan_piece(op);
}

int mpi_reduce_scatter(struct comm *base, const void *send, void *receive, size_t count, enum dtype dtype,
                       enum comm_order order, const struct comm_options *options, struct comm_work *work,
                       struct err *err)
{
    struct comm_mpi *comm = mpi_of(base);
    struct mpi_op *op;
    assert(dtype == DTYPE_F32 || dtype == DTYPE_F64);
    int status = mpi_comm_begin(comm, options, "a sum over the ranks", &op, err);
    if (status)
        return status;
    if (count > 0 && order == COMM_FAST)
        status = plan_fast(op, &(struct fast){comm, send, receive, count, dtype, false}, &comm->prepared);
    else if (count > 0)
        status = plan_sum(op, &(struct sum){.comm = comm,
                                            .send = send,
                                            .receive = receive,
                                            .slice_bytes = count * dtype_bytes(dtype),
                                            .dtype = dtype});
    return mpi_comm_start(comm, op, status, options, work, err);
}

static int free_fast(struct mpi_op *op, struct err *err)
{
    (void)err;
    struct comm_mpi **comm = op->scratch;
    if ((*comm)->fast != MPI_COMM_NULL)
        MPI_Comm_free(&(*comm)->fast);
    return 0;
}

void mpi_reduce_close(struct comm_mpi *comm)
{
    struct mpi_op *op;
    if (!comm->prepared || mpi_comm_begin(comm, NULL, "closing", &op, NULL))
        return; /* or nothing of MPI is called any more */
    struct comm_mpi **context = mpi_op_scratch(op, sizeof *context);
    if (context) {
        *context = comm;
        op->advance = free_fast;
        mpi_engine_start(comm->shared->engine, op);
        mpi_engine_wait(comm->shared->engine, op);
    }
    mpi_engine_give(comm->shared->engine, op);
}
