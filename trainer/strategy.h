/*
 * strategy — what ranks share of a model's state, as data. The names that users know are rows of a table here; no code elsewhere knows one.
 *
 * | name | shards | weights | sums |
 * |---|---|---|---|
 * | ddp | 1 | whole | once a step |
 * | zero1 | ranks | whole | once a step |
 * | zero2 | ranks | whole | each micro-batch |
 * | zero3 | ranks | sharded, forgotten after each use | each micro-batch |
 * | shard_grad_op | ranks | sharded, kept from the forward to the backward pass | each micro-batch |
 * | hybrid_shard | of a machine | as zero3 | each micro-batch |
 *
 * Other names: no_shard is ddp, full_shard is zero3, deepspeed_stage_N is zeroN, of which 0 is ddp. Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023.
 */
#ifndef MILLRACE_TRAINER_STRATEGY_H
#define MILLRACE_TRAINER_STRATEGY_H

#include "base/err.h"
#include "trainer/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum strategy_shards { STRATEGY_ONE, STRATEGY_RANKS, STRATEGY_LOCAL };

/* Immutable. */
struct strategy {
    const char *name;
    enum strategy_shards shards; /* in how many the optimizer's state, and what below says, is cut */
    bool shards_weights;         /* else each rank holds all weights between steps */
    bool reshards;               /* weights are forgotten between the forward and the backward pass, too */
    bool
        sums_each; /* gradients travel after each micro-batch, and each rank holds but its own part of them */
};

/* The table, ended by a name that is NULL: for the parser of the configuration. */
extern const char *const strategy_names[];
extern const struct config_alias strategy_aliases[];
/* Of the row so many of strategy_names. */
const struct strategy *strategy_of(uint64_t index);

/* In how many shards: local_ranks is asked for STRATEGY_LOCAL, wanted (0: the strategy says) for others than STRATEGY_ONE. -EINVAL where they
 * do not divide the ranks. */
int strategy_shards_count(const struct strategy *strategy, uint32_t wanted, uint32_t ranks,
                          uint32_t local_ranks, uint32_t *ret_shards, struct err *err);

#endif
