/*
 * comm_null — one rank of so many, by itself: every call is done at once and moves nothing. What a
 * rank would do is counted without the others (trainer/plan/dry_run.h).
 *
 * What is received stays as it was, and so do values that are reduced: only code whose calls do not
 * depend on them may run on it.
 */
#ifndef MILLRACE_COMM_COMM_NULL_H
#define MILLRACE_COMM_COMM_NULL_H

#include "comm/comm.h"

/* takes_device_memory: as comm_nccl does, or as those of the host. */
int comm_null_open(int rank, int ranks, bool takes_device_memory, struct comm **ret_comm,
                   struct err *err);

#endif
