/*
 * memory_need — what a run takes of its device's memory, told before it takes any; and what would take less.
 */
#ifndef MILLRACE_TRAINER_MEMORY_NEED_H
#define MILLRACE_TRAINER_MEMORY_NEED_H

#include "base/err.h"
#include "trainer/feed.h"
#include "trainer/model.h"
#include "trainer/optimizer.h"
#include "trainer/reduction.h"
#include "trainer/weights.h"

#include <stdbool.h>
#include <stdint.h>

/* Bytes that a run takes once its model is open, whose plans have theirs already. What the device takes for itself is left out, as kernels
 * that it loads when they are first used: see MEMORY_NEED_SPARE_BYTES. */
struct memory_need {
    uint64_t weights;         /* master type, the copy in the compute type, and what is gathered of them */
    uint64_t gradients;       /* leaves and sums */
    uint64_t gradients_count; /* buffers of all of them */
    uint64_t moments;
    uint64_t
        offloadable; /* moments, and weights that the optimizer alone uses, where they are on the device */
    uint32_t ranks;
    uint64_t activations; /* of one micro-batch */
    uint64_t batches;     /* micro-batches on the device, their losses, and what the update works in */
    uint64_t total;       /* with the spare */
    uint64_t pinned;      /* of the host's memory: what is offloaded, and on its way to other ranks */
};

enum { MEMORY_NEED_SPARE_BYTES = 64 << 20 };

/* reduction and optimizer: NULL of an evaluation, which has no gradients and moments. feed: what feeds the batches. */
struct memory_need memory_need_of(const struct model *model, const struct model_stage *stage,
                                  const struct weights_options *weights,
                                  const struct reduction_options *reduction,
                                  const struct optimizer_options *optimizer, const struct feed_options *feed);

/* -ENOMEM where the device has less memory free, with what is needed, and how much a smaller micro-batch, recomputing and offloading would
 * save. items: of a micro-batch. Where device memory is the host's nobody can tell, and it is 0. */
int memory_need_check(const struct memory_need *need, const struct model *model,
                      const struct model_stage *stage, struct ops *ops, uint64_t items, struct err *err);

#endif
