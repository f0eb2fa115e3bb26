/*
 * mpi_op — what the engine's thread does with one operation: posting its messages and asking whether they are done.
 *
 * Threads: the engine's, but init and deinit.
 */
#ifndef MILLRACE_COMM_MPI_OP_H
#define MILLRACE_COMM_MPI_OP_H

#include "comm/mpi_engine.h"

void mpi_op_deinit(struct mpi_op *op);
/* Blank again, memory kept. */
void mpi_op_clear(struct mpi_op *op);
/* Posts what is planned. -EIO. */
int mpi_op_post(struct mpi_op *op, MPI_Comm world, struct err *err);
/* Asks once; how many requests ended. -EIO where one failed or brought another number of bytes. */
int mpi_op_ask(struct mpi_op *op, struct err *err);
bool mpi_op_round_is_done(const struct mpi_op *op);
/* Forgets the messages of a round that is done. */
void mpi_op_next_round(struct mpi_op *op);
/* A request that `advance` has made itself takes the place of a message. */
int mpi_op_adopt(struct mpi_op *op, MPI_Request request);
/* Ranks of the communicator that are late: those whose messages are awaited, else those that take none; how many of `most` are listed. */
int mpi_op_list_late(const struct mpi_op *op, int *ranks, int most);
/* "nothing from ranks 1, 3": the ranks whose messages are awaited; "ranks 2 take nothing" where only sends are. */
void mpi_op_tell_late(const struct mpi_op *op, char *text, size_t bytes);

#endif
