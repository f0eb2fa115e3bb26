/*
 * ends — what a rank of a run that ends badly leaves behind.
 */
#ifndef MILLRACE_TESTS_COMM_ENDS_H
#define MILLRACE_TESTS_COMM_ENDS_H

#include "comm/comm.h"

/* Into the file got.RANK: "ETIMEDOUT the line of err", or "0". Then it waits for those of the
 * others, since mpirun ends all when one exits. */
void ends_leave(const struct comm *world, int status, const struct err *err);

#endif
