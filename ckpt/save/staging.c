#include "ckpt/save/staging.h"

#include "base/bytes.h"
#include "ckpt/save/consolidated.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static size_t memory_bytes(const struct staging *staging)
{
    return (size_t)staging->buffers_count * CKPT_BLOCK_BYTES;
}

static unsigned memory_kind(const struct staging *staging)
{
    return mem_for(staging->is_async ? MEM_PINNED : MEM_HUGE, MEM_FOR_STAGING);
}

static int open_copier(struct device *device, struct staging_copier *copier, struct err *err)
{
    int status = device->ops->stream_open(device, &copier->stream, err);
    return status ? status : device->ops->event_open(device, &copier->copied, err);
}

/* Copies boundary bytes to pinned memory, since the exchange's buffers are pageable. */
static int open_boundary(struct staging *staging, struct err *err)
{
    struct device *device = staging->device;
    const struct consolidated *consolidated = staging->layout->consolidated;
    for (uint64_t i = 0; consolidated && i < consolidated->boundaries_count; i++)
        staging->boundary_bytes += consolidated->boundaries[i].size_bytes;
    int status = device->ops->event_open(device, &staging->boundary_copied, err);
    if (!status && staging->boundary_bytes > 0)
        status = device->ops->mem_alloc(device, mem_for(MEM_PINNED, MEM_FOR_STAGING),
                                        staging->boundary_bytes, (void **)&staging->boundary_memory,
                                        err);
    return status;
}

/* Opens two streams, and an event per buffer, for a device that queues copies. */
static int open_copies(struct staging *staging, struct err *err)
{
    struct device *device = staging->device;
    int status = 0;
    staging->copied_events = calloc(staging->buffers_count, sizeof(struct device_event *));
    if (!staging->copied_events)
        return err_set(err, -ENOMEM, "out of memory for the events of %u buffers",
                       staging->buffers_count);
    for (unsigned i = 0; i < staging->buffers_count && !status; i++)
        status = device->ops->event_open(device, &staging->copied_events[i], err);
    for (int i = 0; i < STAGING_THREADS_COUNT && !status; i++)
        status = open_copier(device, &staging->copiers[i], err);
    return status ? status : open_boundary(staging, err);
}

static void close_copies(struct staging *staging)
{
    struct device *device = staging->device;
    for (int i = 0; i < STAGING_THREADS_COUNT; i++) {
        device->ops->event_close(device, staging->copiers[i].copied);
        device->ops->stream_close(device, staging->copiers[i].stream);
    }
    for (unsigned i = 0; i < staging->buffers_count && staging->copied_events; i++)
        device->ops->event_close(device, staging->copied_events[i]);
    free(staging->copied_events);
    device->ops->event_close(device, staging->boundary_copied);
    device->ops->mem_free(device, mem_for(MEM_PINNED, MEM_FOR_STAGING), staging->boundary_memory,
                          staging->boundary_bytes);
}

int staging_init(struct staging *staging, const struct layout *layout, struct device *device,
                 struct device_stream *updates, unsigned buffers_count, struct err *err)
{
    *staging = (struct staging){
        .layout = layout, .device = device, .updates = updates, .buffers_count = buffers_count};
    int status = device ? 0 : device_cpu_open(&staging->cpu, err);
    if (status)
        return status;
    if (!device)
        staging->device = device = staging->cpu;
    staging->is_async = !device->ops->is_host;
    status = device->ops->mem_alloc(device, memory_kind(staging), memory_bytes(staging),
                                    (void **)&staging->memory, err);
    if (!status && staging->is_async)
        status = open_copies(staging, err);
    if (status)
        staging_deinit(staging);
    return status;
}

void staging_deinit(struct staging *staging)
{
    struct device *device = staging->device;
    if (!device)
        return;
    if (staging->is_async)
        close_copies(staging);
    device->ops->mem_free(device, memory_kind(staging), staging->memory, memory_bytes(staging));
    device_close(staging->cpu);
    *staging = (struct staging){0};
}

void staging_prefault(const struct staging *staging, unsigned buffer)
{
    if (!staging->is_async) /* best effort: before Linux 5.14 the first copies take longer */
        (void)madvise(staging_buffer(staging, buffer), CKPT_BLOCK_BYTES, MADV_POPULATE_WRITE);
}

/* Records the events after the copies queued for a buffer. */
static int mark_copies(struct staging *staging, struct staging_copier *copier, unsigned buffer,
                       struct err *err)
{
    struct device *device = staging->device;
    int status =
        device->ops->event_record(device, staging->copied_events[buffer], copier->stream, err);
    return status ? status : device->ops->event_record(device, copier->copied, copier->stream, err);
}

