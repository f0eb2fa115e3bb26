/*
 * trainer_options — what a run is given. See trainer.h.
 */
#ifndef MILLRACE_TRAINER_RUN_TRAINER_OPTIONS_H
#define MILLRACE_TRAINER_RUN_TRAINER_OPTIONS_H

#include "base/log.h"
#include "comm/comm.h"
#include "io/io.h"
#include "trainer/config/config.h"
#include "trainer/report/report.h"

#include <stdatomic.h>
#include <stdint.h>

struct trace;

/* Steps, the first being 1; 0: none. */
struct trainer_steps {
    uint64_t first, last;
};

struct trainer_options {
    const struct train_config
        *config; /* what its batch.accumulation stands for is found out by the run */
    struct comm
        *comm; /* the ranks of the run, each of which makes the same calls; borrowed. NULL: alone */
    /* this one's place among those of its machine, by which it takes a GPU; -1: nobody says, which
     * is the first */
    int local_rank;
    enum config_resume resume;
    const char *resume_path; /* CONFIG_RESUME_PATH: a step, a folder of steps, or of a run */
    struct io *io;
    uint64_t began_ns;  /* by clock_now_ns, when the program began, for run.max_time; 0: now */
    uint64_t before_ns; /* what of run.max_time had passed by then, in earlier attempts */
    atomic_int *stop;   /* non-zero: save and return; NULL: never */
    const atomic_uint *stop_asks; /* how often that was asked for; NULL: not known */
    struct trainer_steps profile; /* measured by range, and told to a profiler that is attached */
    /* Of this rank, borrowed: all threads of the run add what they do in the steps of profile, and
     * it is written, with those of all ranks, to trace-FIRST-LAST.json in the run's folder. NULL:
     * none. */
    struct trace *trace;
    const struct log *log;
    /* On the first rank; on others only of failures that are their own. */
    void (*report)(void *context, const struct trainer_report *report);
    void *report_context;
};

#endif
