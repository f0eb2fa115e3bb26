/*
 * mpi_fast — see mpi_fast.h.
 */
#include "comm/mpi/mpi_fast.h"

#include "comm/mpi/mpi_op.h"

#include <errno.h>
#include <limits.h>

/* State of a sum. If the slices have more than INT_MAX elements in total, they are reduced one
 * after another. */
struct fast_sum {
    struct comm_mpi *comm;
    const char *send;
    char *receive;
    size_t count;
    enum dtype dtype;
    bool is_started;
};

static struct comm_mpi *mpi_of(struct comm *comm)
{
    return (struct comm_mpi *)comm;
}

/* Creates an MPI communicator with the same ranks. Blocks the engine only briefly: all ranks have
 * arrived. */
static int create_mpi_comm(struct comm_mpi *comm, struct err *err)
{
    enum { TAGS = 32768 }; /* supported by every MPI */
    const struct engine_comm *base = &comm->base;
    MPI_Comm world = mpi_engine_world(base->engine);
    MPI_Group all, members;
    uint64_t id = base->tags[0] / base->engine->tags_count; /* of rank 0 */
    int tag = (int)(((uint64_t)base->world_ranks[0] * ENGINE_COMMS_MAX + id) % TAGS);
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, base->base.ranks, base->world_ranks, &members);
    int status = mpi_check(MPI_Comm_create_group(world, members, tag, &comm->mpi_comm),
                           "creating a communicator", err);
    MPI_Group_free(&members);
    MPI_Group_free(&all);
    comm->is_created = !status;
    if (!status)
        MPI_Comm_set_errhandler(comm->mpi_comm, MPI_ERRORS_RETURN);
    return status;
}

/* Splits slices so that counts fit in an int. */
static int reduce_slices(struct engine_op *op, const struct fast_sum *fast, MPI_Datatype type,
                         struct err *err)
{
    const struct comm_mpi *comm = fast->comm;
    size_t element = dtype_bytes(fast->dtype);
    int status = 0;
    for (int root = 0; root < op->ranks; root++) {
        for (size_t at = 0, part; at < fast->count && !status; at += part) {
            part = fast->count - at < INT_MAX ? fast->count - at : INT_MAX;
            MPI_Request request;
            status = mpi_check(MPI_Ireduce(fast->send + ((size_t)root * fast->count + at) * element,
                                           fast->receive + at * element, (int)part, type, MPI_SUM,
                                           root, comm->mpi_comm, &request),
                               "reducing", err);
            if (!status && mpi_op_add_request(op, request))
                status = err_set(err, -ENOMEM, "out of memory for a reduction");
        }
    }
    return status;
}

static int start_sum(struct engine_op *op, struct err *err)
{
    struct fast_sum *fast = op->scratch;
    MPI_Datatype type = fast->dtype == DTYPE_F32 ? MPI_FLOAT : MPI_DOUBLE;
    MPI_Request request;
    if (fast->is_started)
        return 0;
    fast->is_started = true;
    int status = fast->comm->is_created ? 0 : create_mpi_comm(fast->comm, err);
    if (status)
        return status;
    if (fast->count > INT_MAX / (size_t)op->ranks)
        return reduce_slices(op, fast, type, err);
    status = mpi_check(MPI_Ireduce_scatter_block(fast->send, fast->receive, (int)fast->count, type,
                                                 MPI_SUM, fast->comm->mpi_comm, &request),
                       "reducing", err);
    if (!status && mpi_op_add_request(op, request))
        status = err_set(err, -ENOMEM, "out of memory for a reduction");
    return status;
}

/* Plans the arrival check that precedes the sum. */
static int plan_arrival_check(struct comm_mpi *comm, struct engine_op *op,
                              const struct fast_sum *request)
{
    struct comm *base = &comm->base.base;
    struct fast_sum *fast = engine_op_scratch(op, sizeof *fast + (size_t)base->ranks);
    if (!fast)
        return -ENOMEM;
    *fast = *request;
    op->advance = start_sum;
    char *arrivals = (char *)(fast + 1), *own = arrivals + base->rank;
    *own = 0;
    int status = comm->is_prepared ? 0 : engine_comm_plan_gather(base, op, own, arrivals, 1);
    comm->is_prepared = true;
    return status;
}

int mpi_fast_reduce_scatter(struct comm *base, const void *send, void *receive, size_t count,
                            enum dtype dtype, const struct comm_options *options,
                            struct comm_work *work, struct err *err)
{
    struct comm_mpi *comm = mpi_of(base);
    struct engine_op *op;
    int status = engine_comm_begin(base, options, "a sum over the ranks", &op, err);
    if (status)
        return status;
    status =
        plan_arrival_check(comm, op, &(struct fast_sum){comm, send, receive, count, dtype, false});
    return engine_comm_start(base, op, status, options, work, err);
}

static int free_mpi_comm(struct engine_op *op, struct err *err)
{
    (void)err;
    struct comm_mpi **comm = op->scratch;
    if ((*comm)->is_created)
        MPI_Comm_free(&(*comm)->mpi_comm);
    return 0;
}

void mpi_fast_close(struct comm *base)
{
    struct comm_mpi *comm = mpi_of(base);
    struct engine_op *op;
    if (!comm->is_prepared || engine_comm_begin(base, NULL, "closing", &op, NULL))
        return; /* not needed, or MPI must not be called */
    struct comm_mpi **context = engine_op_scratch(op, sizeof *context);
    if (context) {
        *context = comm;
        op->advance = free_mpi_comm;
        engine_start(op);
        engine_wait(op);
    }
    engine_op_release(op);
}
