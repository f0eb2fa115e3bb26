/*
 * plan — the micro-batches of one rank, in order, over the epochs: pure arithmetic.
 *
 * A step covers the positions [begin, end) of its global batch. It has fewer positions where the
 * epoch ends (if the tail is kept), where a run starts in the middle of a step, and where
 * positions_max cuts it. Every rank sees the same steps.
 */
#ifndef MILLRACE_LOADER_PARTS_PLAN_H
#define MILLRACE_LOADER_PARTS_PLAN_H

#include "sampler/sampler.h"

/* Owner thread; by value. */
struct plan {
    struct batching batching;
    uint64_t samples; /* per epoch */
    /* positions that an epoch delivers: excludes a dropped tail */
    uint64_t epoch_end;
    uint64_t positions_left, epochs_left; /* UINT64_MAX: no limit */
    uint32_t epoch;
    uint64_t position; /* start of the current step */
    uint64_t owned;    /* this rank's next micro-batch in it */
};

struct plan_micro {
    uint32_t epoch;
    uint64_t step, micro; /* t, j */
    uint64_t begin, end;  /* positions of the step that are delivered */
    bool last_of_step;    /* the last of this rank */
    uint32_t next_epoch;  /* where the run is after this step */
    uint64_t next_position;
};

struct plan_options {
    struct batching batching;
    uint64_t samples;
    bool drop_tail;
    uint32_t epoch;
    uint64_t position, positions_max, epochs_max; /* as in loader_options */
};

/* -EINVAL with detail: inconsistent batching, a position beyond the epoch, an epoch without a
 * single complete step. */
int plan_init(struct plan *plan, const struct plan_options *options, struct err *err);
uint64_t plan_steps(const struct plan *plan);                    /* per epoch */
bool plan_next(struct plan *plan, struct plan_micro *ret_micro); /* false: no more */

/* The micro-batch's items have the positions first, first + stride, ... below its end. Returns
 * their number. */
uint32_t plan_items(const struct plan *plan, const struct plan_micro *micro, uint64_t *ret_first,
                    uint64_t *ret_stride);

#endif
