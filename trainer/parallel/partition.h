/*
 * partition — which rank holds, and which rank sums, which elements of each group.
 *
 * A group of parameters is cut into one part a rank, nearly equal, in the order of the arena; a
 * part is what its rank sums gradients of. `replicas` neighbouring parts make a shard: what a rank
 * holds of weights, moments and summed gradients. So
 *
 *     shards = ranks, replicas = 1:   each rank holds what it sums (ZeRO, full sharding)
 *     shards = 1, replicas = ranks:   each rank holds all (data parallel)
 *
 * and anything between, where the ranks of a shard group (neighbours in rank, as those of a
 * machine) hold one copy together. A small group may be kept whole: then it is held by all ranks,
 * as if there were one shard.
 *
 * Gradients and moments have arenas of what is trained (params.h), which the same cuts divide: a
 * `trained` span lies in those.
 *
 * Cuts lie at rows of tensors and at multiples of PARAMS_ALIGN elements, so that sums of rows,
 * decays and checkpoints see whole rows. They are the same on all ranks.
 *
 * An arena of shards holds this rank's shards alone, one group after another; an arena of parts
 * this rank's parts.
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
    uint64_t keep_below_elements; /* groups of fewer are kept whole; 0: none */
};

/* Elements of an arena of all parameters, or of all that is trained. */
struct span {
    uint64_t offset, elements;
};

/* Arenas of what a rank has of each group: where each begins, and elements in all, PARAMS_ALIGN at
 * least. */
struct partition_arena {
    uint64_t *offsets; /* [groups_count] */
    uint64_t elements;
};

/* Immutable once made. */
struct partition {
    struct partition_options options;
    const struct params *params;                   /* borrowed */
    uint64_t *cuts, *trained_cuts;                 /* [groups_count * (ranks + 1)], elements */
    struct partition_arena shards, trained_shards; /* of this rank's */
    struct partition_arena trained_parts;
    uint64_t group_elements_max, trained_group_elements_max;
    uint64_t trained_part_elements_max; /* of any rank */
};

/* -EINVAL where shards does not divide ranks. */
int partition_init(struct partition *partition, const struct partition_options *options,
                   const struct params *params, struct err *err);
void partition_deinit(struct partition *partition);

bool partition_is_whole(const struct partition *partition,
                        uint64_t group); /* every rank holds all of it */
uint32_t partition_replicas(const struct partition *partition, uint64_t group);
/* Of weights. */
struct span partition_group(const struct partition *partition, uint64_t group);
struct span partition_shard(const struct partition *partition, uint64_t group, uint32_t rank);
struct span partition_part(const struct partition *partition, uint64_t group, uint32_t rank);
/* Of gradients and moments. */
struct span partition_trained_group(const struct partition *partition, uint64_t group);
struct span partition_trained_shard(const struct partition *partition, uint64_t group,
                                    uint32_t rank);
struct span partition_trained_part(const struct partition *partition, uint64_t group,
                                   uint32_t rank);
/* Do the two hold the same shard of the group? */
bool partition_share(const struct partition *partition, uint64_t group, uint32_t rank,
                     uint32_t other);
/* Do the two belong to the ranks that hold one copy of it together? */
bool partition_is_together(const struct partition *partition, uint64_t group, uint32_t rank,
                           uint32_t other);

enum { PARTITION_WHAT_BYTES = PARAMS_NAME_BYTES_MAX + 16 };
/* What is waited for, in errors: [groups_count] texts, "gradients of blocks.3". NULL without
 * memory; malloc'ed. */
char (*partition_whats(const struct partition *partition, const char *kind))[PARTITION_WHAT_BYTES];

/* Rows of a parameter. */
struct row_range {
    uint64_t first, count;
};
/* The rows of the parameter whose weights lie in the span; count 0: none. The span was cut as
 * above. */
struct row_range span_rows(const struct span *span, const struct param *param);

static inline uint64_t param_row_elements(const struct param *param)
{
    return param->count / param->shape[0];
}

#endif
