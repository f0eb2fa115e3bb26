/*
 * weights_buffers — see weights_buffers.h.
 */
#include "trainer/parallel/weights_buffers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

uint64_t weights_buffer_bytes(const struct weights_options *options)
{
    return options->partition->group_elements_max * ops_compute_bytes(options->ops);
}

/* A tied head also uses the embedding's group. */
static uint32_t concurrent_groups(const struct weights_options *options, const struct model *model)
{
    const struct params *params = options->partition->params;
    int64_t tied = model_tied_param(model);
    return tied >= 0 && params->list[tied].group + 1 < params->groups_count ? 2 : 1;
}

uint32_t weights_buffers_count(const struct weights_options *options, const struct model *model)
{
    uint64_t count = options->partition->params->groups_count;
    uint64_t wanted = concurrent_groups(options, model) + (uint64_t)options->prefetch_count;
    if (!options->shards)
        return 0;
    if (options->reshards && wanted < count)
        count = wanted;
    if (options->groups_max > 0 && options->groups_max < count)
        count = options->groups_max;
    return (uint32_t)count;
}

static int check_buffers(const struct weights_options *options, const struct model *model,
                         struct err *err)
{
    uint32_t used = concurrent_groups(options, model);
    if (!options->shards || options->groups_max == 0 || options->groups_max >= used)
        return 0;
    err_set(err, -EINVAL, "parallel.groups_at_once is less than a pass needs");
    err_expected(err, "at least %u: the head and the embedding, whose table it shares", used);
    err_found(err, "%u", options->groups_max);
    return -EINVAL;
}

static int allocate_buffers(struct weights *weights, const struct model *model, struct err *err)
{
    struct device *device = weights->options.ops->device;
    uint32_t count = weights_buffers_count(&weights->options, model);
    weights->buffers = calloc(count, sizeof *weights->buffers);
    weights->group_weights =
        calloc(weights->options.partition->params->groups_count, sizeof *weights->group_weights);
    if (!weights->buffers || !weights->group_weights)
        return err_set(err, -ENOMEM, "out of memory for weights that are gathered");
    int status = 0;
    for (; weights->buffers_count < count && !status; weights->buffers_count += !status) {
        struct weights_buffer *buffer = &weights->buffers[weights->buffers_count];
        buffer->group = UINT64_MAX;
        status =
            device->ops->mem_alloc(device, mem_for(MEM_DEVICE, MEM_FOR_PARAMETERS),
                                   weights_buffer_bytes(&weights->options), &buffer->memory, err);
    }
    return status;
}

/* Opens the stream for copies from pinned memory, and its events. */
static int open_stream(struct weights *weights, struct err *err)
{
    struct device *device = weights->options.ops->device;
    int status = device->ops->stream_open(device, &weights->stream, err);
    if (!status)
        status = device->ops->event_open(device, &weights->updated_event, err);
    for (uint32_t i = 0; i < weights->buffers_count && !status; i++) {
        status = device->ops->event_open(device, &weights->buffers[i].used_event, err);
        if (!status)
            status = device->ops->event_open(device, &weights->buffers[i].copied_event, err);
    }
    return status;
}

static void close_stream(struct weights *weights)
{
    struct device *device = weights->options.ops->device;
    for (uint32_t i = 0; i < weights->buffers_count; i++) {
        device->ops->event_close(device, weights->buffers[i].used_event);
        device->ops->event_close(device, weights->buffers[i].copied_event);
    }
    device->ops->event_close(device, weights->updated_event);
    device->ops->stream_close(device, weights->stream);
}

static void record_group_order(void *context, uint64_t group, enum pass_direction direction)
{
    struct weights *weights = context;
    (void)direction;
    if (weights->group_order)
        weights->group_order[weights->order_count] = group;
    weights->order_count++;
}

