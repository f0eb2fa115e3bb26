/*
 * strategy — see strategy.h.
 */
#include "trainer/config/strategy.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>

/* name, shards, shards_weights, reshards, reduces_each_micro_batch */
#define STRATEGIES(ROW)                                                                            \
    ROW("ddp", STRATEGY_SHARDS_ONE, false, false, false)                                           \
    ROW("zero1", STRATEGY_SHARDS_RANKS, false, false, false)                                       \
    ROW("zero2", STRATEGY_SHARDS_RANKS, false, false, true)                                        \
    ROW("zero3", STRATEGY_SHARDS_RANKS, true, true, true)                                          \
    ROW("shard_grad_op", STRATEGY_SHARDS_RANKS, true, false, true)                                 \
    ROW("hybrid_shard", STRATEGY_SHARDS_LOCAL, true, true, true)

#define STRATEGY(...)   {__VA_ARGS__},
#define NAME(name, ...) name,

static const struct strategy strategies[] = {STRATEGIES(STRATEGY)};
const char *const strategy_names[] = {STRATEGIES(NAME) NULL};
const struct config_alias strategy_aliases[] = {{"no_shard", "ddp"},
                                                {"full_shard", "zero3"},
                                                {"deepspeed_stage_0", "ddp"},
                                                {"deepspeed_stage_1", "zero1"},
                                                {"deepspeed_stage_2", "zero2"},
                                                {"deepspeed_stage_3", "zero3"},
                                                {NULL, NULL}};

const struct strategy *strategy_at(uint64_t index)
{
    assert(index < sizeof strategies / sizeof strategies[0]);
    return &strategies[index];
}

struct strategy_mesh strategy_mesh_from_config(const struct train_config *config)
{
    return (struct strategy_mesh){.shard = (uint32_t)config->parallel.shard,
                                  .replicate = (uint32_t)config->parallel.replicate};
}

static int check_copies(const struct strategy *strategy, struct strategy_mesh mesh, uint32_t ranks,
                        struct err *err)
{
    uint64_t shard = mesh.shard ? mesh.shard : ranks / mesh.replicate;
    if (shard * mesh.replicate == ranks)
        return 0;
    err_set(err, -EINVAL,
            "parallel.strategy %s: the number of ranks does not match the number of copies",
            strategy->name);
    if (mesh.shard)
        err_expected(err, "parallel.shard x parallel.replicate to be %" PRIu32 " ranks", ranks);
    else
        err_expected(err, "parallel.replicate to divide %" PRIu32 " ranks", ranks);
    if (mesh.shard)
        err_found(err, "%" PRIu32 " x %" PRIu32, mesh.shard, mesh.replicate);
    else
        err_found(err, "%" PRIu32, mesh.replicate);
    err_advise(err, "set only one of the two");
    return -EINVAL;
}

int strategy_shards_count(const struct strategy *strategy, struct strategy_mesh mesh,
                          uint32_t ranks, uint32_t local_ranks, uint32_t *ret_shards,
                          struct err *err)
{
    uint32_t shards = 1;
    if (strategy->shards != STRATEGY_SHARDS_ONE && mesh.replicate) {
        int status = check_copies(strategy, mesh, ranks, err);
        if (status)
            return status;
        shards = ranks / mesh.replicate;
    } else if (strategy->shards != STRATEGY_SHARDS_ONE) {
        shards = mesh.shard                                  ? mesh.shard
                 : strategy->shards == STRATEGY_SHARDS_LOCAL ? local_ranks
                                                             : ranks;
    }
    if (shards == 0 || ranks % shards != 0) {
        err_set(err, -EINVAL, "parallel.strategy %s: cannot divide the ranks into shard groups",
                strategy->name);
        err_expected(err, "parallel.shard to divide %u ranks", ranks);
        err_found(err, "%u", shards);
        err_advise(err, "set parallel.shard to a divisor of the number of ranks");
        return -EINVAL;
    }
    *ret_shards = shards;
    return 0;
}