int staging_copy(struct staging *staging, enum staging_thread thread, uint64_t block,
                 unsigned number, struct err *err)
{
    const struct layout *layout = staging->layout;
    struct device *device = staging->device;
    struct staging_copier *copier = &staging->copiers[thread];
    char *buffer = staging_buffer(staging, number);
    uint64_t begin = layout->blocks[block].offset_bytes, bytes = layout->blocks[block].size_bytes;
    uint64_t at = 0;
    for (uint64_t s = layout->blocks[block].segment; at < bytes; s++) {
        const struct layout_segment *segment = &layout->segments[s];
        uint64_t skip = begin + at - segment->offset_bytes;
        uint64_t part = bytes_min(segment->size_bytes - skip, bytes - at);
        if (staging->is_async && segment->source == LAYOUT_ARRAY) {
            int status = device->ops->copy(device, copier->stream, buffer + at,
                                           segment->data + skip, part, err);
            if (status)
                return status;
        } else if (segment->source != LAYOUT_RECEIVED) {
            memcpy(buffer + at, segment->data + skip, part);
        }
        at += part;
    }
    memset(buffer + bytes, 0, bytes_round_up(bytes, IO_ALIGN_BYTES) - bytes);
    return staging->is_async ? mark_copies(staging, copier, number, err) : 0;
}

int staging_await(struct staging *staging, unsigned buffer, struct err *err)
{
    struct device *device = staging->device;
    return staging->is_async ? device->ops->event_wait(device, staging->copied_events[buffer], err)
                             : 0;
}

void staging_add_received(const struct staging *staging, uint64_t block, unsigned number)
{
    const struct layout *layout = staging->layout;
    char *buffer = staging_buffer(staging, number);
    uint64_t begin = layout->blocks[block].offset_bytes,
             end = begin + layout->blocks[block].size_bytes;
    for (uint64_t s = layout->blocks[block].segment;
         s < layout->segments_count && layout->segments[s].offset_bytes < end; s++) {
        const struct layout_segment *segment = &layout->segments[s];
        uint64_t from = segment->offset_bytes > begin ? segment->offset_bytes : begin;
        uint64_t to = bytes_min(segment->offset_bytes + segment->size_bytes, end);
        if (segment->source == LAYOUT_RECEIVED)
            memcpy(buffer + (from - begin), segment->data + (from - segment->offset_bytes),
                   to - from);
    }
}

int staging_copy_boundary(struct staging *staging, struct err *err)
{
    const struct consolidated *consolidated = staging->layout->consolidated;
    struct device *device = staging->device;
    struct device_stream *stream = staging->copiers[STAGING_CALLER].stream;
    char *next = staging->boundary_memory;
    int status = 0;
    for (uint64_t i = 0; consolidated && i < consolidated->boundaries_count && !status; i++) {
        const struct consolidated_boundary *boundary = &consolidated->boundaries[i];
        if (staging->is_async)
            status =
                device->ops->copy(device, stream, next, boundary->data, boundary->size_bytes, err);
        else
            memcpy(boundary->buffer, boundary->data, boundary->size_bytes);
        next += staging->is_async ? boundary->size_bytes : 0;
    }
    if (!staging->boundary_memory || status)
        return status;
    status = device->ops->event_record(device, staging->boundary_copied, stream, err);
    return status ? status
                  : device->ops->event_record(device, staging->copiers[STAGING_CALLER].copied,
                                              stream, err);
}

int staging_await_boundary(struct staging *staging, struct err *err)
{
    struct device *device = staging->device;
    const struct consolidated *consolidated = staging->layout->consolidated;
    const char *next = staging->boundary_memory;
    int status = next ? device->ops->event_wait(device, staging->boundary_copied, err) : 0;
    for (uint64_t i = 0; next && i < consolidated->boundaries_count && !status; i++) {
        memcpy(consolidated->boundaries[i].buffer, next, consolidated->boundaries[i].size_bytes);
        next += consolidated->boundaries[i].size_bytes;
    }
    return status;
}

int staging_order_updates(struct staging *staging, struct err *err)
{
    struct device *device = staging->device;
    int status = 0;
    for (int i = 0; i < STAGING_THREADS_COUNT && staging->is_async && !status; i++) {
        struct device_event *copied = staging->copiers[i].copied;
        status = staging->updates
                     ? device->ops->stream_wait_event(device, staging->updates, copied, err)
                     : device->ops->event_wait(device, copied, err);
    }
    return status;
}

void staging_drain(struct staging *staging)
{
    struct device *device = staging->device;
    for (int i = 0; i < STAGING_THREADS_COUNT && staging->is_async; i++)
        device->ops->stream_sync(device, staging->copiers[i].stream, NULL);
}

const char *staging_direct_data(const struct staging *staging, uint64_t block, unsigned align_bytes)
{
    const struct layout *layout = staging->layout;
    const struct layout_segment *segment = &layout->segments[layout->blocks[block].segment];
    uint64_t begin = layout->blocks[block].offset_bytes, bytes = layout->blocks[block].size_bytes;
    /* Wraps around if the segment begins within the block; rejected below. */
    uint64_t skip = begin - segment->offset_bytes;
    if (staging->is_async || align_bytes == 0 || segment->offset_bytes > begin ||
        segment->size_bytes - skip < bytes || bytes % IO_ALIGN_BYTES != 0 ||
        (uintptr_t)(segment->data + skip) % align_bytes != 0)
        return NULL;
    return segment->data + skip;
}
