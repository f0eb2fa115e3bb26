/*
 * delivery — see delivery.h.
 */
#include "trainer/parallel/delivery.h"

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

static bool has_shards(const struct delivery_options *options)
{
    return reduction_exchanges_each(&options->reduction) &&
           has_replicas(options->reduction.partition);
}

static uint64_t chunk_elements(const struct reduction_options *options)
{
    uint64_t most = bytes_round_up(options->partition->trained_part_elements_max, PARAMS_ALIGN);
    uint64_t wanted = options->bucket_bytes / ops_master_bytes(options->ops) /
                      options->batching.ranks / PARAMS_ALIGN * PARAMS_ALIGN;
    if (wanted < PARAMS_ALIGN)
        wanted = PARAMS_ALIGN;
    return wanted < most || most == 0 ? wanted : most;
}

/* comm is the caller's to set. */
static struct bucket_exchange_options exchange_options_of(const struct delivery_options *options)
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
                                     .received = options->received,
                                     .context = options->context};
}

static struct param_gather_options gather_options_of(const struct delivery_options *options)
{
    const struct reduction_options *reduction = &options->reduction;
    return (struct param_gather_options){.comm = reduction->comm,
                                   .ops = reduction->ops,
                                   .stream = reduction->ops->stream,
                                   .partition = reduction->partition,
                                   .timeout_ns = reduction->timeout_ns,
                                   .what = "gradients",
                                   .flight = "gather gradients",
                                   .in_turn = reduction->in_turn};
}

static size_t shards_bytes(const struct delivery *delivery)
{
    const struct reduction_options *options = &delivery->options.reduction;
    return options->partition->trained_shards.elements * ops_master_bytes(options->ops);
}

int delivery_open(struct delivery *delivery, const struct delivery_options *options,
                  struct err *err)
{
    const struct reduction_options *reduction = &options->reduction;
    struct device *device = reduction->ops->device;
    int status = 0;
    *delivery = (struct delivery){.options = *options};
    if (reduction_exchanges_each(reduction))
        status = leaves_init(&delivery->leaves, reduction->ops, reduction->partition, err);
    if (!status && has_shards(options))
        status = device->ops->mem_alloc(device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS),
                                        shards_bytes(delivery), &delivery->shards, err);
    if (status)
        delivery_close(delivery);
    return status;
}

static int prepare_sums(struct delivery *delivery, struct err *err)
{
    uint64_t timeout_ns = delivery->options.reduction.timeout_ns;
    const struct comm_options options = {.deadline_ns =
                                             timeout_ns ? clock_now_ns() + timeout_ns : 0,
                                         .what = "the first sum of gradients",
                                         .flight = "sum gradients"};
    return comm_prepare_fast(delivery->exchange_comm, &options, err);
}

int delivery_connect(struct delivery *delivery, struct err *err)
{
    struct comm *world = delivery->options.reduction.comm;
    int status = world->ops->split(world, 0, world->rank, &delivery->exchange_comm, err);
    if (!status && delivery->options.sums)
        status = prepare_sums(delivery, err);
    if (!status && has_replicas(delivery->options.reduction.partition))
        status = world->ops->split(world, 0, world->rank, &delivery->gather_comm, err);
    return status;
}

int delivery_open_exchange(struct delivery *delivery, struct err *err)
{
    struct bucket_exchange_options exchange = exchange_options_of(&delivery->options);
    struct param_gather_options gather = gather_options_of(&delivery->options);
    exchange.comm = delivery->exchange_comm;
    gather.comm = delivery->gather_comm;
    int status = bucket_exchange_open(&exchange, &delivery->exchange, err);
    delivery->leaves.exchange = delivery->exchange;
    if (status || !gather.comm)
        return status;
    delivery->sums = calloc(gather.partition->params->groups_count, sizeof *delivery->sums);
    if (!delivery->sums)
        return err_set(err, -ENOMEM, "out of memory for the reduction of gradients");
    return param_gather_open(&gather, &delivery->gather, err);
}

bool delivery_is_idle(const struct delivery *delivery)
{
    return bucket_exchange_is_idle(delivery->exchange) && param_gather_is_idle(delivery->gather);
}

