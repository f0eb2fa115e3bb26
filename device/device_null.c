/*
 * device_null — a device that allocates and moves nothing, but counts requests for estimates.
 *
 * Addresses come from a range that the kernel never maps in a process (2^55 and above on x86-64 and
 * arm64), with a separate part for each kind. Accesses fault, and allocations never overlap.
 */
#include "device/device_null.h"

#include "base/bytes.h"
#include "device/device_cpu.h"
#include "device/device_mem_stats.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define NULL_ADDRESS_BASE (UINT64_C(1) << 55)
#define NULL_KIND_SHIFT   52
#define NULL_BYTES_MAX    (UINT64_C(1) << NULL_KIND_SHIFT) /* over all allocations */

struct device_null {
    struct device base;
    struct device_ops ops;
    struct device_mem_stats mem_stats;
    /* Offset of the next allocation, shared by all kinds; freed addresses are not reused. */
    _Atomic uint64_t reserved_bytes;
    _Atomic uint64_t transfer_bytes;
};

static int null_mem_alloc(struct device *device, unsigned kind, size_t bytes, void **ret_memory,
                          struct err *err)
{
    struct device_null *null = (struct device_null *)device;
    assert(bytes > 0);
    uint64_t whole = bytes_round_up(bytes_min(bytes, NULL_BYTES_MAX + 1), DEVICE_MEM_ALIGN_BYTES);
    uint64_t at = atomic_load_explicit(&null->reserved_bytes, memory_order_relaxed);
    do {
        if (whole > NULL_BYTES_MAX - at)
            return err_set(err, -ENOMEM,
                           "the memory of the null device is exhausted: %zu bytes more", bytes);
    } while (!atomic_compare_exchange_weak_explicit(&null->reserved_bytes, &at, at + whole,
                                                    memory_order_relaxed, memory_order_relaxed));
    device_mem_stats_add(&null->mem_stats, kind, bytes);
    *ret_memory = (void *)(uintptr_t)(NULL_ADDRESS_BASE +
                                      ((uint64_t)mem_kind_of(kind) << NULL_KIND_SHIFT) + at);
    return 0;
}

static void null_mem_free(struct device *device, unsigned kind, void *memory, size_t bytes)
{
    if (memory)
        device_mem_stats_sub(&((struct device_null *)device)->mem_stats, kind, bytes);
}

static void null_mem_info(struct device *device, struct device_mem_info *ret_info)
{
    *ret_info = (struct device_mem_info){0};
    device_mem_stats_read(&((struct device_null *)device)->mem_stats, ret_info);
}

enum mem_kind device_null_kind(const void *memory)
{
    return (enum mem_kind)(((uintptr_t)memory - NULL_ADDRESS_BASE) >> NULL_KIND_SHIFT);
}

void device_null_add_transfer(struct device *device, uint64_t bytes)
{
    if (!device->ops->is_host)
        atomic_fetch_add_explicit(&((struct device_null *)device)->transfer_bytes, bytes,
                                  memory_order_relaxed);
}

uint64_t device_null_transfer_bytes(const struct device *device)
{
    return atomic_load_explicit(&((const struct device_null *)device)->transfer_bytes,
                                memory_order_relaxed);
}

static int null_copy(struct device *device, struct device_stream *stream, void *target,
                     const void *source, size_t bytes, struct err *err)
{
    (void)stream, (void)err;
    if ((device_null_kind(target) == MEM_DEVICE) != (device_null_kind(source) == MEM_DEVICE))
        device_null_add_transfer(device, bytes);
    return 0;
}

static int null_fill(struct device *device, struct device_stream *stream, void *target, int byte,
                     size_t bytes, struct err *err)
{
    (void)device, (void)stream, (void)target, (void)byte, (void)bytes, (void)err;
    return 0;
}

static int null_open(bool is_host, struct device **ret_device, struct err *err)
{
    struct device_null *null = calloc(1, sizeof *null);
    if (!null)
        return err_set(err, -ENOMEM, "out of memory for the null device");
    null->ops = device_cpu_ops;
    null->ops.name = "null";
    null->ops.is_host = is_host;
    null->ops.mem_alloc = null_mem_alloc;
    null->ops.mem_free = null_mem_free;
    null->ops.mem_info = null_mem_info;
    null->ops.copy = null_copy;
    null->ops.fill = null_fill;
    null->base.ops = &null->ops;
    *ret_device = &null->base;
    return 0;
}

int device_null_open(struct device **ret_device, struct err *err)
{
    return null_open(false, ret_device, err);
}

int device_null_open_host(struct device **ret_device, struct err *err)
{
    return null_open(true, ret_device, err);
}
