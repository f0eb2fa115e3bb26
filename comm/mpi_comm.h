/*
 * mpi_comm — what the files of comm_mpi share: a communicator, and what its operations are made of.
 *
 * A communicator is a list of ranks of the world. Each of its ranks has a name of its own for it (a context of its engine), and what is
 * sent to that rank carries it in the tag; so splitting needs no more than telling each other the names, and nothing of MPI that would
 * block the engine. Messages between two ranks with one tag arrive in order, and the ranks make the same calls in the same order:
 * collectives need no numbers. Only the library's own reduction needs a communicator of MPI's, which is made when it is first asked for.
 */
#ifndef MILLRACE_COMM_MPI_COMM_H
#define MILLRACE_COMM_MPI_COMM_H

#include "comm/comm.h"
#include "comm/mpi_engine.h"

#include <stdatomic.h>

#define MPI_COMM_SPLIT_TIMEOUT_NS (UINT64_C(1800) * 1000000000)

/* Shared by the communicators that stem from one open. */
struct shared {
    struct mpi_engine *engine;
    atomic_int comms_count;
};

/* Immutable after open, but prepared and fast. */
struct comm_mpi {
    struct comm base;
    struct shared *shared;
    int *world_ranks; /* [ranks] */
    int *tags;        /* [ranks] of collectives to each rank; letters' are above */
    int context;      /* this rank's name for it */
    bool prepared;    /* the caller's: fast was asked for */
    MPI_Comm fast;    /* the engine's: MPI_COMM_NULL until it is made */
};

static inline struct comm_mpi *mpi_of(struct comm *comm)
{
    return (struct comm_mpi *)comm;
}

static inline struct mpi_engine *engine_of(const struct comm_mpi *comm)
{
    return comm->shared->engine;
}

/* A blank operation of this communicator; name: its kind in a trace, static, and what it is called where options do not say. -ECONNABORTED after the end. */
int mpi_comm_begin(struct comm_mpi *comm, const struct comm_options *options, const char *name,
                   struct mpi_op **ret_op, struct err *err);
/* Starts it; or takes it back where planning it failed, by status: -ENOMEM. */
int mpi_comm_start(struct comm_mpi *comm, struct mpi_op *op, int status, const struct comm_options *options,
                   struct comm_work *work, struct err *err);
int mpi_comm_plan_send(struct comm_mpi *comm, struct mpi_op *op, int to, const void *data, size_t bytes);
int mpi_comm_plan_receive(struct comm_mpi *comm, struct mpi_op *op, int from, void *data, size_t bytes);
/* `bytes` from each other rank to receive + rank * bytes, and send to each. */
int mpi_comm_plan_gather(struct comm_mpi *comm, struct mpi_op *op, const void *send, char *receive,
                         size_t bytes);
/* The other ranks from the next one on, so that not all begin with the same one. i: 1 .. ranks - 1. */
static inline int mpi_comm_other(const struct comm_mpi *comm, int i)
{
    return (comm->base.rank + i) % comm->base.ranks;
}

/* The hooks of comm_ops, see there. */
int mpi_all_gather(struct comm *comm, const void *send, void *receive, size_t bytes,
                   const struct comm_options *options, struct comm_work *work, struct err *err);
int mpi_all_to_all(struct comm *comm, const void *send, const size_t *send_offsets, const size_t *send_bytes,
                   void *receive, const size_t *receive_offsets, const size_t *receive_bytes,
                   const struct comm_options *options, struct comm_work *work, struct err *err);
int mpi_send(struct comm *comm, const void *data, size_t bytes, int to, int tag,
             const struct comm_options *options, struct comm_work *work, struct err *err);
int mpi_receive(struct comm *comm, void *data, size_t bytes, int from, int tag,
                const struct comm_options *options, struct comm_work *work, struct err *err);
int mpi_all_reduce_i64(struct comm *comm, int64_t *values, size_t count, enum comm_i64_op how,
                       const struct comm_options *options, struct comm_work *work, struct err *err);
int mpi_reduce_scatter(struct comm *comm, const void *send, void *receive, size_t count, enum dtype dtype,
                       enum comm_order order, const struct comm_options *options, struct comm_work *work,
                       struct err *err);
/* Gives back what the fast reduction needed. */
void mpi_reduce_close(struct comm_mpi *comm);

#endif
