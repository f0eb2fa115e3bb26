/*
 * device_cpu — the CPU as a device. Streams are always idle and events always done, so an empty
 * token serves as either.
 */
#include "device/device_cpu.h"

#include "device/device_mem_stats.h"
#include "device/device_pages.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct device_cpu {
    struct device base;
    struct device_mem_stats mem_stats;
};

/* No state; allocated so that a missing close shows as a leak, as on a GPU. */
struct device_stream {
    char token;
};

struct device_event {
    char token;
};

static int out_of_memory_error(enum mem_kind kind, size_t bytes, struct err *err)
{
    static const char *const names[MEM_KIND_COUNT] = {"plain", "huge-page", "pinned", "device"};
    err_set(err, -ENOMEM, "out of memory: %zu bytes of %s memory on the CPU", bytes, names[kind]);
    err_advise(err, "reduce the batch, the model or the memory budget");
    return -ENOMEM;
}

static int cpu_mem_alloc(struct device *device, unsigned kind, size_t bytes, void **ret_memory,
                         struct err *err)
{
    assert(bytes > 0);
    void *memory = pages_map(mem_kind_of(kind) == MEM_HUGE, bytes);
    if (!memory)
        return out_of_memory_error(mem_kind_of(kind), bytes, err);
    device_mem_stats_add(&((struct device_cpu *)device)->mem_stats, kind, bytes);
    *ret_memory = memory;
    return 0;
}

static void cpu_mem_free(struct device *device, unsigned kind, void *memory, size_t bytes)
{
    if (!memory)
        return;
    pages_unmap(memory, bytes);
    device_mem_stats_sub(&((struct device_cpu *)device)->mem_stats, kind, bytes);
}

static void cpu_mem_info(struct device *device, struct device_mem_info *ret_info)
{
    *ret_info = (struct device_mem_info){0};
    device_mem_stats_read(&((struct device_cpu *)device)->mem_stats, ret_info);
    long page_bytes = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES),
         available = sysconf(_SC_AVPHYS_PAGES);
    if (page_bytes > 0 && pages > 0)
        ret_info->total_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    if (page_bytes > 0 && available > 0)
        ret_info->free_bytes = (uint64_t)available * (uint64_t)page_bytes;
}

static int cpu_stream_open(struct device *device, struct device_stream **ret_stream,
                           struct err *err)
{
    (void)device;
    struct device_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return err_set(err, -ENOMEM, "out of memory for a stream");
    *ret_stream = stream;
    return 0;
}

static void cpu_stream_close(struct device *device, struct device_stream *stream)
{
    (void)device;
    free(stream);
}

static int cpu_stream_wait_event(struct device *device, struct device_stream *stream,
                                 struct device_event *event, struct err *err)
{
    (void)device, (void)stream, (void)event, (void)err;
    return 0;
}

static int cpu_stream_sync(struct device *device, struct device_stream *stream, struct err *err)
{
    (void)device, (void)stream, (void)err;
    return 0;
}

static int cpu_event_open(struct device *device, struct device_event **ret_event, struct err *err)
{
    (void)device;
    struct device_event *event = calloc(1, sizeof *event);
    if (!event)
        return err_set(err, -ENOMEM, "out of memory for an event");
    *ret_event = event;
    return 0;
}

static void cpu_event_close(struct device *device, struct device_event *event)
{
    (void)device;
    free(event);
}

static int cpu_event_record(struct device *device, struct device_event *event,
                            struct device_stream *stream, struct err *err)
{
    (void)device, (void)event, (void)stream, (void)err;
    return 0;
}

static int cpu_event_done(struct device *device, struct device_event *event, bool *ret_done,
                          struct err *err)
{
    (void)device, (void)event, (void)err;
    *ret_done = true;
    return 0;
}

static int cpu_event_wait(struct device *device, struct device_event *event, struct err *err)
{
    (void)device, (void)event, (void)err;
    return 0;
}

static int cpu_copy(struct device *device, struct device_stream *stream, void *target,
                    const void *source, size_t bytes, struct err *err)
{
    (void)device, (void)stream, (void)err;
    if (bytes > 0)
        memcpy(target, source, bytes);
    return 0;
}

static int cpu_fill(struct device *device, struct device_stream *stream, void *target, int byte,
                    size_t bytes, struct err *err)
{
    (void)device, (void)stream, (void)err;
    if (bytes > 0)
        memset(target, byte, bytes);
    return 0;
}

static void cpu_close(struct device *device)
{
    free(device);
}

const struct device_ops device_cpu_ops = {
    .name = "cpu",
    .is_host = true,
    .mem_alloc = cpu_mem_alloc,
    .mem_free = cpu_mem_free,
    .mem_info = cpu_mem_info,
    .stream_open = cpu_stream_open,
    .stream_close = cpu_stream_close,
    .stream_wait_event = cpu_stream_wait_event,
    .stream_sync = cpu_stream_sync,
    .event_open = cpu_event_open,
    .event_close = cpu_event_close,
    .event_record = cpu_event_record,
    .event_done = cpu_event_done,
    .event_wait = cpu_event_wait,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .close = cpu_close,
};

int device_cpu_open(struct device **ret_device, struct err *err)
{
    struct device_cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return err_set(err, -ENOMEM, "out of memory for the CPU device");
    cpu->base.ops = &device_cpu_ops;
    *ret_device = &cpu->base;
    return 0;
}
