/*
 * report — events that a run reports to its owner, with the numbers of a progress line.
 */
#ifndef MILLRACE_TRAINER_REPORT_REPORT_H
#define MILLRACE_TRAINER_REPORT_REPORT_H

#include "trainer/ops/time_parts.h"
#include "trainer/report/usage.h"

#include <stdbool.h>
#include <stdint.h>

enum trainer_event {
    TRAINER_STARTED, /* text: a line of the startup summary, one per call */
    TRAINER_STEP,    /* each log.every steps */
    TRAINER_EVALUATED,
    TRAINER_SAVED,       /* a checkpoint is durable */
    TRAINER_SAVE_FAILED, /* text: the reason; the run continues */
    TRAINER_STEPPED,     /* after each step; a device may be two steps behind */
    TRAINER_EVALUATING,  /* after each micro-batch of an evaluation */
    TRAINER_USAGE,       /* for each rank at the end of the run: its usage */
    /* Both come from a separate thread. text: what a stop request waits for; that run.stop_deadline
     * has passed. The owner then ends the program, since the run may never end. */
    TRAINER_STOPPING,
    TRAINER_STOP_LATE,
    /* this one of several ranks ends the run for the reason in text; others are notified next */
    TRAINER_FAILED,
};

/* This rank's device and process at a TRAINER_STEP. Unknown or unavailable values are 0. */
struct trainer_device_metrics {
    double flops_per_second; /* of the model's products on this device since the last report */
    double peak_share;       /* the same as a fraction of the device's peak (device/peak.h) */
    /* Of the device, from its driver: 0..1; negative if unknown. */
    double utilization_share;
    uint64_t device_used_bytes; /* device memory used by this run */
    /* Device memory used by all: this run, the driver on its behalf, other programs. */
    uint64_t device_taken_bytes;
    uint64_t process_bytes; /* host memory */
};

/* Fields that do not apply to the event are 0. Sums are over the whole global batch. */
struct trainer_report {
    enum trainer_event event;
    const char *text;     /* valid during the call */
    uint64_t step, steps; /* finished, total */
    /* TRAINER_EVALUATING: finished and total samples, or windows of text, of all ranks */
    uint64_t done, all;
    uint32_t epoch; /* of that step's samples, from 0 */
    /* Mean over valid items since the last report, nats; for evaluations, over the validation
     * set. */
    double loss;
    double accuracy; /* top-1 of an evaluation, 0..1 */
    double lr, gradient_norm;
    double samples_per_second, tokens_per_second;
    /* fractions of the time since the last report, 0..1 */
    double data_wait_share, checkpoint_wait_share;
    double remaining_seconds;
    /* Of this rank since the last report; its training parts add up to elapsed_seconds. */
    struct time_spent time;
    double elapsed_seconds;
    /* If the device queues work: its own time in forward, backward, reduce and update since the
     * last report. It may include waiting for other ranks. */
    struct time_spent device_time;
    /* The device is not the host: time has TIME_QUEUE and TIME_DEVICE for computation. */
    bool queues;
    struct trainer_device_metrics metrics;
    int rank; /* for TRAINER_USAGE, as is usage, which is valid during the call */
    const struct usage *usage;
};

#endif
