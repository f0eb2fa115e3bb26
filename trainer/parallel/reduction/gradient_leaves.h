/*
 * gradient_leaves — memory for the gradients of a few groups at a time. Used when gradients are
 * exchanged after each micro-batch, so that no rank ever holds those of all groups.
 *
 *     gradient_leaves_acquire(&leaves, group, &memory, err);     // before a pass writes them
 *     memory = gradient_leaves_release(&leaves, group);  // they are final, and about to be sent
 *
 * Memory is reused only after its gradients have been sent: take blocks for that.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_GRADIENT_LEAVES_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_GRADIENT_LEAVES_H

#include "base/err.h"
#include "trainer/ops/ops.h"
#include "trainer/parallel/partition.h"
#include "trainer/parallel/reduction/bucket_exchange.h"

#include <stdbool.h>
#include <stdint.h>

/* Groups of gradients in memory at a time, being written or sent: a tied one, another, and one in
 * transit. */
enum { GRADIENT_LEAVES_COUNT = 3 };

/* Owner thread. Owns device memory of the ops, master type. */
struct gradient_leaves {
    struct ops *ops;
    const struct partition *partition; /* borrowed, like the exchange */
    struct bucket_exchange *exchange;
    struct leaf {
        void *memory;   /* of the largest group */
        uint64_t group; /* of the gradients it holds or held */
        uint64_t turn;  /* number of the take that last used it; 0: none */
        bool is_taken;  /* being written */
    } list[GRADIENT_LEAVES_COUNT];
    uint64_t turns;
};

/* The caller sets the exchange before the first take. */
int gradient_leaves_init(struct gradient_leaves *leaves, struct ops *ops,
                         const struct partition *partition, struct err *err);
/* Safe on zeroed leaves. is_idle: none is being sent; otherwise the memory stays allocated until
 * the process exits (comm.h). */
void gradient_leaves_deinit(struct gradient_leaves *leaves, bool is_idle);
uint64_t gradient_leaves_elements(const struct partition *partition);

/* Blocks. The padding is zero; the rest is undefined. */
int gradient_leaves_acquire(struct gradient_leaves *leaves, uint64_t group, void **ret_memory,
                            struct err *err);
void *gradient_leaves_release(struct gradient_leaves *leaves, uint64_t group);

#endif
