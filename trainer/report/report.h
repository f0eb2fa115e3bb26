/*
 * report — the events that a run reports to its owner.
 */
#ifndef MILLRACE_TRAINER_REPORT_REPORT_H
#define MILLRACE_TRAINER_REPORT_REPORT_H

#include "trainer/ops/category_timer.h"
#include "trainer/report/usage.h"

#include <stdbool.h>
#include <stdint.h>

enum trainer_event {
    TRAINER_STARTED,  /* text: a line of the startup summary */
    TRAINER_PROGRESS, /* every log.every steps */
    TRAINER_EVALUATED,
    TRAINER_SAVED,       /* a checkpoint is durable */
    TRAINER_SAVE_FAILED, /* text: the reason */
    TRAINER_STEP_QUEUED, /* the device may be two steps behind */
    TRAINER_EVALUATING,  /* after each micro-batch of an evaluation */
    TRAINER_USAGE,       /* for each rank at the end of the run */
    /* From a separate thread. text: what delays the stop, or an error. After TRAINER_STOP_LATE the
     * owner ends the program. */
    TRAINER_STOPPING,
    TRAINER_STOP_LATE,
    TRAINER_FAILED, /* text: why this rank ends the run; sent before it notifies other ranks */
};

/* This rank's device and process. Unknown values are 0 unless noted. */
struct trainer_device_metrics {
    double flops_per_second;     /* of the model's matrix products since the last report */
    double peak_share;           /* relative to the device's peak (device/peak.h) */
    double utilization_share;    /* from the driver: 0..1; negative if unknown */
    uint64_t device_used_bytes;  /* allocated by this run */
    uint64_t device_taken_bytes; /* including the driver and other programs */
    uint64_t process_bytes;      /* host memory */
};

/* Fields that do not apply to the event are 0. Sums cover the global batch. */
struct trainer_report {
    enum trainer_event event;
    const char *text;     /* valid during the call */
    uint64_t step, steps; /* finished, total */
    /* TRAINER_EVALUATING: samples, or windows of text, of all ranks */
    uint64_t done_count, total_count;
    uint32_t epoch; /* of that step's samples, from 0 */
    /* Mean over valid items, nats: since the last report, or over the validation set. */
    double loss;
    double accuracy; /* top-1 of an evaluation, 0..1 */
    double lr, gradient_norm;
    double samples_per_second, tokens_per_second;
    /* fractions of the time since the last report, 0..1 */
    double data_wait_share, checkpoint_wait_share;
    double remaining_seconds;
    /* Of this rank since the last report; its training categories add up to elapsed_seconds. */
    struct category_times time;
    double elapsed_seconds;
    /* If is_async: forward, backward, reduce and update, including waits for other ranks. */
    struct category_times device_time;
    /* The device queues work: `time` counts its computation as TIME_QUEUE and TIME_DEVICE. */
    bool is_async;
    struct trainer_device_metrics metrics;
    int rank; /* TRAINER_USAGE: the rank, and its usage, valid during the call */
    const struct usage *usage;
};

#endif
