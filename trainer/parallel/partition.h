/*
 * partition — assigns the elements of each parameter group to ranks.
 *
 * A group is cut into parts of nearly equal size, one per rank. Each rank sums the gradients of its
 * part. `replicas` adjacent parts form a shard, the unit in which a rank stores weights, moments
 * and summed gradients:
 *
 *     shards = ranks, replicas = 1:   a rank stores its part (ZeRO, full sharding)
 *     shards = 1, replicas = ranks:   a rank stores everything (data parallel)
 *
 * Otherwise, each shard group (`shards` consecutive ranks, for example those of a machine) stores
 * one copy. Small groups can be kept whole on each rank, as if shards were 1.
 *
 * Arenas of gradients and moments contain only trained parameters (params.h), with the same cuts.
 * `trained` spans refer to those arenas.
 *
 * Cuts are at multiples of PARAMS_ALIGN elements and never split a row, because row sums, weight
 * decay and checkpoints need whole rows. The cuts are the same on all ranks.
 *
 * An arena of shards or parts holds this rank's shards or parts of all groups, in order.
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
    uint64_t keep_below_elements; /* smaller groups are kept whole */
};

/* A range in the arena of all parameters, or of trained parameters. */
struct span {
    uint64_t offset, elements;
};

/* Layout of this rank's shards or parts. */
struct partition_arena {
    uint64_t *offsets; /* [groups_count] */
    uint64_t elements; /* total, at least PARAMS_ALIGN */
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
/* True if both ranks hold the same shard of the group. */
bool partition_is_same_shard(const struct partition *partition, uint64_t group, uint32_t rank,
                             uint32_t other_rank);
/* True if both ranks belong to the same shard group. */
bool partition_is_same_shard_group(const struct partition *partition, uint64_t group, uint32_t rank,
                                   uint32_t other_rank);

enum { PARTITION_LABEL_BYTES = PARAMS_NAME_BYTES_MAX + 16 };
/* Returns [groups_count] labels for errors, such as "gradients of blocks.3". The caller frees them;
 * NULL if out of memory. */
char (*partition_labels(const struct partition *partition,
                        const char *kind))[PARTITION_LABEL_BYTES];

struct row_range {
    uint64_t first, count;
};
/* The rows of the parameter in a span of weights. The span must not split rows. */
struct row_range span_rows(const struct span *span, const struct param *param);

static inline uint64_t param_row_elements(const struct param *param)
{
    return param->count / param->shape[0];
}

#endif