static int list_group_order(struct weights *weights, const struct model *model,
                            const struct model_stage *stage, struct err *err)
{
    const struct model_memory memory = {.acquire = record_group_order, .context = weights};
    model_walk(model, stage, &memory, MODEL_FORWARD);
    model_walk(model, stage, &memory, MODEL_BACKWARD);
    weights->group_order = calloc(weights->order_count, sizeof *weights->group_order);
    if (!weights->group_order)
        return err_set(err, -ENOMEM, "out of memory for weights that are gathered");
    weights->order_count = 0;
    model_walk(model, stage, &memory, MODEL_FORWARD);
    model_walk(model, stage, &memory, MODEL_BACKWARD);
    return 0;
}

int weights_buffers_open(struct weights *weights, const struct model *model,
                         const struct model_stage *stage, struct err *err)
{
    int status = check_buffers(&weights->options, model, err);
    if (!status)
        status = allocate_buffers(weights, model, err);
    if (!status && weights->options.offloads)
        status = open_stream(weights, err);
    return status ? status : list_group_order(weights, model, stage, err);
}

void weights_buffers_close(struct weights *weights, bool is_idle)
{
    struct device *device = weights->options.ops->device;
    if (weights->options.offloads)
        close_stream(weights);
    for (uint32_t i = 0; i < weights->buffers_count; i++) {
        if (is_idle)
            device->ops->mem_free(device, mem_for(MEM_DEVICE, MEM_FOR_PARAMETERS),
                                  weights->buffers[i].memory,
                                  weights_buffer_bytes(&weights->options));
        else
            comm_retain(weights->buffers[i].memory);
    }
    free(weights->buffers);
    free(weights->group_order);
    free(weights->group_weights);
}

static struct weights_buffer *find_buffer(struct weights *weights, uint64_t group)
{
    for (uint32_t i = 0; i < weights->buffers_count; i++)
        if (weights->buffers[i].group == group)
            return &weights->buffers[i];
    return NULL;
}

void weights_buffers_invalidate(struct weights *weights, uint64_t group)
{
    struct weights_buffer *buffer = find_buffer(weights, group);
    if (!buffer)
        return;
    assert(!buffer->is_gathering); /* the pass before the update waited for it */
    buffer->group = UINT64_MAX;
}

int weights_begin_pass(struct weights *weights, struct err *err)
{
    struct device *device = weights->options.ops->device;
    weights->order_next = 0;
    if (weights->options.offloads)
        return device->ops->stream_wait_event(device, weights->stream, weights->updated_event, err);
    return weights->whole ? weights_drain(weights, err) : 0;
}

static bool is_needed_before(const struct weights *weights, uint64_t group, uint64_t end)
{
    for (uint64_t i = weights->order_next; i < end && i < weights->order_count; i++)
        if (weights->group_order[i] == group)
            return true;
    return false;
}

/* The least recently used free buffer whose group is not needed before `end`, or NULL. */
static struct weights_buffer *find_free_buffer(struct weights *weights, uint64_t end)
{
    struct weights_buffer *best = NULL;
    for (uint32_t i = 0; i < weights->buffers_count; i++) {
        struct weights_buffer *buffer = &weights->buffers[i];
        bool is_wanted =
            buffer->group != UINT64_MAX && is_needed_before(weights, buffer->group, end);
        if (!buffer->is_used && !is_wanted && (!best || buffer->last_use < best->last_use))
            best = buffer;
    }
    return best;
}

static void record_failure(struct weights *weights, int status, const struct err *err)
{
    if (!status || weights->status)
        return;
    weights->status = status;
    weights->err = *err;
}

/* Whether passes use the group without a buffer. */
static bool is_unbuffered(const struct weights *weights, uint64_t group)
{
    return partition_is_whole(weights->options.partition, group) && !weights->options.offloads;
}

static const void *compute_type_shard(const struct weights *weights, uint64_t group)
{
    const void *compute = weights_compute_shard(weights, group);
    return compute ? compute : weights_shard(weights, group);
}

