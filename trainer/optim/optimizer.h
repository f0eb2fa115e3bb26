/*
 * optimizer — an update rule (trainer/ops/rules/) over the arenas, group by group, with the exact
 * norm of the gradients.
 */
#ifndef MILLRACE_TRAINER_OPTIM_OPTIMIZER_H
#define MILLRACE_TRAINER_OPTIM_OPTIMIZER_H

#include "trainer/ops/ops.h"
#include "trainer/ops/update_gate.h"
#include "trainer/parallel/partition.h"

#include <stdbool.h>
#include <stdint.h>

enum { OPTIMIZER_MOMENTS_MAX = 2 };

/* Immutable. */
struct optimizer_options {
    enum update_rule rule;
    struct update_options update;
    double clip_norm, clip_value; /* 0: none */
    /* The moments lie in pinned memory, where the update reads and writes them over the link: less
     * device memory, the same bits. */
    bool offloaded;
};

/* As optimizer.type has it: "adamw". */
const char *optimizer_rule_name(enum update_rule rule);
/* How many moments an element has, and their names in a checkpoint ("exp_avg"). */
unsigned optimizer_moments_count(const struct optimizer_options *options);
const char *optimizer_moment_name(enum update_rule rule, unsigned moment);

/* Owner thread. Owns the moments: memory of the device, or pinned, master type, an arena of the
 * partition's trained shards; zero at first. */
struct optimizer {
    struct optimizer_options options;
    struct ops *ops;
    const struct partition *partition;    /* borrowed: this rank holds moments of its shards */
    void *moments[OPTIMIZER_MOMENTS_MAX]; /* NULL beyond optimizer_moments_count */
    uint8_t *
        /* as ops.h's update_arrays has them, for the arena of all that is trained; device memory */
        decays;
    double *row_sums; /* of all rows of this rank's parts that are trained; device memory */
    uint64_t row_sums_count;
    uint64_t updates; /* made so far, as the host knows */
};

int optimizer_init(struct optimizer *optimizer, const struct optimizer_options *options,
                   struct ops *ops, const struct partition *partition, struct err *err);
void optimizer_deinit(struct optimizer *optimizer);

/* Queues: sums the squares of this rank's parts of all groups, which `part` tells where to find,
 * and adds them to the words of an exact_sum in device memory, which ranks add up: fp64 sums of
 * rows, then the exact accumulator. */
void optimizer_sum_squares(struct optimizer *optimizer,
                           const void *(*part)(void *context, uint64_t group), void *context,
                           int64_t *words);

/* Of the update that follows so many. */
struct update_gate_factors optimizer_factors(const struct optimizer *optimizer, uint64_t updates,
                                             double lr);

/* Queues the update of this rank's shard of a group of weights (master type) in place: where it
 * begins, as do its gradients. compute: its weights in the compute type, which follow; NULL where
 * there are none of its own. scalars: device memory. */
void optimizer_update_shard(struct optimizer *optimizer, uint64_t group, void *weights,
                            void *compute, const void *gradients,
                            const struct update_scalars *scalars);

#endif
