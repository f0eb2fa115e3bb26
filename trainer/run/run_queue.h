/*
 * run_queue — queued steps, whose results the host reads later.
 *
 * The host does not wait for a step. Its result is copied, after the step, to its own slot in
 * pinned memory. The host reads it when QUEUED_STEPS_MAX steps are queued or when it is needed: for
 * a progress line, an evaluation, a checkpoint, the end. If device memory is host memory, a step is
 * done when it is queued, and is read at once.
 */
#ifndef MILLRACE_TRAINER_RUN_RUN_QUEUE_H
#define MILLRACE_TRAINER_RUN_RUN_QUEUE_H

#include "base/numeric/exact_sum.h"
#include "trainer/models/model.h"
#include "trainer/ops/time_parts.h"
#include "trainer/ops/update_gate.h"

#include <assert.h>

/* Totals over one or more steps. Exact, hence independent of the number of ranks. */
struct step_totals {
    struct exact_sum losses; /* nats, over valid items */
    uint64_t valid_count;    /* items (tokens, for text) with a target */
    uint64_t correct_count;
    uint64_t samples_count;
    double gradient_norm; /* of the last step; norm of the mean loss's gradient before clipping */
    double lr;
};

/* Sums over ranks, exact integers. In device memory while they accumulate. */
struct step_sums {
    int64_t valid_count, correct_count, samples_count;
    int64_t bad_count;  /* bad samples since the data was opened */
    int64_t stop, save; /* ranks that request it */
    int64_t saving;     /* ranks with a save in progress */
    struct exact_sum losses, squares;
};

enum { STEP_SUMS_WORDS = 7 + 2 * EXACT_SUM_WORDS };

static_assert(sizeof(struct step_sums) == STEP_SUMS_WORDS * sizeof(int64_t),
              "words without padding");

/* In device memory during the step: the accumulated sums, and the update gate they set. */
struct step_record {
    struct step_sums words;
    struct update_gate gate;
    /* Device time since the run began; only if the ops measure it. */
    struct time_parts times;
};

/* A queued step whose result the host has not read yet. */
struct queued_step {
    uint64_t step; /* from 1 */
    int64_t valid_count, samples_count;
    struct step_record *record; /* pinned; the device's result, valid after `ended` */
    struct device_event *ended;
};

enum { QUEUED_STEPS_MAX = UPDATE_GATE_AHEAD_MAX + 1 };

/* Zero before run_queue_open. Owner thread. */
struct run_queue {
    struct ops *ops;                            /* borrowed */
    struct step_record *device_record;          /* of the newest step */
    struct step_record *host_records;           /* pinned, by slot */
    struct step_sums *host_sums;                /* pinned */
    struct queued_step steps[QUEUED_STEPS_MAX]; /* a ring: step n is n % QUEUED_STEPS_MAX */
    uint64_t count, newest;                     /* queued steps; the last one's number */
    /* Totals of finished steps since the last progress line. Checkpoints store the parts of its
     * loss. */
    struct step_totals window;
    struct time_spent device_spent; /* device time of all finished steps */
};

/* run_queue_close is safe on a zeroed one. */
int run_queue_open(struct run_queue *queue, struct ops *ops, struct err *err);
void run_queue_close(struct run_queue *queue);
/* Gives the device the scaler and the update count to continue from. */
int run_queue_begin(struct run_queue *queue, const struct scaler *scaler, uint64_t updates_count,
                    struct err *err);

/* The sums of a step or an evaluation in device memory: zeroes them; queues adding a pass's losses
 * and hits, of `rows` items; reads them, which blocks until the device has done all queued work;
 * replaces them. */
int run_queue_zero_sums(struct run_queue *queue, struct err *err);
void run_queue_add_result(struct run_queue *queue, const struct model_result *result,
                          uint64_t rows);
int run_queue_read_sums(struct run_queue *queue, struct step_sums *ret_words, struct err *err);
int run_queue_write_sums(struct run_queue *queue, const struct step_sums *words, struct err *err);

/* Appends the step just queued on the device. counts: valid items and samples of all ranks. */
int run_queue_push(struct run_queue *queue, uint64_t step, const struct step_sums *counts,
                   struct err *err);
/* Removes the oldest step, once it is done. */
int run_queue_pop(struct run_queue *queue, const struct queued_step **ret_oldest, struct err *err);

#endif