void delivery_close(struct delivery *delivery)
{
    struct ops *ops = delivery->options.reduction.ops;
    bool is_idle = delivery_is_idle(delivery);
    if (!ops)
        return;
    bucket_exchange_close(delivery->exchange);
    param_gather_close(delivery->gather);
    comm_close(delivery->exchange_comm);
    comm_close(delivery->gather_comm);
    free(delivery->sums);
    leaves_deinit(&delivery->leaves, is_idle);
    if (is_idle)
        ops->device->ops->mem_free(ops->device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS),
                                   delivery->shards, shards_bytes(delivery));
    else
        comm_retain(delivery->shards);
    *delivery = (struct delivery){0};
}

int delivery_need(struct delivery *delivery, uint64_t group, void **ret_gradients, struct err *err)
{
    return leaves_take(&delivery->leaves, group, ret_gradients, err);
}

static int begin_sum(struct delivery *delivery, struct err *err)
{
    const struct delivery_sum *sum = &delivery->sums[delivery->sums_begun++];
    return param_gather_begin(delivery->gather, sum->group, PARAM_GATHER_PARTS, sum->buffer,
                        ops_master_bytes(delivery->options.reduction.ops), err);
}

/* Sums in their order, as far as there is room. */
static int pump_sums(struct delivery *delivery, struct err *err)
{
    bool has_room = false;
    int status = delivery->gather ? param_gather_pump(delivery->gather, &has_room, err) : 0;
    while (!status && has_room && delivery->sums_begun < delivery->sums_count) {
        status = begin_sum(delivery, err);
        if (!status)
            status = param_gather_pump(delivery->gather, &has_room, err);
    }
    return status;
}

int delivery_send(struct delivery *delivery, uint64_t group, const struct bucket_exchange_pieces *pieces,
                  struct err *err)
{
    const bool *in_turn = delivery->options.reduction.in_turn;
    int status = bucket_exchange_begin(delivery->exchange, group, pieces, err);
    if (!status && in_turn && *in_turn)
        status = bucket_exchange_drain(delivery->exchange, err);
    return status ? status : pump_sums(delivery, err);
}

bool delivery_gathers(const struct delivery *delivery, uint64_t group)
{
    return delivery->gather && partition_replicas(delivery->options.reduction.partition, group) > 1;
}

void *delivery_shard(const struct delivery *delivery, uint64_t group, void *arena)
{
    const struct reduction_options *options = &delivery->options.reduction;
    const struct partition *partition = options->partition;
    uint64_t element =
        delivery->shards
            ? partition->trained_shards.offsets[group]
            : partition_trained_shard(partition, group, partition->options.rank).offset;
    return (char *)(delivery->shards ? delivery->shards : arena) +
           element * ops_master_bytes(options->ops);
}

int delivery_share(struct delivery *delivery, uint64_t group, const void *sum, void *arena,
                   struct err *err)
{
    struct ops *ops = delivery->options.reduction.ops;
    const struct partition *partition = delivery->options.reduction.partition;
    size_t element_bytes = ops_master_bytes(ops);
    if (!delivery_gathers(delivery, group))
        return 0;
    struct span part = partition_trained_part(partition, group, partition->options.rank);
    struct span shard = partition_trained_shard(partition, group, partition->options.rank);
    char *buffer = delivery_shard(delivery, group, arena);
    char *place = buffer + (part.offset - shard.offset) * element_bytes;
    int status = 0;
    if (part.elements > 0 && sum != place)
        status = ops->device->ops->copy(ops->device, ops->stream, place, sum,
                                        part.elements * element_bytes, err);
    if (status)
        return status;
    assert(delivery->sums_count < partition->params->groups_count);
    delivery->sums[delivery->sums_count++] = (struct delivery_sum){group, buffer};
    return pump_sums(delivery, err);
}

int delivery_finish(struct delivery *delivery, struct err *err)
{
    int status = bucket_exchange_drain(delivery->exchange, err);
    while (!status && delivery->sums_begun < delivery->sums_count)
        status = begin_sum(delivery, err);
    delivery->sums_count = delivery->sums_begun = 0;
    return status;
}

int delivery_wait(struct delivery *delivery, uint64_t group, struct err *err)
{
    return param_gather_wait(delivery->gather, group, err);
}

uint64_t delivery_waited_ns(const struct delivery *delivery)
{
    return bucket_exchange_waited_ns(delivery->exchange) + param_gather_waited_ns(delivery->gather);
}
