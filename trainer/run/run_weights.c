/*
 * run_weights — the part of the model that this rank holds, by the strategy, and its initial
 * values. See run.h.
 */
#include "trainer/run/run.h"

#include "trainer/config/strategy.h"
#include "trainer/models/init.h"

#include "base/hash.h"
#include "base/os/machine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct strategy *strategy_of_run(const struct run *run)
{
    return strategy_of(run->config->parallel.strategy);
}

bool run_reduces_each_micro(const struct run *run)
{
    return strategy_of_run(run)->reduces_each_micro;
}

/* The number of ranks on each machine, which must be the same everywhere. */
static int count_local_ranks(const struct run *run, uint32_t *ret_count, struct err *err)
{
    char host[MACHINE_HOST_ID_BYTES];
    machine_host_id(host);
    uint64_t own = hash_64(host, strlen(host)),
             *all = calloc((size_t)run->comm->ranks, sizeof *all);
    struct comm_options options = run_comm_options(run, "the names of machines");
    struct comm_work work;
    if (!all)
        return err_set(err, -ENOMEM, "out of memory for the names of %d machines",
                       run->comm->ranks);
    all[run->comm->rank] = own;
    int status = run->comm->ops->all_gather(run->comm, &all[run->comm->rank], all, sizeof own,
                                            &options, &work, err);
    if (!status)
        status = comm_wait(run->comm, &work, err);
    if (status) {
        comm_retain(all);
        return status;
    }
    uint32_t count = 1;
    while (count < (uint32_t)run->comm->ranks && all[count] == all[0])
        count++;
    for (uint32_t rank = 0; rank < (uint32_t)run->comm->ranks && !status; rank++)
        if (all[rank] != all[rank / count * count])
            status = -EINVAL;
    free(all);
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
    struct strategy_mesh mesh = strategy_mesh_of(run->config);
    bool is_by_machine = strategy->shards == STRATEGY_LOCAL && !mesh.shard && !mesh.replicate;
    uint32_t local_ranks = 0;
    int status = is_by_machine ? count_local_ranks(run, &local_ranks, err) : 0;
    return status ? status
                  : strategy_shards_count(strategy, mesh, (uint32_t)run->comm->ranks, local_ranks,
                                          &run->shards, err);
}

/* Evaluations and local updates have whole weights on each rank. */
struct partition_options run_partition_options(const struct run *run, bool trains)
{
    if (!trains || run_is_local(run))
        return (struct partition_options){.rank = 0, .ranks = 1, .shards = 1};
    return (struct partition_options){.rank = run->batching.rank,
                                      .ranks = run->batching.ranks,
                                      .shards = run->shards,
                                      .keep_below_elements =
                                          run->config->parallel.keep_below_params};
}

struct weights_options run_weights_options(const struct run *run)
{
    const struct strategy *strategy = strategy_of_run(run);
    bool offloads = run->config->parallel.offload.params;
    return (struct weights_options){.comm = run->bulk,
                                    .ops = run->ops,
                                    .partition = &run->partition,
                                    .shards =
                                        strategy->shards_weights && (run->shards > 1 || offloads),
                                    .reshards = strategy->reshards,
                                    .pins_master = run->config->parallel.offload.optimizer,
                                    .offloads = offloads,
                                    .ahead = (uint32_t)run->config->parallel.prefetch,
                                    .groups_max = (uint32_t)run->config->parallel.groups_at_once,
                                    .timeout_ns = run->config->parallel.timeout_ns,
                                    .serialized = &run->serialized};
}

/* The type in which gradients travel. They are sums of at most as many terms as an update has rows;
 * scaled to the size of their mean, they fit fp16. */
static struct bucket_exchange_wire wire_of(const struct run *run)
{
    static const enum dtype types[] = {
        [CONFIG_FP32] = DTYPE_F32, [CONFIG_BF16] = DTYPE_BF16, [CONFIG_FP16] = DTYPE_F16};
    const struct train_config *config = run->config;
    struct bucket_exchange_wire wire = {.type = types[config->precision.reduce], .scale = 1};
    uint64_t rows = config->model.type == MODEL_VIT ? 1 : config->data.text.block;
    if (wire.type == DTYPE_F16)
        while (wire.scale * (float)run->batching.global * (float)rows > 1)
            wire.scale /= 2;
    return wire;
}

