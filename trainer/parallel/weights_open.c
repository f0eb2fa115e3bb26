/*
 * weights_open — see weights.h.
 */
#include "trainer/parallel/weights_buffers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static bool has_separate_compute(const struct weights_options *options)
{
    return options->ops->compute != options->ops->master;
}

static bool master_is_whole(const struct weights_options *options)
{
    return !options->shards && !has_separate_compute(options);
}

static enum mem_kind shard_kind(const struct weights_options *options)
{
    return options->offloads ? MEM_PINNED : MEM_DEVICE;
}

static enum mem_kind master_kind(const struct weights_options *options)
{
    return has_separate_compute(options) && options->pins_master ? MEM_PINNED : shard_kind(options);
}

static uint64_t master_bytes(const struct weights_options *options)
{
    const struct partition *partition = options->partition;
    return (master_is_whole(options) ? partition->params->elements : partition->shards.elements) *
           ops_master_bytes(options->ops);
}

static uint64_t whole_bytes(const struct weights_options *options)
{
    return options->partition->params->elements * ops_compute_bytes(options->ops);
}

static uint64_t compute_shard_bytes(const struct weights_options *options)
{
    return options->shards && has_separate_compute(options)
               ? options->partition->shards.elements * ops_compute_bytes(options->ops)
               : 0;
}

static bool gathers_any_group(const struct weights_options *options)
{
    for (uint64_t g = 0; g < options->partition->params->groups_count; g++)
        if (!partition_is_whole(options->partition, g))
            return true;
    return false;
}

static struct param_gather_options gather_options_of(const struct weights_options *options)
{
    return (struct param_gather_options){.comm = options->comm,
                                         .ops = options->ops,
                                         .stream = options->ops->stream,
                                         .partition = options->partition,
                                         .timeout_ns = options->timeout_ns,
                                         .purpose = "weights",
                                         .trace_name = "gather weights",
                                         .serialized = options->serialized};
}

static int allocate(struct weights *weights, enum mem_kind kind, uint64_t bytes, void **ret_memory,
                    struct err *err)
{
    struct device *device = weights->options.ops->device;
    return bytes == 0 ? 0
                      : device->ops->mem_alloc(device, mem_for(kind, MEM_FOR_PARAMETERS), bytes,
                                               ret_memory, err);
}

static int allocate_arenas(struct weights *weights, struct err *err)
{
    const struct weights_options *options = &weights->options;
    int status =
        allocate(weights, master_kind(options), master_bytes(options), &weights->master, err);
    if (!status && master_is_whole(options))
        weights->whole = weights->master;
    else if (!status && !options->shards)
        status = allocate(weights, MEM_DEVICE, whole_bytes(options), &weights->whole, err);
    if (!status)
        status = allocate(weights, shard_kind(options), compute_shard_bytes(options),
                          &weights->compute, err);
    return status;
}

int weights_connect(struct weights *weights, struct err *err)
{
    struct comm *world = weights->options.comm;
    return gathers_any_group(&weights->options)
               ? world->ops->split(world, 0, world->rank, &weights->comm, err)
               : 0;
}

int weights_open_gather(struct weights *weights, struct err *err)
{
    struct param_gather_options options = gather_options_of(&weights->options);
    options.comm = weights->comm;
    options.stream = weights->stream;
    return weights->comm ? param_gather_open(&options, &weights->gather, err) : 0;
}

int weights_init(struct weights *weights, const struct weights_options *options,
                 const struct model *model, const struct model_stage *stage, struct err *err)
{
    assert(!options->offloads || options->shards);
    *weights = (struct weights){.options = *options};
    if (!options->offloads)
        weights->stream = options->ops->stream;
    int status = allocate_arenas(weights, err);
    if (!status && options->shards)
        status = weights_buffers_open(weights, model, stage, err);
    if (status)
        weights_deinit(weights);
    return status;
}

static void release(struct weights *weights, enum mem_kind kind, void *memory, uint64_t bytes,
                    bool is_idle)
{
    struct device *device = weights->options.ops->device;
    if (is_idle)
        device->ops->mem_free(device, mem_for(kind, MEM_FOR_PARAMETERS), memory, bytes);
    else
        comm_retain(memory);
}

