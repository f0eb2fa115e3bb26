/*
 * memory_plan — checks with a dry run (dry_run.h) whether a run fits into device memory, and
 * suggests settings that need less.
 */
#ifndef MILLRACE_TRAINER_PLAN_MEMORY_PLAN_H
#define MILLRACE_TRAINER_PLAN_MEMORY_PLAN_H

#include "trainer/plan/dry_run.h"

struct run;

/* Device memory used beyond explicit allocations, for example by kernels loaded on first use. */
enum { MEMORY_PLAN_SPARE_BYTES = 64 << 20 };

static inline uint64_t memory_plan_required_bytes(uint64_t device_bytes)
{
    return device_bytes + MEMORY_PLAN_SPARE_BYTES;
}

/* -ENOMEM if the run needs more device memory than is free or already allocated; the error lists
 * what other settings would save. Returns 0 if device memory is host memory. */
int memory_plan_check(const struct trainer_dry_run_options *options, struct device *device,
                      struct err *err);
/* A run_memory_check (run.h). */
int memory_plan_check_run(const struct run *run, bool is_training, struct err *err);

#endif
