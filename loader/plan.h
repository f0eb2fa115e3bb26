/*
 * plan — the micro-batches of one rank, in order, over the epochs: pure arithmetic.
 *
 * A step covers the positions [begin, end): all of its global batch, fewer where the epoch ends
 * (and its tail is kept), where the run starts in the middle of a step or where positions_max cuts
 * one. Every rank sees the same steps.
 */
#ifndef MILLRACE_LOADER_PLAN_H
#define MILLRACE_LOADER_PLAN_H

#include "sampler/sampler.h"

/* Owner thread; by value. */
struct plan {
    struct batching batching;
    uint64_t samples; /* an epoch */
    uint64_t
        epoch_end; /* positions that an epoch delivers: without the tail where that is dropped */
    uint64_t positions_left, epochs_left; /* UINT64_MAX: no limit */
    uint32_t epoch;
    uint64_t position; /* where the current step begins */
    uint64_t owned;    /* the next of this rank's micro-batches in it */
};

struct plan_micro {
    uint32_t epoch;
    uint64_t step, micro; /* t, j */
    uint64_t begin, end;  /* the positions of the step that are delivered */
    bool last_of_step;    /* of this rank's */
    uint32_t next_epoch;  /* where a run stands once the step is done */
    uint64_t next_position;
};

struct plan_options {
    struct batching batching;
    uint64_t samples;
    bool drop_tail;
    uint32_t epoch;
    uint64_t position, positions_max, epochs_max; /* as in loader_options */
};

/* -EINVAL with detail: batching that does not fit, a position beyond the epoch, an epoch without a
 * single whole step. */
int plan_init(struct plan *plan, const struct plan_options *options, struct err *err);
uint64_t plan_steps(const struct plan *plan);                    /* an epoch */
bool plan_next(struct plan *plan, struct plan_micro *ret_micro); /* false: nothing is left */

/* The positions of the micro-batch's items lie at first, first + stride, ... below its end; returns
 * how many. */
uint32_t plan_items(const struct plan *plan, const struct plan_micro *micro, uint64_t *ret_first,
                    uint64_t *ret_stride);

#endif
