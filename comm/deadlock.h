/*
 * deadlock — finds ranks that wait for each other in different calls, on different communicators.
 *
 * A thread on each rank tells the others once a second which call the rank's main thread waits in.
 * When all ranks wait, none has moved for some seconds, and no call has all of its ranks, none of
 * them can ever go on: each rank that could come to the call waits in another one. Then every rank
 * learns the same verdict, and all work of the process ends with -ECONNABORTED. A rank that
 * computes, reads or writes does not wait in a call, however long it takes, so a slow rank is never
 * accused.
 *
 * Threads: enter and leave from any thread, of which only the one that opened it counts.
 */
#ifndef MILLRACE_COMM_DEADLOCK_H
#define MILLRACE_COMM_DEADLOCK_H

#include "comm/call.h"
#include "comm/comm.h"

struct deadlock;

/* A collective call of all ranks of world, which it splits; borrowed. -ENOMEM, and as split. */
int deadlock_open(struct comm *world, struct deadlock **ret_deadlock, struct err *err);
/* Waits up to a second for the other ranks. NULL is fine. */
void deadlock_close(struct deadlock *deadlock);

/* This thread begins to wait for the other ranks of a communicator of so many to make that call. */
void deadlock_enter(struct deadlock *deadlock, const struct comm_call *call, int ranks);
void deadlock_leave(struct deadlock *deadlock);

/* 0, or -EPROTO where ranks wait for each other: on rank 0 with two of their calls, on the others
 * with an empty detail, so that it is printed once. */
int deadlock_verdict(struct deadlock *deadlock, struct err *err);

#endif
