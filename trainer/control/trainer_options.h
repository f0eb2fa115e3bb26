/*
 * trainer_options — the inputs of a run. See trainer.h.
 */
#ifndef MILLRACE_TRAINER_CONTROL_TRAINER_OPTIONS_H
#define MILLRACE_TRAINER_CONTROL_TRAINER_OPTIONS_H

#include "base/log.h"
#include "comm/comm.h"
#include "io/io.h"
#include "trainer/config/config.h"
#include "trainer/report/report.h"

#include <stdatomic.h>
#include <stdint.h>

struct trace;

/* Numbered from 1; 0: none. */
struct trainer_steps {
    uint64_t first, last;
};

struct trainer_options {
    /* The run resolves its batch.accumulation. */
    const struct train_config *config;
    /* Connects the run's ranks, which all make the same calls; borrowed. NULL: a single rank. */
    struct comm *comm;
    /* Index of this rank among those of its machine; selects a GPU. -1: unknown, treated as 0. */
    int local_rank;
    enum config_resume_mode resume;
    const char *resume_path; /* CONFIG_RESUME_PATH: a step, a folder of steps, or a run folder */
    struct io *io;
    uint64_t began_ns;                /* program start (clock_now_ns), for run.max_time; 0: now */
    uint64_t before_ns;               /* part of run.max_time used by earlier attempts */
    atomic_int *stop;                 /* non-zero: save and return; NULL: never */
    const atomic_uint *stop_requests; /* number of stop requests; NULL: unknown */
    struct trainer_steps profile;     /* steps to measure */
    /* Borrowed; receives this rank's trace of the steps in `profile`. The traces of all ranks are
     * written to trace-FIRST-LAST.json in the run's folder. NULL: no trace. */
    struct trace *trace;
    const struct log *log;
    /* Called on the first rank; on other ranks only for their own failures. */
    void (*report)(void *context, const struct trainer_report *report);
    void *report_context;
};

#endif
