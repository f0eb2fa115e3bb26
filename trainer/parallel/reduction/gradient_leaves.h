/*
 * gradient_leaves — memory for the gradients of a few groups, used when gradients are exchanged
 * after each micro-batch and no rank holds all of them.
 *
 *     gradient_leaves_acquire(&leaves, group, &memory, err);  // before the pass writes
 *     memory = gradient_leaves_release(&leaves, group);  // final, ready to send
 *
 * gradient_leaves_acquire blocks until the memory's previous gradients are sent.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_GRADIENT_LEAVES_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_GRADIENT_LEAVES_H

#include "base/err.h"
#include "trainer/ops/ops.h"
#include "trainer/parallel/partition.h"
#include "trainer/parallel/reduction/bucket_exchange.h"

#include <stdbool.h>
#include <stdint.h>

/* A tied group and one other are written while a third group is sent. */
enum { GRADIENT_LEAVES_COUNT = 3 };

/* Owner thread. Owns device memory in the master type. */
struct gradient_leaves {
    struct ops *ops;
    const struct partition *partition; /* borrowed, like exchange */
    struct bucket_exchange *exchange;
    struct leaf {
        void *memory; /* sized for the largest group */
        uint64_t group;
        uint64_t last_acquisition; /* sequence number; 0: none */
        bool is_acquired;
    } list[GRADIENT_LEAVES_COUNT];
    uint64_t acquisitions_count;
};

/* The caller sets exchange before the first acquisition. */
int gradient_leaves_init(struct gradient_leaves *leaves, struct ops *ops,
                         const struct partition *partition, struct err *err);
/* Safe on zeroed leaves. If !is_idle, operations may still read the memory, so it is not freed
 * (comm.h). */
void gradient_leaves_deinit(struct gradient_leaves *leaves, bool is_idle);

/* The padding is zero; the rest is undefined. */
int gradient_leaves_acquire(struct gradient_leaves *leaves, uint64_t group, void **ret_memory,
                            struct err *err);
void *gradient_leaves_release(struct gradient_leaves *leaves, uint64_t group);

#endif
