/*
 * optimizer — applies an update rule (trainer/ops/rules/) to each group, and computes the exact
 * norm of the gradients.
 */
#ifndef MILLRACE_TRAINER_OPTIM_OPTIMIZER_H
#define MILLRACE_TRAINER_OPTIM_OPTIMIZER_H

#include "trainer/ops/gradient_clip.h"
#include "trainer/ops/ops.h"
#include "trainer/parallel/partition.h"

#include <stdbool.h>
#include <stdint.h>

enum { OPTIMIZER_MOMENTS_MAX = 2 };

struct optimizer_options {
    enum update_rule rule;
    struct update_options update;
    double clip_norm, clip_value; /* 0: none */
    /* keeps moments in pinned memory */
    bool offloads_moments;
};

/* The value of optimizer.type, such as "adamw". */
const char *optimizer_rule_name(enum update_rule rule);
/* The number of moments per element, and their names in checkpoints, such as "exp_avg". */
unsigned optimizer_moments_count(const struct optimizer_options *options);
const char *optimizer_moment_name(enum update_rule rule, unsigned moment);

/* Owner thread only. Moments are arenas of trained shards in the master type, initially zero. */
struct optimizer {
    struct optimizer_options options;
    struct ops *ops;
    const struct partition *partition;    /* borrowed */
    void *moments[OPTIMIZER_MOMENTS_MAX]; /* NULL beyond optimizer_moments_count */
    uint8_t *decays;                      /* see update_arrays in ops.h; device memory */
    double *row_sums; /* one per trained row of this rank's parts; device memory */
    uint64_t row_sums_count;
    uint64_t updates; /* completed, as known to the host */
};

int optimizer_init(struct optimizer *optimizer, const struct optimizer_options *options,
                   struct ops *ops, const struct partition *partition, struct err *err);
void optimizer_deinit(struct optimizer *optimizer);

/* Queues operations that add the squares of the gradients in this rank's parts to the words of an
 * exact_sum in device memory. Each row is summed in fp64; the row sums are added exactly.
 * part_gradients: returns the gradients of a group's part. */
void optimizer_sum_squares(struct optimizer *optimizer,
                           const void *(*part_gradients)(void *context, uint64_t group),
                           void *context, int64_t *words);

/* The scalars of the update after `updates` completed ones. */
struct scheduled_scalars optimizer_scheduled_scalars(const struct optimizer *optimizer,
                                                     uint64_t updates, double lr);

/* Queues the in-place update of this rank's shard of a group. weights and gradients point to the
 * start of the shard (master type); compute points to its copy in the compute type (NULL: none).
 * scalars: device memory. */
void optimizer_update_shard(struct optimizer *optimizer, uint64_t group, void *weights,
                            void *compute, const void *gradients,
                            const struct update_scalars *scalars);

#endif
