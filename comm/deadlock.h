/*
 * deadlock — detects ranks that wait for each other in different calls.
 *
 * Every second, a thread on each rank sends all ranks the call in which its main thread waits. The
 * ranks are deadlocked if all of them wait, none has progressed for several seconds, and no call
 * has been reached by all of its ranks. All ranks then reach the same verdict, and all work of the
 * process ends with -ECONNABORTED. Slow ranks are not reported: they do not wait in a call.
 *
 * Threads: enter and leave may be called from any thread, but ignore all except the one that called
 * open.
 */
#ifndef MILLRACE_COMM_DEADLOCK_H
#define MILLRACE_COMM_DEADLOCK_H

#include "comm/call.h"
#include "comm/comm.h"

struct deadlock;

/* Collective over world. Borrows and splits world. */
int deadlock_open(struct comm *world, struct deadlock **ret_deadlock, struct err *err);
/* Waits up to a second for the other ranks. NULL is fine. */
void deadlock_close(struct deadlock *deadlock);

/* Call before this thread waits for all `ranks` ranks of a communicator to make the call. */
void deadlock_enter(struct deadlock *deadlock, const struct comm_call *call, int ranks);
void deadlock_leave(struct deadlock *deadlock);

/* Returns -EPROTO if ranks are deadlocked. Only rank 0 gets a detail, which shows two of the
 * calls. */
int deadlock_verdict(struct deadlock *deadlock, struct err *err);

#endif
