/*
 * comm_null — simulates one rank of many without the others: every call completes at once and moves
 * nothing. Used to plan what a rank would do (trainer/plan/dry_run.h).
 *
 * Receive buffers and reduced values stay as they were, so only code whose calls do not depend on
 * them may use it.
 */
#ifndef MILLRACE_COMM_COMM_NULL_H
#define MILLRACE_COMM_COMM_NULL_H

#include "comm/comm.h"

/* takes_device_memory: true as for comm_nccl, false as for the host backends. */
int comm_null_open(int rank, int ranks, bool takes_device_memory, struct comm **ret_comm,
                   struct err *err);

#endif
