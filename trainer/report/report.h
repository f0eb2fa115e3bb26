/*
 * report — what a run tells its owner while it runs: events, with the numbers of a progress line.
 */
#ifndef MILLRACE_TRAINER_REPORT_REPORT_H
#define MILLRACE_TRAINER_REPORT_REPORT_H

#include "trainer/ops/time_parts.h"
#include "trainer/report/usage.h"

#include <stdbool.h>
#include <stdint.h>

enum trainer_event {
    TRAINER_STARTED, /* text: what is about to run, a few lines, one a call */
    TRAINER_STEP,    /* each log.every steps */
    TRAINER_EVALUATED,
    TRAINER_SAVED,       /* a checkpoint became durable */
    TRAINER_SAVE_FAILED, /* text says why; the run goes on */
    TRAINER_STEPPED,     /* step of steps, after each; a device may be two steps behind */
    TRAINER_EVALUATING,  /* done of all, after each micro-batch of an evaluation */
    TRAINER_USED, /* at the end of the run, for each rank: usage tells what it took and moved */
    /* Both come from a thread of the run's own. text: what a request to stop waits for; that
     * run.stop_deadline passed, on which the owner ends the program, for the run may never end. */
    TRAINER_STOPPING,
    TRAINER_STOP_LATE,
    /* of several ranks this one ends the run, as text says; the others are told next */
    TRAINER_FAILED,
};

/* Of TRAINER_STEP: the machine of this rank when the line was made. What is not known there, or is
 * not there, is 0. */
struct trainer_device_metrics {
    double flops_per_second; /* of the model's products on this device, since the last report */
    double peak_share;       /* the same as a part of the device's peak (device/peak.h) */
    double
        utilization_share; /* of the device, by its driver: 0..1; below 0 where it is not known */
    uint64_t device_used_bytes; /* of its memory by this run */
    uint64_t
        /* by all that use it: this run, what the driver keeps for it, other programs */
        device_taken_bytes;
    uint64_t process_bytes; /* of the host's memory */
};

/* Fields not of the event are 0. Sums are over the whole global batch. */
struct trainer_report {
    enum trainer_event event;
    const char *text;     /* lives during the call */
    uint64_t step, steps; /* finished, of all */
    uint64_t done, all;   /* TRAINER_EVALUATING: samples, or windows of text, of all ranks */
    uint32_t epoch;       /* of the samples of that step, from 0 */
    double
        loss; /* mean over valid items since the last report, nats; of validation where evaluated */
    double accuracy; /* top-1 where evaluated, 0..1 */
    double lr, gradient_norm;
    double samples_per_second, tokens_per_second;
    double data_wait_share, checkpoint_wait_share; /* of the time since the last report, 0..1 */
    double remaining_seconds;
    struct time_spent
        /* of this rank since the last report: what of it is training adds up to elapsed_seconds */
        time;
    double elapsed_seconds;
    /* Where the device queues: how long it had forward, backward, reduce and update to do since the
     * last report, by its own clock; it may have waited for other ranks in them. */
    struct time_spent device_time;
    bool
        /* the device is not the host: time has TIME_QUEUE and TIME_DEVICE for what is computed */
        queues;
    struct trainer_device_metrics metrics;
    int rank; /* TRAINER_USED, as is what follows; lives during the call */
    const struct usage *usage;
};

#endif
