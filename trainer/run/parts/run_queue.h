/*
 * run_queue — queued steps, whose results the host reads later.
 *
 * Each step's result is copied to its own slot in pinned memory. The host reads it when
 * QUEUED_STEPS_MAX steps are queued, when a report, evaluation, checkpoint or the end of the run
 * needs it, or immediately if device memory is host memory.
 */
#ifndef MILLRACE_TRAINER_RUN_RUN_QUEUE_H
#define MILLRACE_TRAINER_RUN_RUN_QUEUE_H

#include "base/numeric/exact_sum.h"
#include "trainer/models/model.h"
#include "trainer/ops/category_timer.h"
#include "trainer/ops/gradient_clip.h"

#include <assert.h>

/* Exact totals over steps, hence independent of the number of ranks. */
struct step_totals {
    struct exact_sum losses; /* nats */
    uint64_t valid_count;    /* items (tokens, for text) with a target */
    uint64_t samples_count;
    double gradient_norm; /* of the last step's mean loss, before clipping */
    double lr;
};

/* Exact sums over ranks. In device memory while they accumulate. */
struct step_sums {
    int64_t valid_count, correct_count, samples_count;
    int64_t bad_count;                                       /* since the data was opened */
    int64_t stop_requests, save_requests, saves_in_progress; /* number of ranks */
    struct exact_sum losses, squares;
};

enum { STEP_SUMS_WORDS = 7 + 2 * EXACT_SUM_WORDS };

static_assert(sizeof(struct step_sums) == STEP_SUMS_WORDS * sizeof(int64_t),
              "words without padding");

/* A step's sums, and the clipping derived from them; in device memory during the step. */
struct step_record {
    struct step_sums sums;
    struct gradient_clip clip;
    /* Device time since the run began, if the ops measure it. */
    struct category_timer timer;
};

struct queued_step {
    uint64_t step;
    int64_t valid_count, samples_count;
    struct step_record *record; /* pinned; the device's result, valid after done_event */
    struct device_event *done_event;
};

enum { QUEUED_STEPS_MAX = UNREAD_STEPS_MAX + 1 };

/* Zero before run_queue_open. Owner thread. */
struct run_queue {
    struct ops *ops;                            /* borrowed */
    struct step_record *device_record;          /* of the newest step */
    struct step_record *host_records;           /* pinned, by slot */
    struct step_sums *host_sums;                /* pinned */
    struct queued_step steps[QUEUED_STEPS_MAX]; /* ring buffer: step n is at n % QUEUED_STEPS_MAX */
    uint64_t count, newest_step;        /* number of queued steps; the newest step's number */
    struct step_totals window;          /* finished steps since the last progress line */
    struct category_times device_times; /* device time of all finished steps */
};

/* run_queue_close is safe on a zeroed queue. */
int run_queue_open(struct run_queue *queue, struct ops *ops, struct err *err);
void run_queue_close(struct run_queue *queue);
int run_queue_init_clip(struct run_queue *queue, const struct scaler *scaler,
                        uint64_t updates_count, struct err *err);

/* run_queue_add_result queues an addition; run_queue_read_sums blocks until the device is idle. */
int run_queue_zero_sums(struct run_queue *queue, struct err *err);
void run_queue_add_result(struct run_queue *queue, const struct model_result *result,
                          uint64_t rows);
int run_queue_read_sums(struct run_queue *queue, struct step_sums *ret_sums, struct err *err);
int run_queue_write_sums(struct run_queue *queue, const struct step_sums *sums, struct err *err);

/* counts: of all ranks. */
int run_queue_push(struct run_queue *queue, uint64_t step, const struct step_sums *counts,
                   struct err *err);
/* Blocks until the oldest step is done. */
int run_queue_pop(struct run_queue *queue, const struct queued_step **ret_oldest, struct err *err);

#endif
