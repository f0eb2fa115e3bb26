/*
 * gradient_leaves — gradients of some groups at a time, where they travel after each micro-batch:
 * no rank ever holds those of all groups.
 *
 *     gradient_leaves_take(&leaves, group, &memory, err);     // before a pass writes them
 *     memory = gradient_leaves_give(&leaves, group);  // they are final, and about to be sent
 *
 * What is taken anew has been sent: taking blocks for that.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_GRADIENT_LEAVES_H
#define MILLRACE_TRAINER_PARALLEL_GRADIENT_LEAVES_H

#include "base/err.h"
#include "trainer/ops/ops.h"
#include "trainer/parallel/bucket_exchange.h"
#include "trainer/parallel/partition.h"

#include <stdbool.h>
#include <stdint.h>

/* Groups of gradients in memory at a time, being written or sent: a tied one, another, and one that
 * is on its way. */
enum { GRADIENT_LEAVES_COUNT = 3 };

/* Owner thread. Owns device memory of the ops, master type. */
struct gradient_leaves {
    struct ops *ops;
    const struct partition *partition; /* borrowed, as is the exchange */
    struct bucket_exchange *exchange;
    struct leaf {
        void *memory;   /* of the largest group */
        uint64_t group; /* whose gradients it holds or held */
        uint64_t turn;  /* number of the last that took it; 0: none did */
        bool is_taken;  /* it is being written */
    } list[GRADIENT_LEAVES_COUNT];
    uint64_t turns;
};

/* The exchange is the caller's to set, before the first is taken. */
int gradient_leaves_init(struct gradient_leaves *leaves, struct ops *ops,
                         const struct partition *partition, struct err *err);
/* Safe on zeroed ones. is_idle: nothing of them is being sent; else they stay until the process
 * exits (comm.h). */
void gradient_leaves_deinit(struct gradient_leaves *leaves, bool is_idle);
uint64_t gradient_leaves_elements(const struct partition *partition);

/* Blocks. Its padding is zero; the rest anything. */
int gradient_leaves_take(struct gradient_leaves *leaves, uint64_t group, void **ret_memory,
                         struct err *err);
void *gradient_leaves_give(struct gradient_leaves *leaves, uint64_t group);

#endif