void weights_deinit(struct weights *weights)
{
    const struct weights_options *options = &weights->options;
    if (!options->ops)
        return;
    if (options->offloads && weights->stream) /* its copies access staging and buffers */
        options->ops->device->ops->stream_sync(options->ops->device, weights->stream, NULL);
    bool is_idle = param_gather_is_idle(weights->gather);
    param_gather_close(weights->gather);
    comm_close(weights->comm);
    weights_buffers_close(weights, is_idle);
    if (weights->whole != weights->master)
        release(weights, MEM_DEVICE, weights->whole, whole_bytes(options), is_idle);
    release(weights, shard_kind(options), weights->compute, compute_shard_bytes(options), is_idle);
    release(weights, master_kind(options), weights->master, master_bytes(options), is_idle);
    *weights = (struct weights){0};
}

static struct span own_shard(const struct weights *weights, uint64_t group)
{
    return partition_shard(weights->options.partition, group,
                           weights->options.partition->options.rank);
}

static void *element_at(void *arena, uint64_t element, size_t element_bytes)
{
    return (char *)arena + element * element_bytes;
}

void *weights_shard(const struct weights *weights, uint64_t group)
{
    uint64_t element = master_is_whole(&weights->options)
                           ? own_shard(weights, group).offset
                           : weights->options.partition->shards.offsets[group];
    return element_at(weights->master, element, ops_master_bytes(weights->options.ops));
}

void *weights_compute_shard(const struct weights *weights, uint64_t group)
{
    size_t element_bytes = ops_compute_bytes(weights->options.ops);
    if (!has_separate_compute(&weights->options))
        return NULL;
    if (weights->whole)
        return element_at(weights->whole, own_shard(weights, group).offset, element_bytes);
    return element_at(weights->compute, weights->options.partition->shards.offsets[group],
                      element_bytes);
}

int weights_fill_group(struct weights *weights, uint64_t group, const void *host_group,
                       struct err *err)
{
    struct ops *ops = weights->options.ops;
    size_t element_bytes = ops_master_bytes(ops);
    struct span shard = own_shard(weights, group);
    uint64_t place = shard.offset - partition_group(weights->options.partition, group).offset;
    if (shard.elements == 0)
        return 0;
    return device_upload(ops->device, weights_shard(weights, group),
                         (const char *)host_group + place * element_bytes,
                         shard.elements * element_bytes, err);
}

int weights_refresh(struct weights *weights, struct err *err)
{
    struct ops *ops = weights->options.ops;
    int status = 0;
    for (uint64_t g = 0; g < weights->options.partition->params->groups_count && !status; g++) {
        uint64_t elements = own_shard(weights, g).elements;
        if (has_separate_compute(&weights->options) && elements > 0)
            ops->table->convert_to_compute(ops, weights_compute_shard(weights, g),
                                           weights_shard(weights, g), elements);
        status = weights_finish_update(weights, g, err);
    }
    return status;
}

int weights_finish_update(struct weights *weights, uint64_t group, struct err *err)
{
    const struct partition *partition = weights->options.partition;
    struct ops *ops = weights->options.ops;
    size_t element_bytes = ops_compute_bytes(ops);
    weights_buffers_invalidate(weights, group);
    if (weights->options.offloads)
        return ops->device->ops->event_record(ops->device, weights->updated_event, ops->stream,
                                              err);
    if (!weights->whole || partition_is_whole(partition, group))
        return 0;
    return param_gather_begin(
        weights->gather, group, PARAM_GATHER_SHARDS,
        element_at(weights->whole, partition_group(partition, group).offset, element_bytes),
        element_bytes, err);
}

void weights_set_memory(struct weights *weights, struct model_memory *memory)
{
    memory->weights = weights->whole;
    memory->group_weights = weights->group_weights;
}

bool weights_require_hooks(const struct weights *weights)
{
    return weights->options.shards;
}

int weights_status(const struct weights *weights, struct err *err)
{
    if (weights->status && err)
        *err = weights->err;
    return weights->status;
}

int weights_drain(struct weights *weights, struct err *err)
{
    return weights->gather ? param_gather_wait_all(weights->gather, err) : 0;
}
