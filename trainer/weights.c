/*
 * weights — see weights.h.
 */
#include "trainer/weights.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static bool has_own_compute(const struct weights_options *options)
{
    return options->ops->compute != options->ops->master;
}

/* Master weights lie in the whole arena. */
static bool master_is_whole(const struct weights_options *options)
{
    return !options->shards && !has_own_compute(options);
}

static enum mem_kind master_kind(const struct weights_options *options)
{
    return has_own_compute(options) && options->pins_master ? MEM_PINNED : MEM_DEVICE;
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
    return options->shards && has_own_compute(options)
               ? options->partition->shards.elements * ops_compute_bytes(options->ops)
               : 0;
}

static uint64_t buffer_bytes(const struct weights_options *options)
{
    return options->partition->group_elements_max * ops_compute_bytes(options->ops);
}

/* A pass uses one group, and with a tied head the embedding beside it. */
static uint32_t buffers_count(const struct weights_options *options, const struct model *model)
{
    uint64_t groups_count = options->partition->params->groups_count;
    uint64_t wanted = 1 + (model_tied_param(model) >= 0) + (uint64_t)options->ahead;
    if (!options->shards)
        return 0;
    return (uint32_t)(options->reshards && wanted < groups_count ? wanted : groups_count);
}

/* Does this rank need others for its weights? */
static bool gathers(const struct weights_options *options)
{
    for (uint64_t g = 0; g < options->partition->params->groups_count; g++)
        if (!partition_is_whole(options->partition, g))
            return true;
    return false;
}

static struct gather_options gather_options_of(const struct weights_options *options)
{
    return (struct gather_options){.comm = options->comm,
                                   .ops = options->ops,
                                   .partition = options->partition,
                                   .timeout_ns = options->timeout_ns,
                                   .what = "weights",
                                   .in_turn = options->in_turn};
}

struct weights_need weights_need_of(const struct weights_options *options, const struct model *model)
{
    const struct gather_options gather = gather_options_of(options);
    struct weights_need need = {0};
    *(master_kind(options) == MEM_PINNED ? &need.pinned_bytes : &need.device_bytes) += master_bytes(options);
    if (has_own_compute(options) && !options->pins_master)
        need.offloadable_bytes = master_bytes(options);
    if (!options->shards && !master_is_whole(options))
        need.device_bytes += whole_bytes(options);
    need.device_bytes += compute_shard_bytes(options) + buffers_count(options, model) * buffer_bytes(options);
    if (gathers(options))
        need.pinned_bytes += gather_bytes(&gather);
    return need;
}

static int allocate(struct weights *weights, enum mem_kind kind, uint64_t bytes, void **ret_memory,
                    struct err *err)
{
    struct device *device = weights->options.ops->device;
    return bytes == 0 ? 0 : device->ops->mem_alloc(device, kind, bytes, ret_memory, err);
}

static int allocate_arenas(struct weights *weights, struct err *err)
{
    const struct weights_options *options = &weights->options;
    int status = allocate(weights, master_kind(options), master_bytes(options), &weights->master, err);
    if (!status && master_is_whole(options))
        weights->whole = weights->master;
    else if (!status && !options->shards)
        status = allocate(weights, MEM_DEVICE, whole_bytes(options), &weights->whole, err);
    if (!status)
        status = allocate(weights, MEM_DEVICE, compute_shard_bytes(options), &weights->compute, err);
    return status;
}

static int allocate_buffers(struct weights *weights, const struct model *model, struct err *err)
{
    uint32_t count = buffers_count(&weights->options, model);
    weights->buffers = calloc(count, sizeof *weights->buffers);
    weights->group_weights =
        calloc(weights->options.partition->params->groups_count, sizeof *weights->group_weights);
    if (!weights->buffers || !weights->group_weights)
        return err_set(err, -ENOMEM, "out of memory for weights that are gathered");
    int status = 0;
    for (; weights->buffers_count < count && !status; weights->buffers_count += !status) {
        struct weights_buffer *buffer = &weights->buffers[weights->buffers_count];
        buffer->group = UINT64_MAX;
        status = allocate(weights, MEM_DEVICE, buffer_bytes(&weights->options), &buffer->memory, err);
    }
    return status;
}

static void note_order(void *context, uint64_t group, enum model_use use)
{
    struct weights *weights = context;
    (void)use;
    if (weights->order)
        weights->order[weights->order_count] = group;
    weights->order_count++;
}

static int list_order(struct weights *weights, const struct model *model, const struct model_stage *stage,
                      struct err *err)
{
    const struct model_memory memory = {.need = note_order, .context = weights};
    model_walk(model, stage, &memory, MODEL_FORWARD);
    model_walk(model, stage, &memory, MODEL_BACKWARD);
    weights->order = calloc(weights->order_count, sizeof *weights->order);
    if (!weights->order)
        return err_set(err, -ENOMEM, "out of memory for weights that are gathered");
    weights->order_count = 0;
    model_walk(model, stage, &memory, MODEL_FORWARD);
    model_walk(model, stage, &memory, MODEL_BACKWARD);
    return 0;
}

