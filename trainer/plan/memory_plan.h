/*
 * memory_plan — does the device have the memory that a run will take of it: asked by a dry run
 * (dry_run.h) before the run takes any; and what would take less.
 */
#ifndef MILLRACE_TRAINER_PLAN_MEMORY_PLAN_H
#define MILLRACE_TRAINER_PLAN_MEMORY_PLAN_H

#include "trainer/plan/dry_run.h"

struct run;

/* What a device takes for itself beside what is asked of it, as kernels that it loads when they are
 * first used. */
enum { MEMORY_PLAN_SPARE_BYTES = 64 << 20 };

/* Of so much of the device's own memory, the spare included. */
static inline uint64_t memory_plan_bytes(uint64_t device_bytes)
{
    return device_bytes + MEMORY_PLAN_SPARE_BYTES;
}

/* -ENOMEM where the device has less memory free than the simulated run will take beside what the
 * device has given already, with what is needed, and how much a smaller micro-batch, a batch that
 * does not grow, recomputing and offloading would save. Where device memory is the host's nobody
 * can tell, and it is 0. */
int memory_plan_check(const struct trainer_dry_run_options *run, struct device *device,
                      struct err *err);
/* The same for a run that is being opened: a run_memory_check (run.h). */
int memory_plan_check_run(const struct run *run, bool trains, struct err *err);

#endif
