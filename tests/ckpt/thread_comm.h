/*
 * thread_comm — ranks as threads in one process, with the communicator operations that savers need
 * (split, all_gather, all_reduce_i64, all_to_all).
 */
#ifndef MILLRACE_TESTS_CKPT_THREAD_COMM_H
#define MILLRACE_TESTS_CKPT_THREAD_COMM_H

#include "comm/comm.h"

enum { THREAD_COMM_RANKS_MAX = 8 };

/* The function that a rank runs; its communicator is closed afterwards. */
typedef void thread_comm_rank(void *context, struct comm *comm);

/* Runs ranks 0 to ranks-1 concurrently and waits for all. */
void thread_comm_run(int ranks, thread_comm_rank *rank, void *context);

#endif
