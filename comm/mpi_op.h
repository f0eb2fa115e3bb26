/*
 * mpi_op — operations of mpi_engine: posting their messages, and asking whether they are done.
 *
 * Threads: the engine's, but clear, plan (see engine.h) and deinit.
 */
#ifndef MILLRACE_COMM_MPI_OP_H
#define MILLRACE_COMM_MPI_OP_H

#include "comm/mpi_engine.h"

struct mpi_op {
    struct engine_op base;
    struct engine_message *messages; /* of this round: posted ones, then planned ones */
    MPI_Request *requests;
    int *indices;         /* for MPI_Testsome, as statuses */
    MPI_Status *statuses; /* [capacity] as the three above */
    size_t planned_count, posted_count, done_count, capacity;
};

static inline struct mpi_op *mpi_op_of(struct engine_op *op)
{
    return (struct mpi_op *)op;
}

/* Hooks of engine_ops. plan cuts what is long. */
void mpi_op_clear(struct engine_op *op);
void mpi_op_deinit(struct engine_op *op);
int mpi_op_plan(struct engine_op *op, const struct engine_message *message);
bool mpi_op_awaits(const struct engine_op *op, int peer, bool is_send);

/* Posts what is planned. -EIO. */
int mpi_op_post(struct mpi_op *op, MPI_Comm world, struct err *err);
/* Asks once; how many requests ended. -EIO where one failed; -EPROTO where one brought another number of bytes. */
int mpi_op_ask(struct mpi_op *op, struct err *err);
bool mpi_op_round_is_done(const struct mpi_op *op);
/* Forgets the messages of a round that is done. */
void mpi_op_next_round(struct mpi_op *op);
/* A request that `advance` has made itself takes the place of a message. -ENOMEM. */
int mpi_op_adopt(struct engine_op *op, MPI_Request request);

#endif
