/*
 * rank_result — writes how a failing run ended on this rank.
 */
#ifndef MILLRACE_TESTS_COMM_RANK_RESULT_H
#define MILLRACE_TESTS_COMM_RANK_RESULT_H

#include "comm/comm.h"

/* Writes the error's name and message, such as "ETIMEDOUT ...", or "0" to the file got.RANK. Then
 * waits for the other ranks' files, because mpirun ends all ranks when one exits. */
void write_rank_result(const struct comm *world, int status, const struct err *err);

#endif
