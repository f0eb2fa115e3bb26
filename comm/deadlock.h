/*
 * deadlock — finds ranks that wait for each other in different calls, on different communicators.
 *
 * Once a second, a thread on each rank sends the other ranks the call in which its main thread
 * waits. The ranks are deadlocked when all of them wait, none has moved for some seconds, and no
 * call has all of its ranks. Every rank then reaches the same verdict, and all work of the process
 * ends with -ECONNABORTED. A slow rank is never reported, because it does not wait in a call.
 *
 * Threads: enter and leave may be called from any thread, but only the thread that called open
 * counts.
 */
#ifndef MILLRACE_COMM_DEADLOCK_H
#define MILLRACE_COMM_DEADLOCK_H

#include "comm/call.h"
#include "comm/comm.h"

struct deadlock;

/* Collective over world, which it splits and borrows. -ENOMEM, or the errors of split. */
int deadlock_open(struct comm *world, struct deadlock **ret_deadlock, struct err *err);
/* Waits up to a second for the other ranks. NULL is fine. */
void deadlock_close(struct deadlock *deadlock);

/* This thread starts to wait for the other ranks of a communicator of `ranks` to make the call. */
void deadlock_enter(struct deadlock *deadlock, const struct comm_call *call, int ranks);
void deadlock_leave(struct deadlock *deadlock);

/* Returns 0, or -EPROTO if ranks wait for each other. Rank 0's detail shows two of their calls; the
 * others' is empty, so that it is printed once. */
int deadlock_verdict(struct deadlock *deadlock, struct err *err);

#endif
