/*
 * strategy — how ranks shard a model's state, as data. The names known to users are rows of a table
 * here; no other code refers to them.
 *
 * | name | shards | weights | gradients are reduced |
 * |---|---|---|---|
 * | ddp | 1 | whole | once a step |
 * | zero1 | ranks | whole | once a step |
 * | zero2 | ranks | whole | each micro-batch |
 * | zero3 | ranks | sharded, freed after each use | each micro-batch |
 * | shard_grad_op | ranks | sharded, kept from forward to backward pass | each micro-batch |
 * | hybrid_shard | ranks of a machine | as zero3 | each micro-batch |
 *
 * Aliases: no_shard is ddp, full_shard is zero3, deepspeed_stage_N is zeroN, and deepspeed_stage_0
 * is ddp. Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023.
 */
#ifndef MILLRACE_TRAINER_CONFIG_STRATEGY_H
#define MILLRACE_TRAINER_CONFIG_STRATEGY_H

#include "base/err.h"
#include "trainer/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum strategy_shards { STRATEGY_ONE, STRATEGY_RANKS, STRATEGY_LOCAL };

/* Immutable. */
struct strategy {
    const char *name;
    enum strategy_shards shards; /* of the optimizer's state and the fields below */
    bool shards_weights;         /* else each rank holds all weights between steps */
    bool reshards; /* weights are also freed between the forward and the backward pass */
    /* Gradients are reduced after each micro-batch, and each rank keeps only its own part. */
    bool reduces_each_micro;
};

/* The names in the table, NULL-terminated, for the configuration parser. */
extern const char *const strategy_names[];
extern const struct config_alias strategy_aliases[];
/* The strategy at that index of strategy_names. */
const struct strategy *strategy_of(uint64_t index);

/* From the configuration, 0 if not given: the ranks that together hold one copy, and the number of
 * copies. */
struct strategy_mesh {
    uint32_t shard, replicate;
};

struct strategy_mesh strategy_mesh_of(const struct train_config *config);

/* The number of shards: 1 for STRATEGY_ONE, else from the mesh, or from the strategy without one;
 * only STRATEGY_LOCAL without a mesh uses local_ranks. -EINVAL if it does not divide the ranks, or
 * the mesh is for another number of ranks. */
int strategy_shards_count(const struct strategy *strategy, struct strategy_mesh mesh,
                          uint32_t ranks, uint32_t local_ranks, uint32_t *ret_shards,
                          struct err *err);

#endif
