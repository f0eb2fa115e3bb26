/*
 * profile — measures and traces the steps selected by --profile, and has an attached profiler
 * record them. Drains earlier steps before it starts, and all profiled steps before it ends.
 */
#ifndef MILLRACE_TRAINER_RUN_PROFILE_H
#define MILLRACE_TRAINER_RUN_PROFILE_H

#include "trainer/run/run.h"

/* Zero initially, except for run. Owner thread. */
struct profile {
    struct run *run;
    struct trainer_steps made; /* last is 0 while profiling */
    uint64_t began_ns, ns;
    char trace[IO_PATH_BYTES_MAX]; /* the file written; "": none */
};

/* Call before the first step. Adds trace tracks for the run's threads. */
void profile_open(struct profile *profile);
/* Call before each step. */
int profile_begin(struct profile *profile, struct err *err);
/* Call after each step and the work that follows it. Collective after the last profiled step. */
int profile_end(struct profile *profile, bool is_end, struct err *err);
/* Call after a failed step too, so that an attached profiler keeps its recording. */
void profile_stop(struct profile *profile);

#endif
