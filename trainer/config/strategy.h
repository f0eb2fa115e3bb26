/*
 * strategy — a table of the ways to shard a model's state over ranks.
 *
 * | name | shards | weights | gradients are reduced |
 * |---|---|---|---|
 * | ddp | 1 | whole | once per step |
 * | zero1 | ranks | whole | once per step |
 * | zero2 | ranks | whole | after each micro-batch |
 * | zero3 | ranks | sharded, freed after each use | after each micro-batch |
 * | shard_grad_op | ranks | sharded, kept from forward to backward pass | after each micro-batch |
 * | hybrid_shard | ranks of a machine | as zero3 | after each micro-batch |
 *
 * Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023.
 */
#ifndef MILLRACE_TRAINER_CONFIG_STRATEGY_H
#define MILLRACE_TRAINER_CONFIG_STRATEGY_H

#include "base/err.h"
#include "trainer/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum strategy_shards { STRATEGY_SHARDS_ONE, STRATEGY_SHARDS_RANKS, STRATEGY_SHARDS_LOCAL };

struct strategy {
    const char *name;
    enum strategy_shards shards;   /* of the moments, and of the state selected below */
    bool shards_weights;           /* false: each rank holds all weights between steps */
    bool reshards;                 /* frees weights between the forward and the backward pass */
    bool reduces_each_micro_batch; /* each rank keeps only its own part of the gradients */
};

/* NULL-terminated, for the configuration parser. */
extern const char *const strategy_names[];
extern const struct config_alias strategy_aliases[];
/* index: in strategy_names. */
const struct strategy *strategy_at(uint64_t index);

struct strategy_mesh {
    uint32_t shard, replicate; /* ranks per copy, copies; 0: not configured */
};

struct strategy_mesh strategy_mesh_from_config(const struct train_config *config);

/* Gets the number of shards from the mesh, if configured, or the strategy. Only
 * STRATEGY_SHARDS_LOCAL without a mesh uses local_ranks. -EINVAL if the ranks cannot be divided. */
int strategy_shards_count(const struct strategy *strategy, struct strategy_mesh mesh,
                          uint32_t ranks, uint32_t local_ranks, uint32_t *ret_shards,
                          struct err *err);

#endif
