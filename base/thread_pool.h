/*
 * thread_pool — a fixed number of threads that run the tasks of one job at a time.
 *
 *     // work(context, task, worker) for each task in 0..tasks-1
 *     thread_pool_run(pool, tasks, work, &context);
 *
 * The caller works too, as worker 0. Workers take tasks from a shared counter, so which worker runs
 * a task is not determined: a task must write only its own output, and its result must not depend
 * on the worker. The result then has the same bits for any number of threads.
 */
#ifndef MILLRACE_BASE_THREAD_POOL_H
#define MILLRACE_BASE_THREAD_POOL_H

#include "base/err.h"

#include <stddef.h>

enum { THREAD_POOL_THREADS_MAX = 256 };

struct thread_pool;
struct trace;

/* count >= 1 includes the caller; 0 means one a CPU that this process may use. Gives the pool.
 * -EAGAIN, -ENOMEM. */
int thread_pool_open(unsigned count, struct thread_pool **ret_pool, struct err *err);
void thread_pool_close(struct thread_pool *pool); /* joins; NULL is fine */
unsigned thread_pool_count(const struct thread_pool *pool);

/* From now on the threads of the pool, the caller's aside, add their share of each job to tracks of
 * the trace (trace.h), which outlives the pool. NULL is fine. Not while a job runs. */
void thread_pool_add_tracks(struct thread_pool *pool, struct trace *trace);

/* Blocks until all tasks are done. One caller at a time; not from within a task. Allocates
 * nothing. */
void thread_pool_run(struct thread_pool *pool, size_t tasks,
                     void (*work)(void *context, size_t task, unsigned worker), void *context);

/* CPUs that this process may use, at least 1: those it may run on, but no more than its control
 * groups leave it time for, rounded up. */
unsigned thread_pool_cpu_count(void);
/* The same with root before every path that is read (cgroup.h). */
unsigned thread_pool_cpu_count_in(const char *root);

#endif
