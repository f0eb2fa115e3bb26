/*
 * run_weights — this rank's part of the model and its initial values. See run.h.
 */
#include "trainer/run/run.h"

#include "trainer/config/strategy.h"
#include "trainer/models/initial_weights.h"

#include "base/hash.h"
#include "base/os/machine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct strategy *strategy_of_run(const struct run *run)
{
    return strategy_at(run->config->parallel.strategy);
}

/* -EINVAL unless all machines have equally many ranks. */
static int count_local_ranks(const struct run *run, uint32_t *ret_count, struct err *err)
{
    char host[MACHINE_HOST_ID_BYTES];
    machine_host_id(host);
    const uint64_t own = hash_64(host, strlen(host));
    void *gathered;
    int status =
        run_ranks_gather(&run->ranks, &own, sizeof own, "the names of machines", &gathered, err);
    if (status)
        return status;
    const uint64_t *all = gathered;
    uint32_t count = 1;
    while (count < (uint32_t)run->ranks.comm->ranks && all[count] == all[0])
        count++;
    for (uint32_t rank = 0; rank < (uint32_t)run->ranks.comm->ranks && !status; rank++)
        if (all[rank] != all[rank / count * count])
            status = -EINVAL;
    free(gathered);
    *ret_count = count;
    if (!status)
        return 0;
    err_set(
        err, status,
        "machines have different numbers of ranks, or the ranks of a machine are not consecutive");
    err_advise(err, "set parallel.shard, or start the ranks machine by machine");
    return status;
}

int run_count_shards(struct run *run, struct err *err)
{
    const struct strategy *strategy = strategy_of_run(run);
    struct strategy_mesh mesh = strategy_mesh_from_config(run->config);
    bool is_by_machine =
        strategy->shards == STRATEGY_SHARDS_LOCAL && !mesh.shard && !mesh.replicate;
    uint32_t local_ranks = 0;
    int status = is_by_machine ? count_local_ranks(run, &local_ranks, err) : 0;
    return status ? status
                  : strategy_shards_count(strategy, mesh, (uint32_t)run->ranks.comm->ranks,
                                          local_ranks, &run->compute.shards_count, err);
}

static struct weights_options weights_options_of(const struct run *run)
{
    const struct strategy *strategy = strategy_of_run(run);
    bool offloads = run->config->parallel.offload.params;
    return (struct weights_options){.comm = run->ranks.bulk_comm,
                                    .ops = run->compute.ops,
                                    .partition = &run->compute.partition,
                                    .shards = strategy->shards_weights &&
                                              (run->compute.shards_count > 1 || offloads),
                                    .reshards = strategy->reshards,
                                    .pins_master = run->config->parallel.offload.optimizer,
                                    .offloads = offloads,
                                    .prefetch_count = (uint32_t)run->config->parallel.prefetch,
                                    .groups_max = (uint32_t)run->config->parallel.groups_at_once,
                                    .timeout_ns = run->config->parallel.timeout_ns,
                                    .serialized = &run->ranks.serialized};
}

int run_open_weights(struct run *run, struct err *err)
{
    const struct weights_options options = weights_options_of(run);
    return weights_init(&run->compute.weights, &options, run->compute.model, &run->compute.stage,
                        err);
}

/* Fills one group at a time, so that no rank ever holds all weights. init NULL: random. */
static int init_groups(struct run *run, struct initial_weights *init, struct err *err)
{
    const struct params *params = run->compute.params;
    void *host =
        malloc(run->compute.partition.group_elements_max * ops_master_bytes(run->compute.ops));
    int status = host ? 0 : err_set(err, -ENOMEM, "out of memory for the initial weights");
    for (uint64_t g = 0; g < params->groups_count && !status; g++) {
        if (init) {
            size_t bytes = params->groups[g].elements * ops_master_bytes(run->compute.ops);
            memset(host, 0, bytes);
            status = initial_weights_load_group(init, g, host, err);
            const uint64_t hashes[] = {run->weights_fingerprint, hash_64(host, bytes)};
            run->weights_fingerprint = hash_64(hashes, sizeof hashes);
        } else {
            params_init_group(params, g, run->config->run.seed, run->compute.ops->master, host);
        }
        if (!status)
            status = weights_fill_group(&run->compute.weights, g, host, err);
    }
    free(host);
    return status;
}

static int init_groups_from(struct run *run, const char *path, struct err *err)
{
    struct initial_weights *init = NULL;
    struct io *io;
    assert(run->compute.ops->master == DTYPE_F32);
    int status = io_open(path, NULL, &io, err);
    if (status)
        return status;
    status = initial_weights_open(io, path, model_config_of(run->compute.model),
                                  run->compute.params, run->options->log, &init, err);
    if (!status)
        status = init_groups(run, init, err);
    initial_weights_close(init);
    io_close(io);
    if (!status)
        run_log(run, "weights: from %s", path);
    return status;
}

int run_init_weights(struct run *run, const char *init, struct err *err)
{
    return init ? init_groups_from(run, init, err) : init_groups(run, NULL, err);
}

static void acquire_group(void *context, uint64_t group, enum pass_direction direction)
{
    struct run *run = context;
    weights_acquire(&run->compute.weights, group);
    if (direction == MODEL_BACKWARD)
        reduction_acquire(run->update.reduction, group);
}

static void release_group(void *context, uint64_t group, enum pass_direction direction)
{
    struct run *run = context;
    weights_release(&run->compute.weights, group);
    if (direction == MODEL_BACKWARD)
        reduction_release(run->update.reduction, group);
}

int run_begin_pass(struct run *run, uint64_t round, struct model_memory *ret_memory,
                   struct err *err)
{
    bool is_training = round != UINT64_MAX,
         sums = is_training && !reduction_is_hookless(run->update.reduction, round);
    *ret_memory = (struct model_memory){.context = run};
    weights_set_memory(&run->compute.weights, ret_memory);
    if (is_training)
        reduction_set_memory(run->update.reduction, round, ret_memory);
    if (sums || weights_require_hooks(&run->compute.weights)) {
        ret_memory->acquire = acquire_group;
        ret_memory->release = release_group;
    }
    return weights_begin_pass(&run->compute.weights, err);
}
