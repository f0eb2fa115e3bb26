/*
 * profile — the steps that --profile names: measured by range, told to a profiler that is attached,
 * and traced.
 *
 * Steps that were queued before the first are none of it, and those of it are done before it ends.
 */
#ifndef MILLRACE_TRAINER_RUN_PROFILE_H
#define MILLRACE_TRAINER_RUN_PROFILE_H

#include "trainer/run/run.h"

/* Zero at first but for run. Owner thread. */
struct profile {
    struct run *run;
    struct trainer_steps made; /* last is 0 while they are made */
    uint64_t began_ns, ns;
    char trace[IO_PATH_BYTES_MAX]; /* the file that was written; "": none */
};

/* Before the first step: gives the run's threads that are its own their tracks. */
void profile_open(struct profile *profile);
/* Before each step. */
int profile_begin(struct profile *profile, struct err *err);
/* After each step and what followed from it; collective where that was the last one. */
int profile_end(struct profile *profile, bool is_end, struct err *err);
/* Where a step fails too: a profiler that is attached then has what it was told to. */
void profile_stop(struct profile *profile);

#endif
