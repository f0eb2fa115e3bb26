/*
 * mpi_inquiry — asks ranks that are late what they do. Their engines answer, whatever keeps the
 * rest of them.
 *
 * Questions and answers go over the engine's control communicator, with tags of their own. A
 * process that is stopped, or whose machine is gone, does not answer, which is an answer too.
 *
 * Threads: the engine's.
 */
#ifndef MILLRACE_COMM_MPI_MPI_INQUIRY_H
#define MILLRACE_COMM_MPI_MPI_INQUIRY_H

#include "comm/mpi/mpi_engine.h"

enum { MPI_INQUIRY_TAG_QUESTION = 1, MPI_INQUIRY_TAG_ANSWER };

struct mpi_inquiry;

/* Begins to listen. control: used with other tags beside it. -ENOMEM, -EIO. */
int mpi_inquiry_open(struct engine *engine, MPI_Comm control, struct mpi_inquiry **ret_inquiry,
                     struct err *err);
/* Stops listening, where MPI goes on (is_over: it does not, and memory stays as it is). NULL is
 * fine. */
void mpi_inquiry_close(struct mpi_inquiry *inquiry, bool is_over);

/* Answers whoever has asked. Cheap. */
void mpi_inquiry_serve(struct mpi_inquiry *inquiry);

/* Asks a rank of the world what it does, unless it was asked at since_ns or later. Never blocks.
 * Its answer to that question, which is the inquiry's (engine_answer); NULL: none has come yet.
 * *ret_asked_ns: when it was last asked. */
const char *mpi_inquiry_check(struct mpi_inquiry *inquiry, int rank, uint64_t since_ns,
                              uint64_t *ret_asked_ns);

#endif
