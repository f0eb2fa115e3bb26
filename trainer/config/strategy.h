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
 * Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch
 * FSDP", VLDB 2023.
 */
#ifndef MILLRACE_TRAINER_CONFIG_STRATEGY_H
#define MILLRACE_TRAINER_CONFIG_STRATEGY_H

#include "base/err.h"
#include "trainer/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum strategy_shards { STRATEGY_ONE, STRATEGY_RANKS, STRATEGY_LOCAL };

struct strategy {
    const char *name;
    enum strategy_shards shards; /* of the moments, and of the state selected below */
    bool shards_weights;         /* if false, each rank holds all weights between steps */
    bool reshards; /* weights are also freed between the forward and the backward pass */
    /* Gradients are reduced after each micro-batch; each rank keeps only its own part. */
    bool reduces_each_micro;
};

/* NULL-terminated, for the configuration parser. */
extern const char *const strategy_names[];
extern const struct config_alias strategy_aliases[];
/* index: in strategy_names. */
const struct strategy *strategy_of(uint64_t index);

/* As configured; 0: not given. shard: number of ranks that together hold one copy; replicate:
 * number of copies. */
struct strategy_mesh {
    uint32_t shard, replicate;
};

struct strategy_mesh strategy_mesh_of(const struct train_config *config);

/* The number of shards: 1 for STRATEGY_ONE, else from the mesh, or, without a mesh, from the
 * strategy. Only STRATEGY_LOCAL without a mesh uses local_ranks. -EINVAL if the ranks cannot be
 * divided that way. */
int strategy_shards_count(const struct strategy *strategy, struct strategy_mesh mesh,
                          uint32_t ranks, uint32_t local_ranks, uint32_t *ret_shards,
                          struct err *err);

#endif
