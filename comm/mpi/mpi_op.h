/*
 * mpi_op — posts and tests the messages of mpi_engine's operations.
 *
 * Threads: the engine's thread, except plan (see engine.h) and deinit.
 */
#ifndef MILLRACE_COMM_MPI_MPI_OP_H
#define MILLRACE_COMM_MPI_MPI_OP_H

#include "comm/mpi/mpi_engine.h"

struct mpi_op {
    struct engine_op base;
    struct engine_message *messages; /* of this round */
    MPI_Request *requests;
    int *indices;         /* for MPI_Testsome, like statuses */
    MPI_Status *statuses; /* [capacity], like messages, requests and indices */
    size_t capacity;
};

static inline struct mpi_op *mpi_op_of(struct engine_op *op)
{
    return (struct mpi_op *)op;
}

/* Hooks of engine_ops. plan splits long messages. poll: -EIO if a request failed, -EPROTO if a
 * message had an unexpected size. */
void mpi_op_deinit(struct engine_op *op);
int mpi_op_plan(struct engine_op *op, const struct engine_message *message);
int mpi_op_post(struct engine_op *op, struct err *err);
int mpi_op_poll(struct engine_op *op, struct err *err);
bool mpi_op_has_unfinished(const struct engine_op *op, int peer, bool is_send);

/* Adds an MPI request that `advance` posted itself. */
int mpi_op_add_request(struct engine_op *op, MPI_Request request);

#endif
