/*
 * thread_pool — a fixed number of threads that run the tasks of one job at a time.
 *
 *     // work(context, task, worker) for each task in 0..tasks-1
 *     thread_pool_run(pool, tasks, work, &context);
 *
 * The caller works too, as worker 0. Any worker may run any task, so a task must write only its own
 * output, which must not depend on the worker. The result is then bit-identical for any number of
 * threads.
 */
#ifndef MILLRACE_BASE_OS_THREAD_POOL_H
#define MILLRACE_BASE_OS_THREAD_POOL_H

#include "base/err.h"

#include <stddef.h>

enum { THREAD_POOL_THREADS_MAX = 256 };

struct thread_pool;
struct trace;

/* count includes the caller; 0: one thread per usable CPU. The caller owns the pool. -EAGAIN,
 * -ENOMEM. */
int thread_pool_open(unsigned count, struct thread_pool **ret_pool, struct err *err);
void thread_pool_close(struct thread_pool *pool); /* joins; NULL is fine */
unsigned thread_pool_count(const struct thread_pool *pool);

/* Records the work of all threads except the caller in tracks of the trace (trace.h), which must
 * outlive the pool. trace may be NULL. Do not call during a job. */
void thread_pool_add_tracks(struct thread_pool *pool, struct trace *trace);

/* Blocks until all tasks are done. Only one caller at a time; do not call from a task. Allocates
 * nothing. */
void thread_pool_run(struct thread_pool *pool, size_t tasks,
                     void (*work)(void *context, size_t task, unsigned worker), void *context);

/* CPUs that this process may use, at least 1: its affinity, limited by control group quotas
 * (rounded up). */
unsigned thread_pool_cpu_count(void);
/* Like thread_pool_cpu_count, with root prepended to every path read (cgroup.h). */
unsigned thread_pool_cpu_count_in(const char *root);

#endif
