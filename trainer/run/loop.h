/*
 * loop — executes a run's steps, and the reports, evaluations and saves that follow them.
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

/* Counter values at the last progress line. */
struct counter_baseline {
    uint64_t samples_count, valid_count; /* of run->queue.window */
    uint64_t data_wait_ns, checkpoint_wait_ns;
    struct category_times device_times;
};

struct pending_save {
    bool in_flight;
    uint64_t step;
};

/* Zero before loop_open. Owner thread. */
struct loop {
    struct run *run; /* borrowed */
    struct counter_baseline baseline;
    struct device_metrics device_metrics;
    struct pending_save pending_save;
    struct profile profile;
    struct stop_monitor stop_monitor;
    uint64_t began_ns, began_step; /* for estimating the remaining time */
};

/* Requires initialized triggers. Call loop_close even after a failure. */
int loop_open(struct loop *loop, struct run *run, struct err *err);
void loop_close(struct loop *loop);
/* Runs until the last step, a stop, or a change of the batch size; then saves. */
int loop_run(struct loop *loop, struct err *err);
bool loop_evaluation_is_due(const struct run *run);

#endif