struct reduction_options run_reduction_options(const struct run *run)
{
    const struct train_config *config = run->config;
    bool compresses = config->parallel.compression.type == CONFIG_COMPRESSION_POWERSGD;
    return (struct reduction_options){
        .kind = compresses ? REDUCTION_POWERSGD : (enum reduction_kind)config->parallel.reduction,
        .powersgd = {.rank = config->parallel.compression.rank,
                     .start_step = config->parallel.compression.start_step,
                     .min_rate = config->parallel.compression.min_rate,
                     .error_feedback = config->parallel.compression.error_feedback,
                     .warm_start = config->parallel.compression.warm_start,
                     .seed = config->run.seed},
        .comm = config_moves_gradients(run->config) ? run->bulk : run->comm,
        .ops = run->ops,
        .partition = &run->partition,
        .batching = run->batching,
        .bucket_bytes = run->config->parallel.bucket_bytes,
        .timeout_ns = run->config->parallel.timeout_ns,
        .wire = wire_of(run),
        .serialized = &run->serialized,
        .is_local = run_is_local(run)};
}

bool run_adds_gradients(const struct run *run)
{
    const struct reduction_options options = run_reduction_options(run);
    return reduction_adds(&options);
}

int run_open_weights(struct run *run, struct err *err)
{
    const struct weights_options options = run_weights_options(run);
    return weights_init(&run->weights, &options, run->model, &run->stage, err);
}

/* One group at a time, so that no rank ever holds all weights. init NULL: random. */
static int fill_groups(struct run *run, struct init *init, struct err *err)
{
    const struct params *params = run->params;
    void *host = malloc(run->partition.group_elements_max * ops_master_bytes(run->ops));
    int status = host ? 0 : err_set(err, -ENOMEM, "out of memory for the initial weights");
    for (uint64_t g = 0; g < params->groups_count && !status; g++) {
        if (init) {
            size_t bytes = params->groups[g].elements * ops_master_bytes(run->ops);
            memset(host, 0, bytes);
            status = init_load_group(init, g, host, err);
            const uint64_t hashes[] = {run->weights_fingerprint, hash_64(host, bytes)};
            run->weights_fingerprint = hash_64(hashes, sizeof hashes);
        } else {
            params_init_group(params, g, run->config->run.seed, run->ops->master, host);
        }
        if (!status)
            status = weights_fill_group(&run->weights, g, host, err);
    }
    free(host);
    return status;
}

static int fill_from(struct run *run, const char *path, struct err *err)
{
    struct init *init = NULL;
    struct io *io;
    assert(run->ops->master == DTYPE_F32);
    int status = io_open(path, NULL, &io, err);
    if (status)
        return status;
    status = init_open(io, path, model_config_of(run->model), run->params, run->options->log, &init,
                       err);
    if (!status)
        status = fill_groups(run, init, err);
    init_close(init);
    io_close(io);
    if (!status)
        run_log(run, "weights: from %s", path);
    return status;
}

int run_fill_weights(struct run *run, const char *init, struct err *err)
{
    return init ? fill_from(run, init, err) : fill_groups(run, NULL, err);
}

static void need(void *context, uint64_t group, enum model_use use)
{
    struct run *run = context;
    weights_need(&run->weights, group);
    if (use == MODEL_BACKWARD)
        reduction_need(run->reduction, group);
}

static void done(void *context, uint64_t group, enum model_use use)
{
    struct run *run = context;
    weights_done(&run->weights, group);
    if (use == MODEL_BACKWARD)
        reduction_done(run->reduction, group);
}

int run_begin_pass(struct run *run, uint64_t round, struct model_memory *ret_memory,
                   struct err *err)
{
    bool trains = round != UINT64_MAX,
         sums = trains && !reduction_is_hookless(run->reduction, round);
    *ret_memory = (struct model_memory){.context = run};
    weights_set_memory(&run->weights, ret_memory);
    if (trains)
        reduction_set_memory(run->reduction, round, ret_memory);
    if (sums || weights_want_hooks(&run->weights)) {
        ret_memory->need = need;
        ret_memory->done = done;
    }
    return weights_begin_pass(&run->weights, err);
}
