/*
 * mpi_inquiry — what are you doing? Asked of ranks that are late, by the one that is about to end the run for it or looks whether they live, and answered by
 * their engines, whatever keeps the rest of them.
 *
 * Questions and answers go over the engine's control communicator, with tags of their own. A process that is stopped, or whose machine
 * is gone, does not answer, which is an answer too.
 *
 * Threads: the engine's.
 */
#ifndef MILLRACE_COMM_MPI_INQUIRY_H
#define MILLRACE_COMM_MPI_INQUIRY_H

#include "comm/mpi_engine.h"

enum { MPI_INQUIRY_TAG_QUESTION = 1, MPI_INQUIRY_TAG_ANSWER };

struct mpi_inquiry;

/* Begins to listen. control: used with other tags beside it. -ENOMEM, -EIO. */
int mpi_inquiry_open(struct engine *engine, MPI_Comm control, struct mpi_inquiry **ret_inquiry,
                     struct err *err);
/* Stops listening, where MPI goes on (is_over: it does not, and memory stays as it is). NULL is fine. */
void mpi_inquiry_close(struct mpi_inquiry *inquiry, bool is_over);

/* Answers whoever has asked. Cheap. */
void mpi_inquiry_serve(struct mpi_inquiry *inquiry);

/* Asks those ranks of the world, as many as ENGINE_ASKED_MAX at the most, within a second, before the end of the run. answers[i] is NULL where none came; they are the inquiry's.
 * Answers others meanwhile. */
void mpi_inquiry_ask(struct mpi_inquiry *inquiry, const int *ranks, int count, const char **answers);

/* Asks a rank of the world whether it lives, unless a question is under way, and never blocks: its answer to a question of since_ns or later,
 * which is the inquiry's; NULL: none has come yet. *ret_asked_ns: when it was last asked. */
const char *mpi_inquiry_check(struct mpi_inquiry *inquiry, int rank, uint64_t since_ns,
                              uint64_t *ret_asked_ns);

#endif