int weights_connect(struct weights *weights, struct err *err)
{
    struct comm *world = weights->options.comm;
    return gathers(&weights->options) ? world->ops->split(world, 0, world->rank, &weights->comm, err) : 0;
}

int weights_open_gather(struct weights *weights, struct err *err)
{
    struct gather_options options = gather_options_of(&weights->options);
    options.comm = weights->comm;
    return weights->comm ? gather_open(&options, &weights->gather, err) : 0;
}

int weights_init(struct weights *weights, const struct weights_options *options, const struct model *model,
                 const struct model_stage *stage, struct err *err)
{
    *weights = (struct weights){.options = *options};
    int status = allocate_arenas(weights, err);
    if (!status && options->shards)
        status = allocate_buffers(weights, model, err);
    if (!status && options->shards)
        status = list_order(weights, model, stage, err);
    if (status)
        weights_deinit(weights);
    return status;
}

static void release(struct weights *weights, enum mem_kind kind, void *memory, uint64_t bytes, bool is_idle)
{
    struct device *device = weights->options.ops->device;
    if (is_idle)
        device->ops->mem_free(device, kind, memory, bytes);
    else
        comm_retain(memory);
}

void weights_deinit(struct weights *weights)
{
    const struct weights_options *options = &weights->options;
    if (!options->ops)
        return;
    bool is_idle = gather_is_idle(weights->gather);
    gather_close(weights->gather);
    comm_close(weights->comm);
    if (weights->whole != weights->master)
        release(weights, MEM_DEVICE, weights->whole, whole_bytes(options), is_idle);
    release(weights, MEM_DEVICE, weights->compute, compute_shard_bytes(options), is_idle);
    release(weights, master_kind(options), weights->master, master_bytes(options), is_idle);
    for (uint32_t i = 0; i < weights->buffers_count; i++)
        release(weights, MEM_DEVICE, weights->buffers[i].memory, buffer_bytes(options), is_idle);
    free(weights->buffers);
    free(weights->order);
    free(weights->group_weights);
    *weights = (struct weights){0};
}

static struct span own_shard(const struct weights *weights, uint64_t group)
{
    return partition_shard(weights->options.partition, group, weights->options.partition->options.rank);
}

static void *at(void *arena, uint64_t element, size_t element_bytes)
{
    return (char *)arena + element * element_bytes;
}

void *weights_shard(const struct weights *weights, uint64_t group)
{
    uint64_t element = master_is_whole(&weights->options) ? own_shard(weights, group).offset
                                                          : weights->options.partition->shards.offsets[group];
    return at(weights->master, element, ops_master_bytes(weights->options.ops));
}

void *weights_compute_shard(const struct weights *weights, uint64_t group)
{
    size_t element_bytes = ops_compute_bytes(weights->options.ops);
    if (!has_own_compute(&weights->options))
        return NULL;
    if (weights->whole)
        return at(weights->whole, own_shard(weights, group).offset, element_bytes);
    return at(weights->compute, weights->options.partition->shards.offsets[group], element_bytes);
}

int weights_fill(struct weights *weights, const void *host_arena, struct err *err)
{
    struct ops *ops = weights->options.ops;
    size_t element_bytes = ops_master_bytes(ops);
    int status = 0;
    for (uint64_t g = 0; g < weights->options.partition->params->groups_count && !status; g++) {
        struct span shard = own_shard(weights, g);
        if (shard.elements > 0)
            status = device_upload(ops->device, weights_shard(weights, g),
                                   (const char *)host_arena + shard.offset * element_bytes,
                                   shard.elements * element_bytes, err);
    }
    return status;
}

int weights_refresh(struct weights *weights, struct err *err)
{
    struct ops *ops = weights->options.ops;
    int status = 0;
    for (uint64_t g = 0; g < weights->options.partition->params->groups_count && !status; g++) {
        uint64_t elements = own_shard(weights, g).elements;
        if (has_own_compute(&weights->options) && elements > 0)
            ops->table->to_compute(ops, weights_compute_shard(weights, g), weights_shard(weights, g),
                                   elements);
        status = weights_updated(weights, g, err);
    }
    return status;
}

int weights_updated(struct weights *weights, uint64_t group, struct err *err)
{
    const struct partition *partition = weights->options.partition;
    size_t element_bytes = ops_compute_bytes(weights->options.ops);
    for (uint32_t i = 0; i < weights->buffers_count; i++)
        if (weights->buffers[i].group == group)
            weights->buffers[i].group = UINT64_MAX;
    if (!weights->whole || partition_is_whole(partition, group))
        return 0;
    return gather_begin(weights->gather, group, GATHER_SHARDS,
                        at(weights->whole, partition_group(partition, group).offset, element_bytes),
                        element_bytes, err);
}

