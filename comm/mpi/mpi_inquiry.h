/*
 * mpi_inquiry — asks late ranks for their activity. An engine answers even if the rest of its
 * process is busy; a stopped process does not.
 *
 * Threads: the engine's thread only.
 */
#ifndef MILLRACE_COMM_MPI_MPI_INQUIRY_H
#define MILLRACE_COMM_MPI_MPI_INQUIRY_H

#include "comm/mpi/mpi_engine.h"

enum { MPI_INQUIRY_TAG_QUESTION = 1, MPI_INQUIRY_TAG_ANSWER };

struct mpi_inquiry;

/* Starts listening for inquiries. control: shared with users of other tags. */
int mpi_inquiry_open(struct engine *engine, MPI_Comm control, struct mpi_inquiry **ret_inquiry,
                     struct err *err);
/* is_over: MPI must not be called, and memory is not freed. NULL is fine. */
void mpi_inquiry_close(struct mpi_inquiry *inquiry, bool is_over);

/* Answers pending inquiries. Does not block. */
void mpi_inquiry_serve(struct mpi_inquiry *inquiry);

/* See inquire in engine_ops. */
const char *mpi_inquiry_check(struct mpi_inquiry *inquiry, int rank, uint64_t since_ns,
                              uint64_t *ret_asked_ns);

#endif
