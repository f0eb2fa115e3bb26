/*
 * loop — the steps of a run, and the reports, evaluations and saves that follow them.
 *
 *     loop_open(&loop, &run, err);
 *     loop_run(&loop, err);
 *     loop_close(&loop);
 */
#ifndef MILLRACE_TRAINER_RUN_LOOP_H
#define MILLRACE_TRAINER_RUN_LOOP_H

#include "trainer/report/device_metrics.h"
#include "trainer/run/profile.h"
#include "trainer/run/run.h"
#include "trainer/run/stop_monitor.h"

/* Counters when the clock of the current progress line started. */
struct window {
    uint64_t samples_count, valid_count; /* of run->queue.window */
    uint64_t data_wait_ns, checkpoint_wait_ns;
    struct time_spent device_spent;
};

/* The newest save. */
struct saving {
    bool in_flight;
    uint64_t step;
};

/* Zero before loop_open. Owner thread. */
struct loop {
    struct run *run; /* borrowed */
    struct window window;
    struct device_metrics metrics;
    struct saving saving;
    struct profile profile;
    struct stop_monitor stop_monitor;
    uint64_t began_ns, began_step; /* to estimate the remaining time */
};

/* The run's triggers must be initialized. loop_close is needed after a failure, too. */
int loop_open(struct loop *loop, struct run *run, struct err *err);
void loop_close(struct loop *loop);
/* Makes steps until the run ends, is stopped, or its batch changes; then saves. */
int loop_run(struct loop *loop, struct err *err);
/* Whether an evaluation follows the run's current step and is not done yet. */
bool loop_evaluation_is_due(const struct run *run);

#endif
