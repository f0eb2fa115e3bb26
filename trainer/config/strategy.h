/*
 * strategy — what ranks share of a model's state, as data. The names that users know are rows of a
 * table here; no code elsewhere knows one.
 *
 * | name | shards | weights | sums |
 * |---|---|---|---|
 * | ddp | 1 | whole | once a step |
 * | zero1 | ranks | whole | once a step |
 * | zero2 | ranks | whole | each micro-batch |
 * | zero3 | ranks | sharded, forgotten after each use | each micro-batch |
 * | shard_grad_op | ranks | sharded, kept from forward to backward pass | each micro-batch |
 * | hybrid_shard | of a machine | as zero3 | each micro-batch |
 *
 * Other names: no_shard is ddp, full_shard is zero3, deepspeed_stage_N is zeroN, of which 0
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
    enum strategy_shards
        shards;          /* in how many the optimizer's state, and what below says, is cut */
    bool shards_weights; /* else each rank holds all weights between steps */
    bool reshards;       /* weights are forgotten between the forward and the backward pass, too */
    bool
        /* gradients travel after each micro-batch, and each rank holds but its own part of them */
        sums_each;
};

/* The table, ended by a name that is NULL: for the parser of the configuration. */
extern const char *const strategy_names[];
extern const struct config_alias strategy_aliases[];
/* Of the row so many of strategy_names. */
const struct strategy *strategy_of(uint64_t index);

/* Of the configuration, 0 where it does not say: ranks that hold one copy together, and copies. */
struct strategy_mesh {
    uint32_t shard, replicate;
};

struct strategy_mesh strategy_mesh_of(const struct train_config *config);

/* In how many shards: of all strategies but STRATEGY_ONE as the mesh says, else as the strategy
 * does; local_ranks is asked for STRATEGY_LOCAL without a mesh. -EINVAL where they do not divide
 * the ranks, or the mesh has another number of ranks. */
int strategy_shards_count(const struct strategy *strategy, struct strategy_mesh mesh,
                          uint32_t ranks, uint32_t local_ranks, uint32_t *ret_shards,
                          struct err *err);

#endif
