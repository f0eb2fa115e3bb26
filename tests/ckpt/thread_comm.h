/*
 * thread_comm — ranks that are threads of one process: enough of a communicator for savers (split,
 * all_gather, all_reduce_i64, all_to_all).
 */
#ifndef MILLRACE_TESTS_CKPT_THREAD_COMM_H
#define MILLRACE_TESTS_CKPT_THREAD_COMM_H

#include "comm/comm.h"

enum { THREAD_COMM_RANKS_MAX = 8 };

/* What a rank does; its communicator is closed afterwards. */
typedef void thread_comm_rank(void *context, struct comm *comm);

/* Runs rank 0..ranks-1 at the same time and waits for all. */
void thread_comm_run(int ranks, thread_comm_rank *rank, void *context);

#endif
