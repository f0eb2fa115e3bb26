/*
 * partition — which rank holds and which rank sums which elements of each group.
 *
 * A group of parameters is cut into one part per rank, nearly equal, in arena order. A rank sums
 * the gradients of its part. `replicas` neighboring parts form a shard: what a rank holds of
 * weights, moments and summed gradients. So
 *
 *     shards = ranks, replicas = 1:   each rank holds what it sums (ZeRO, full sharding)
 *     shards = 1, replicas = ranks:   each rank holds all (data parallel)
 *
 * In between, the ranks of a shard group (neighbors in rank, such as those of a machine) hold one
 * copy together. A small group may be kept whole: all ranks hold it, as with one shard.
 *
 * Gradients and moments have arenas of trained parameters only (params.h), divided by the same
 * cuts. A `trained` span refers to those arenas.
 *
 * Cuts are at rows of tensors and at multiples of PARAMS_ALIGN elements, so that row sums, decays
 * and checkpoints see whole rows. They are the same on all ranks.
 *
 * An arena of shards holds only this rank's shards, one group after another; likewise an arena of
 * parts.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_PARTITION_H
#define MILLRACE_TRAINER_PARALLEL_PARTITION_H

#include "base/err.h"
#include "trainer/models/params.h"

#include <stdbool.h>
#include <stdint.h>

struct partition_options {
    uint32_t rank, ranks;
    uint32_t shards;              /* divides ranks */
    uint64_t keep_below_elements; /* smaller groups are kept whole; 0: none */
};

/* A range of elements in the arena of all parameters, or of trained ones. */
struct span {
    uint64_t offset, elements;
};

/* Layout of this rank's shards or parts: the offset of each group, and the total, at least
 * PARAMS_ALIGN. */
struct partition_arena {
    uint64_t *offsets; /* [groups_count] */
    uint64_t elements;
};

/* Immutable after partition_init. */
struct partition {
    struct partition_options options;
    const struct params *params;                   /* borrowed */
    uint64_t *cuts, *trained_cuts;                 /* [groups_count * (ranks + 1)], elements */
    struct partition_arena shards, trained_shards; /* of this rank */
    struct partition_arena trained_parts;
    uint64_t group_elements_max, trained_group_elements_max;
    uint64_t trained_part_elements_max; /* over all ranks */
};

/* -EINVAL if shards does not divide ranks. */
int partition_init(struct partition *partition, const struct partition_options *options,
                   const struct params *params, struct err *err);
void partition_deinit(struct partition *partition);

/* True if every rank holds the whole group. */
bool partition_is_whole(const struct partition *partition, uint64_t group);
uint32_t partition_replicas(const struct partition *partition, uint64_t group);
/* Spans of weights. */
struct span partition_group(const struct partition *partition, uint64_t group);
struct span partition_shard(const struct partition *partition, uint64_t group, uint32_t rank);
struct span partition_part(const struct partition *partition, uint64_t group, uint32_t rank);
/* Spans of gradients and moments. */
struct span partition_trained_group(const struct partition *partition, uint64_t group);
struct span partition_trained_shard(const struct partition *partition, uint64_t group,
                                    uint32_t rank);
struct span partition_trained_part(const struct partition *partition, uint64_t group,
                                   uint32_t rank);
/* Whether the two ranks hold the same shard of the group. */
bool partition_same_shard(const struct partition *partition, uint64_t group, uint32_t rank,
                          uint32_t other);
/* Whether the two ranks belong to the same shard group, which holds one copy together. */
bool partition_same_copy(const struct partition *partition, uint64_t group, uint32_t rank,
                         uint32_t other);

enum { PARTITION_LABEL_BYTES = PARAMS_NAME_BYTES_MAX + 16 };
/* Texts for errors: [groups_count], "gradients of blocks.3". malloc'ed; NULL if out of memory. */
char (*partition_labels(const struct partition *partition,
                        const char *kind))[PARTITION_LABEL_BYTES];

/* Rows of a parameter. */
struct row_range {
    uint64_t first, count;
};
/* The rows of the parameter whose weights are in the span; count 0: none. The span must come from
 * these cuts. */
struct row_range span_rows(const struct span *span, const struct param *param);

static inline uint64_t param_row_elements(const struct param *param)
{
    return param->count / param->shape[0];
}

#endif
