/*
 * profile — measures and traces the steps selected by --profile, and limits an attached profiler to
 * them. Drains the device before the first and after the last selected step.
 */
#ifndef MILLRACE_TRAINER_RUN_PROFILE_H
#define MILLRACE_TRAINER_RUN_PROFILE_H

#include "trainer/run/run.h"

/* Zero initially, except for run. Owner thread. */
struct profile {
    struct run *run;
    struct trainer_steps profiled_steps; /* last is 0 while profiling */
    uint64_t began_ns, duration_ns;
    char trace_path[IO_PATH_BYTES_MAX]; /* the file written; "": none */
};

/* Call before the first step. Adds trace tracks for the run's threads. */
void profile_open(struct profile *profile);
int profile_before_step(struct profile *profile, struct err *err);
/* Call after the work that follows a step. Collective after the last profiled step. */
int profile_after_step(struct profile *profile, bool is_end, struct err *err);
/* Call after a failed step too, so that an attached profiler keeps its recording. */
void profile_stop(struct profile *profile);

#endif
