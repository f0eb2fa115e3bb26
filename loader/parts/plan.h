/*
 * plan — the sequence of one rank's micro-batches over all epochs. Pure arithmetic.
 *
 * A step covers the positions [begin, end) of its global batch. The start of the run,
 * positions_max or the end of an epoch (if the tail is kept) can shorten a step. All ranks see the
 * same steps.
 */
#ifndef MILLRACE_LOADER_PARTS_PLAN_H
#define MILLRACE_LOADER_PARTS_PLAN_H

#include "sampler/sampler.h"

struct plan {
    struct batching batching;
    uint64_t samples;                     /* per epoch */
    uint64_t epoch_end;                   /* excludes a dropped tail */
    uint64_t positions_left, epochs_left; /* UINT64_MAX: no limit */
    uint32_t epoch;
    uint64_t position;   /* start of the current step */
    uint64_t next_owned; /* index of this rank's next micro-batch */
};

struct plan_micro {
    uint32_t epoch;
    uint64_t step, micro; /* t and j in docs/reference/order.md */
    uint64_t begin, end;  /* delivered positions of the step */
    bool last_of_step;    /* this rank's last micro-batch of the step */
    uint32_t next_epoch;  /* epoch of the step after this one */
    uint64_t next_position;
};

struct plan_options {
    struct batching batching;
    uint64_t samples;
    bool drop_last;
    uint32_t epoch;
    uint64_t position, positions_max, epochs_max; /* as in loader_options */
};

/* -EINVAL with detail: inconsistent batching, a position beyond the epoch, or no complete step
 * in an epoch. */
int plan_init(struct plan *plan, const struct plan_options *options, struct err *err);
uint64_t plan_steps(const struct plan *plan);                    /* per epoch */
bool plan_next(struct plan *plan, struct plan_micro *ret_micro); /* false: no more */

/* Returns the micro-batch's number of items. Their positions are first, first + stride, ...,
 * below its end. */
uint32_t plan_item_positions(const struct plan *plan, const struct plan_micro *micro,
                             uint64_t *ret_first, uint64_t *ret_stride);

#endif
