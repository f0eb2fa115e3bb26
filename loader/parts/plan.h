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
    enum order_kind order;
    uint64_t samples;                     /* per epoch */
    uint64_t epoch_end;                   /* without a dropped tail, with padding */
    uint64_t positions_left, epochs_left; /* UINT64_MAX: no limit */
    uint32_t epoch;
    uint64_t position;    /* start of the current step */
    uint64_t micros_done; /* of the current step, before this plan */
    uint64_t next_owned;  /* index of this rank's next micro-batch among the rest */
};

struct plan_micro {
    uint32_t epoch;
    uint64_t step, micro; /* t and j in docs/reference/order.md; j = M: empty */
    uint64_t begin, end;  /* delivered positions of the step */
    bool last_of_step;    /* this rank's last micro-batch of the step */
    /* Where a run resumes once each rank has delivered as many micro-batches. If false, because
     * what is delivered is not the beginning of the step or positions_max cuts it, the others are
     * meaningless. */
    bool is_resumable;
    uint32_t next_epoch;
    uint64_t next_position, next_micros_done;
};

struct plan_options {
    struct batching batching;
    enum order_kind order;
    uint64_t samples;
    bool drop_last, pad_last; /* not both */
    uint32_t epoch;
    uint64_t position, micros_done, positions_max, epochs_max; /* as in loader_options */
};

/* -EINVAL with detail: inconsistent batching, a position beyond the epoch, a step whose
 * micro-batches are all done, or no complete step in an epoch. */
int plan_init(struct plan *plan, const struct plan_options *options, struct err *err);
uint64_t plan_steps(const struct plan *plan);                    /* per epoch */
bool plan_next(struct plan *plan, struct plan_micro *ret_micro); /* false: no more */

/* Returns the micro-batch's number of items. Their positions are first, first + stride, ...,
 * below its end. */
uint32_t plan_item_positions(const struct plan *plan, const struct plan_micro *micro,
                             uint64_t *ret_first, uint64_t *ret_stride);

#endif
