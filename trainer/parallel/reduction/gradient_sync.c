/*
 * gradient_sync — see gradient_sync.h.
 */
#include "trainer/parallel/reduction/gradient_sync.h"

#include "base/bytes.h"
#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static bool has_replicas(const struct partition *partition)
{
    for (uint64_t g = 0; g < partition->params->groups_count; g++)
        if (partition_replicas(partition, g) > 1)
            return true;
    return false;
}

static bool has_shards(const struct gradient_sync_options *options)
{
    return reduction_exchanges_each_micro_batch(&options->reduction) &&
           has_replicas(options->reduction.partition);
}

static uint64_t chunk_elements(const struct reduction_options *options)
{
    uint64_t max = bytes_round_up(options->partition->trained_part_elements_max, PARAMS_ALIGN);
    uint64_t wanted = options->bucket_bytes / ops_master_bytes(options->ops) /
                      options->batching.ranks / PARAMS_ALIGN * PARAMS_ALIGN;
    if (wanted < PARAMS_ALIGN)
        wanted = PARAMS_ALIGN;
    return wanted < max || max == 0 ? wanted : max;
}

/* The caller must replace comm. */
static struct bucket_exchange_options
exchange_options_of(const struct gradient_sync_options *options)
{
    const struct reduction_options *reduction = &options->reduction;
    return (struct bucket_exchange_options){.comm = reduction->comm,
                                            .ops = reduction->ops,
                                            .partition = reduction->partition,
                                            .chunk_elements = chunk_elements(reduction),
                                            .pieces_max = options->pieces_max,
                                            .pieces_total_max = options->pieces_total_max,
                                            .sums = options->sums,
                                            .wire = reduction->wire,
                                            .timeout_ns = reduction->timeout_ns,
                                            .on_received = options->on_received,
                                            .context = options->context};
}

static struct param_gather_options gather_options_of(const struct gradient_sync_options *options)
{
    const struct reduction_options *reduction = &options->reduction;
    return (struct param_gather_options){.comm = reduction->comm,
                                         .ops = reduction->ops,
                                         .stream = reduction->ops->stream,
                                         .partition = reduction->partition,
                                         .timeout_ns = reduction->timeout_ns,
                                         .purpose = "gradients",
                                         .trace_name = "gather gradients",
                                         .serialized = reduction->serialized};
}

static size_t shards_bytes(const struct gradient_sync *sync)
{
    const struct reduction_options *options = &sync->options.reduction;
    return options->partition->trained_shards.elements * ops_master_bytes(options->ops);
}

int gradient_sync_open(struct gradient_sync *sync, const struct gradient_sync_options *options,
                       struct err *err)
{
    const struct reduction_options *reduction = &options->reduction;
    struct device *device = reduction->ops->device;
    int status = 0;
    *sync = (struct gradient_sync){.options = *options};
    if (reduction_exchanges_each_micro_batch(reduction))
        status = gradient_leaves_init(&sync->leaves, reduction->ops, reduction->partition, err);
    if (!status && has_shards(options))
        status = device->ops->mem_alloc(device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS),
                                        shards_bytes(sync), &sync->shards, err);
    if (status)
        gradient_sync_close(sync);
    return status;
}

static int prepare_sums(struct gradient_sync *sync, struct err *err)
{
    uint64_t timeout_ns = sync->options.reduction.timeout_ns;
    const struct comm_options options = {.deadline_ns =
                                             timeout_ns ? clock_now_ns() + timeout_ns : 0,
                                         .purpose = "the first sum of gradients",
                                         .trace_name = "sum gradients"};
    return comm_prepare_fast(sync->exchange_comm, &options, err);
}

int gradient_sync_connect(struct gradient_sync *sync, struct err *err)
{
    struct comm *world = sync->options.reduction.comm;
    int status = world->ops->split(world, 0, world->rank, &sync->exchange_comm, err);
    if (!status && sync->options.sums)
        status = prepare_sums(sync, err);
    if (!status && has_replicas(sync->options.reduction.partition))
        status = world->ops->split(world, 0, world->rank, &sync->gather_comm, err);
    return status;
}

int gradient_sync_open_exchange(struct gradient_sync *sync, struct err *err)
{
    struct bucket_exchange_options exchange = exchange_options_of(&sync->options);
    struct param_gather_options gather = gather_options_of(&sync->options);
    exchange.comm = sync->exchange_comm;
    gather.comm = sync->gather_comm;
    int status = bucket_exchange_open(&exchange, &sync->exchange, err);
    sync->leaves.exchange = sync->exchange;
    if (status || !gather.comm)
        return status;
    sync->sums = calloc(gather.partition->params->groups_count, sizeof *sync->sums);
    if (!sync->sums)
        return err_set(err, -ENOMEM, "out of memory for the reduction of gradients");
    return param_gather_open(&gather, &sync->gather, err);
}