void weights_set_memory(struct weights *weights, struct model_memory *memory)
{
    memory->weights = weights->whole;
    memory->group_weights = weights->group_weights;
}

bool weights_want_hooks(const struct weights *weights)
{
    return weights->options.shards;
}

int weights_begin_pass(struct weights *weights, struct err *err)
{
    weights->order_next = 0;
    return weights->whole ? weights_settle(weights, err) : 0;
}

static struct weights_buffer *buffer_with(struct weights *weights, uint64_t group)
{
    for (uint32_t i = 0; i < weights->buffers_count; i++)
        if (weights->buffers[i].group == group)
            return &weights->buffers[i];
    return NULL;
}

/* Is the group needed before `end` of the order? */
static bool is_near(const struct weights *weights, uint64_t group, uint64_t end)
{
    for (uint64_t i = weights->order_next; i < end && i < weights->order_count; i++)
        if (weights->order[i] == group)
            return true;
    return false;
}

/* The buffer that is free longest and holds nothing that is needed before `end`; NULL where there is none. */
static struct weights_buffer *free_buffer(struct weights *weights, uint64_t end)
{
    struct weights_buffer *best = NULL;
    for (uint32_t i = 0; i < weights->buffers_count; i++) {
        struct weights_buffer *buffer = &weights->buffers[i];
        bool is_wanted = buffer->group != UINT64_MAX && is_near(weights, buffer->group, end);
        if (!buffer->is_used && !is_wanted && (!best || buffer->turn < best->turn))
            best = buffer;
    }
    return best;
}

/* This rank's shard into the buffer, and the others' on their way. */
static int fill_buffer(struct weights *weights, struct weights_buffer *buffer, uint64_t group,
                       struct err *err)
{
    struct ops *ops = weights->options.ops;
    const struct partition *partition = weights->options.partition;
    size_t element_bytes = ops_compute_bytes(ops);
    struct span shard = own_shard(weights, group);
    const void *source = has_own_compute(&weights->options) ? weights_compute_shard(weights, group)
                                                            : weights_shard(weights, group);
    /* what was gathered into it before has come, or it would hold a group that a pass will need */
    int status = buffer->group != UINT64_MAX ? gather_wait(weights->gather, buffer->group, err) : 0;
    buffer->group = group;
    if (!status && shard.elements > 0)
        status = ops->device->ops->copy(
            ops->device, ops->stream,
            at(buffer->memory, shard.offset - partition_group(partition, group).offset, element_bytes),
            source, shard.elements * element_bytes, err);
    return status ? status
                  : gather_begin(weights->gather, group, GATHER_SHARDS, buffer->memory, element_bytes, err);
}

/* Begins to gather what comes next, as far as buffers are free. */
static int look_ahead(struct weights *weights, struct err *err)
{
    uint64_t end = weights->order_next + weights->options.ahead;
    int status = 0;
    for (uint64_t i = weights->order_next; i < end && i < weights->order_count && !status; i++) {
        uint64_t group = weights->order[i];
        if (partition_is_whole(weights->options.partition, group) || buffer_with(weights, group))
            continue;
        struct weights_buffer *buffer = free_buffer(weights, end);
        if (!buffer)
            return 0;
        status = fill_buffer(weights, buffer, group, err);
    }
    return status;
}

static int need(struct weights *weights, uint64_t group, struct err *err)
{
    struct weights_buffer *buffer = buffer_with(weights, group);
    int status = 0;
    assert(weights->order_next < weights->order_count && weights->order[weights->order_next] == group);
    weights->order_next++;
    if (!buffer) {
        buffer = free_buffer(weights, weights->order_next);
        assert(buffer);
        status = fill_buffer(weights, buffer, group, err);
    }
    buffer->is_used = true;
    weights->group_weights[group] = buffer->memory;
    if (!status)
        status = look_ahead(weights, err);
    return status ? status : gather_wait(weights->gather, group, err);
}

void weights_need(struct weights *weights, uint64_t group)
{
    struct err err = {0};
    int status = 0;
    if (!weights->options.shards)
        return;
    if (partition_is_whole(weights->options.partition, group)) {
        weights->order_next++;
        weights->group_weights[group] = has_own_compute(&weights->options)
                                            ? weights_compute_shard(weights, group)
                                            : weights_shard(weights, group);
        return;
    }
    status = need(weights, group, &err);
    if (status && !weights->status) {
        weights->status = status;
        weights->err = err;
    }
}

void weights_done(struct weights *weights, uint64_t group)
{
    struct weights_buffer *buffer = buffer_with(weights, group);
    if (!buffer)
        return;
    buffer->turn = ++weights->turns;
    buffer->is_used = false;
}

int weights_status(const struct weights *weights, struct err *err)
{
    if (weights->status && err)
        *err = weights->err;
    return weights->status;
}

int weights_settle(struct weights *weights, struct err *err)
{
    return weights->gather ? gather_wait_all(weights->gather, err) : 0;
}
