/*
 * device_count — bytes allocated now and at most, by kind, counted without a lock. Internal to device/. Header only.
 */
#ifndef MILLRACE_DEVICE_DEVICE_COUNT_H
#define MILLRACE_DEVICE_DEVICE_COUNT_H

#include "device/device.h"

#include <stdatomic.h>

struct device_count {
    _Atomic uint64_t used_bytes[MEM_KIND_COUNT], peak_bytes[MEM_KIND_COUNT];
};

static inline void device_count_add(struct device_count *count, enum mem_kind kind, uint64_t bytes)
{
    uint64_t used = atomic_fetch_add_explicit(&count->used_bytes[kind], bytes, memory_order_relaxed) + bytes;
    uint64_t peak = atomic_load_explicit(&count->peak_bytes[kind], memory_order_relaxed);
    while (used > peak && !atomic_compare_exchange_weak_explicit(&count->peak_bytes[kind], &peak, used,
                                                                 memory_order_relaxed, memory_order_relaxed))
        ;
}

static inline void device_count_subtract(struct device_count *count, enum mem_kind kind, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&count->used_bytes[kind], bytes, memory_order_relaxed);
}

static inline void device_count_read(struct device_count *count, struct device_mem_info *info)
{
    for (int kind = 0; kind < MEM_KIND_COUNT; kind++) {
        info->used_bytes[kind] = atomic_load_explicit(&count->used_bytes[kind], memory_order_relaxed);
        info->peak_bytes[kind] = atomic_load_explicit(&count->peak_bytes[kind], memory_order_relaxed);
    }
}

#endif
