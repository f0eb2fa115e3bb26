/*
 * ends — the report of a rank whose run fails.
 */
#ifndef MILLRACE_TESTS_COMM_ENDS_H
#define MILLRACE_TESTS_COMM_ENDS_H

#include "comm/comm.h"

/* Writes the file got.RANK: "ETIMEDOUT the line of err", or "0". Then waits for the files of the
 * other ranks, since mpirun ends all ranks when one exits. */
void result_report(const struct comm *world, int status, const struct err *err);

#endif
