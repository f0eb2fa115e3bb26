/*
 * workers — a fixed crew of threads that share the tiles of one job at a time.
 *
 *     // work(context, tile, worker) for each tile in 0..tiles-1
 *     workers_run(crew, tiles, work, &context);
 *
 * The caller works too, as worker 0; tiles are taken from a shared counter, so which worker does a
 * tile is not determined: a tile must write only what is its own, and its result must not depend on
 * the worker. Then the bits are the same whatever the number of workers.
 */
#ifndef MILLRACE_BASE_WORKERS_H
#define MILLRACE_BASE_WORKERS_H

#include "base/err.h"

#include <stddef.h>

enum { WORKERS_COUNT_MAX = 256 };

struct workers;
struct trace;

/* count >= 1 includes the caller; 0 means one a CPU that this process may use. Gives the crew.
 * -EAGAIN, -ENOMEM. */
int workers_open(unsigned count, struct workers **ret_crew, struct err *err);
void workers_close(struct workers *crew); /* joins; NULL is fine */
unsigned workers_count(const struct workers *crew);

/* From now on the threads of the crew, the caller's aside, add their share of each job to tracks of
 * the trace (trace.h), which outlives the crew. NULL is fine. Not while a job runs. */
void workers_add_tracks(struct workers *crew, struct trace *trace);

/* Blocks until all tiles are done. One caller at a time; not from within a tile. Allocates
 * nothing. */
void workers_run(struct workers *crew, size_t tiles,
                 void (*work)(void *context, size_t tile, unsigned worker), void *context);

/* CPUs that this process may use, at least 1: those it may run on, but no more than its control
 * groups leave it time for, rounded up. */
unsigned workers_cpu_count(void);
/* The same with root before every path that is read (cgroup.h). */
unsigned workers_cpu_count_in(const char *root);

#endif