/* Queues the copy of this rank's shard into the buffer, after the buffer's last use. */
static int copy_shard(struct weights *weights, struct weights_buffer *buffer, uint64_t group,
                      struct err *err)
{
    struct device *device = weights->options.ops->device;
    size_t element_bytes = ops_compute_bytes(weights->options.ops);
    const struct partition *partition = weights->options.partition;
    struct span shard = partition_shard(partition, group, partition->options.rank);
    uint64_t first = shard.offset - partition_group(partition, group).offset;
    const void *source = compute_type_shard(weights, group);
    int status = 0;
    if (weights->options.offloads)
        status = device->ops->stream_wait_event(device, weights->stream, buffer->used_event, err);
    if (!status && shard.elements > 0)
        status = device->ops->copy(device, weights->stream,
                                   (char *)buffer->memory + first * element_bytes, source,
                                   shard.elements * element_bytes, err);
    if (!status && weights->options.offloads)
        status = device->ops->event_record(device, buffer->copied_event, weights->stream, err);
    return status;
}

static int wait_for_gather(struct weights *weights, struct weights_buffer *buffer, struct err *err)
{
    struct device *device = weights->options.ops->device;
    if (!buffer->is_gathering)
        return 0;
    int status = param_gather_wait(weights->gather, buffer->group, err);
    if (!status && weights->options.offloads)
        status = device->ops->event_record(device, buffer->copied_event, weights->stream, err);
    buffer->is_gathering = status != 0;
    return status;
}

/* Copies this rank's shard into the buffer and starts gathering the others. */
static int fill_buffer(struct weights *weights, struct weights_buffer *buffer, uint64_t group,
                       struct err *err)
{
    int status = wait_for_gather(weights, buffer, err);
    if (!status)
        status = copy_shard(weights, buffer, group, err);
    buffer->group = group;
    if (status || partition_is_whole(weights->options.partition, group))
        return status;
    buffer->is_gathering = true;
    return param_gather_begin(weights->gather, group, PARAM_GATHER_SHARDS, buffer->memory,
                              ops_compute_bytes(weights->options.ops), err);
}

/* Starts filling free buffers with the next groups. */
static int prefetch(struct weights *weights, struct err *err)
{
    uint64_t end = weights->order_next + weights->options.prefetch_count;
    int status = 0;
    for (uint64_t i = weights->order_next; i < end && i < weights->order_count && !status; i++) {
        uint64_t group = weights->group_order[i];
        if (is_unbuffered(weights, group) || find_buffer(weights, group))
            continue;
        struct weights_buffer *buffer = find_free_buffer(weights, end);
        if (!buffer)
            return 0;
        status = fill_buffer(weights, buffer, group, err);
    }
    return status;
}

static int acquire_buffer(struct weights *weights, uint64_t group, struct err *err)
{
    struct ops *ops = weights->options.ops;
    struct weights_buffer *buffer = find_buffer(weights, group);
    int status = 0;
    assert(weights->order_next < weights->order_count &&
           weights->group_order[weights->order_next] == group);
    weights->order_next++;
    if (!buffer) {
        buffer = find_free_buffer(weights, weights->order_next);
        assert(buffer);
        status = fill_buffer(weights, buffer, group, err);
    }
    buffer->is_used = true;
    weights->group_weights[group] = buffer->memory;
    if (!status)
        status = prefetch(weights, err);
    if (!status)
        status = wait_for_gather(weights, buffer, err);
    if (!status && weights->options.offloads)
        status = ops->device->ops->stream_wait_event(ops->device, ops->stream, buffer->copied_event,
                                                     err);
    return status;
}

void weights_acquire(struct weights *weights, uint64_t group)
{
    struct err err = {0};
    if (!weights->options.shards)
        return;
    if (is_unbuffered(weights, group)) {
        weights->order_next++;
        weights->group_weights[group] = compute_type_shard(weights, group);
        return;
    }
    record_failure(weights, acquire_buffer(weights, group, &err), &err);
}

void weights_release(struct weights *weights, uint64_t group)
{
    struct ops *ops = weights->options.ops;
    struct weights_buffer *buffer = find_buffer(weights, group);
    struct err err = {0};
    if (!buffer)
        return;
    buffer->last_use = ++weights->uses_count;
    buffer->is_used = false;
    if (weights->options.offloads)
        record_failure(
            weights,
            ops->device->ops->event_record(ops->device, buffer->used_event, ops->stream, &err),
            &err);
}