bool gradient_sync_is_idle(const struct gradient_sync *sync)
{
    return bucket_exchange_is_idle(sync->exchange) && param_gather_is_idle(sync->gather);
}

void gradient_sync_close(struct gradient_sync *sync)
{
    struct ops *ops = sync->options.reduction.ops;
    bool is_idle = gradient_sync_is_idle(sync);
    if (!ops)
        return;
    bucket_exchange_close(sync->exchange);
    param_gather_close(sync->gather);
    comm_close(sync->exchange_comm);
    comm_close(sync->gather_comm);
    free(sync->sums);
    gradient_leaves_deinit(&sync->leaves, is_idle);
    if (is_idle)
        ops->device->ops->mem_free(ops->device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS),
                                   sync->shards, shards_bytes(sync));
    else
        comm_retain(sync->shards);
    *sync = (struct gradient_sync){0};
}

static int begin_sum_gather(struct gradient_sync *sync, struct err *err)
{
    const struct gradient_sync_sum *sum = &sync->sums[sync->begun_sums_count++];
    return param_gather_begin(sync->gather, sum->group, PARAM_GATHER_PARTS, sum->buffer,
                              ops_master_bytes(sync->options.reduction.ops), err);
}

/* Starts gathers in order while slots are free. */
static int pump_sums(struct gradient_sync *sync, struct err *err)
{
    bool has_free_slot = false;
    int status = sync->gather ? param_gather_pump(sync->gather, &has_free_slot, err) : 0;
    while (!status && has_free_slot && sync->begun_sums_count < sync->sums_count) {
        status = begin_sum_gather(sync, err);
        if (!status)
            status = param_gather_pump(sync->gather, &has_free_slot, err);
    }
    return status;
}

int gradient_sync_send(struct gradient_sync *sync, uint64_t group,
                       const struct bucket_exchange_pieces *pieces, struct err *err)
{
    const bool *serialized = sync->options.reduction.serialized;
    int status = bucket_exchange_begin(sync->exchange, group, pieces, err);
    if (!status && serialized && *serialized)
        status = bucket_exchange_drain(sync->exchange, err);
    return status ? status : pump_sums(sync, err);
}

static bool is_gathered(const struct gradient_sync *sync, uint64_t group)
{
    return sync->gather && partition_replicas(sync->options.reduction.partition, group) > 1;
}

static void *shard_address(const struct gradient_sync *sync, uint64_t group, void *arena)
{
    const struct reduction_options *options = &sync->options.reduction;
    const struct partition *partition = options->partition;
    uint64_t element =
        sync->shards ? partition->trained_shards.offsets[group]
                     : partition_trained_shard(partition, group, partition->options.rank).offset;
    return (char *)(sync->shards ? sync->shards : arena) + element * ops_master_bytes(options->ops);
}

int gradient_sync_share(struct gradient_sync *sync, uint64_t group, const void *sum, void *arena,
                        struct err *err)
{
    struct ops *ops = sync->options.reduction.ops;
    const struct partition *partition = sync->options.reduction.partition;
    size_t element_bytes = ops_master_bytes(ops);
    if (!is_gathered(sync, group))
        return 0;
    struct span part = partition_trained_part(partition, group, partition->options.rank);
    struct span shard = partition_trained_shard(partition, group, partition->options.rank);
    char *buffer = shard_address(sync, group, arena);
    char *place = buffer + (part.offset - shard.offset) * element_bytes;
    int status = 0;
    if (part.elements > 0 && sum != place)
        status = ops->device->ops->copy(ops->device, ops->stream, place, sum,
                                        part.elements * element_bytes, err);
    if (status)
        return status;
    assert(sync->sums_count < partition->params->groups_count);
    sync->sums[sync->sums_count++] = (struct gradient_sync_sum){group, buffer};
    return pump_sums(sync, err);
}

int gradient_sync_finish(struct gradient_sync *sync, struct err *err)
{
    int status = bucket_exchange_drain(sync->exchange, err);
    while (!status && sync->begun_sums_count < sync->sums_count)
        status = begin_sum_gather(sync, err);
    sync->sums_count = sync->begun_sums_count = 0;
    return status;
}

int gradient_sync_wait(struct gradient_sync *sync, uint64_t group, void *arena, void **ret_shard,
                       struct err *err)
{
    if (!is_gathered(sync, group))
        return 0;
    *ret_shard = shard_address(sync, group, arena);
    return param_gather_wait(sync->gather, group, err);
}

uint64_t gradient_sync_waited_ns(const struct gradient_sync *sync)
{
    return bucket_exchange_waited_ns(sync->exchange) + param_gather_waited_ns(sync->gather);
}
