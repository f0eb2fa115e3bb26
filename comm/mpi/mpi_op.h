/*
 * mpi_op — operations of mpi_engine: posting their messages, and asking whether they are done.
 *
 * Threads: the engine's, but plan (see engine.h) and deinit.
 */
#ifndef MILLRACE_COMM_MPI_MPI_OP_H
#define MILLRACE_COMM_MPI_MPI_OP_H

#include "comm/mpi/mpi_engine.h"

struct mpi_op {
    struct engine_op base;
    struct engine_message *messages; /* of this round */
    MPI_Request *requests;
    int *indices;         /* for MPI_Testsome, as statuses */
    MPI_Status *statuses; /* [capacity] as the three above */
    size_t capacity;
};

static inline struct mpi_op *mpi_op_of(struct engine_op *op)
{
    return (struct mpi_op *)op;
}

/* Hooks of engine_ops. plan cuts what is long. post: -EIO. ask: -EIO where a request failed;
 * -EPROTO where one brought another number of bytes. */
void mpi_op_deinit(struct engine_op *op);
int mpi_op_plan(struct engine_op *op, const struct engine_message *message);
int mpi_op_post(struct engine_op *op, struct err *err);
int mpi_op_ask(struct engine_op *op, struct err *err);
bool mpi_op_awaits(const struct engine_op *op, int peer, bool is_send);

/* A request that `advance` has made itself takes the place of a message. -ENOMEM. */
int mpi_op_adopt(struct engine_op *op, MPI_Request request);

#endif
