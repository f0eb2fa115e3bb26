/*
 * device_mem_stats — lock-free counts of current and peak allocated bytes, by kind and by use.
 * Internal to device/. Header only.
 */
#ifndef MILLRACE_DEVICE_DEVICE_MEM_STATS_H
#define MILLRACE_DEVICE_DEVICE_MEM_STATS_H

#include "device/device.h"

#include <stdatomic.h>

struct device_mem_counter {
    _Atomic uint64_t used_bytes, peak_bytes;
};

struct device_mem_stats {
    struct device_mem_counter kinds[MEM_KIND_COUNT], uses[MEM_USE_COUNT][MEM_KIND_COUNT];
};

static inline void device_mem_counter_add(struct device_mem_counter *counter, uint64_t bytes)
{
    uint64_t used =
        atomic_fetch_add_explicit(&counter->used_bytes, bytes, memory_order_relaxed) + bytes;
    uint64_t peak = atomic_load_explicit(&counter->peak_bytes, memory_order_relaxed);
    while (used > peak &&
           !atomic_compare_exchange_weak_explicit(&counter->peak_bytes, &peak, used,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

static inline void device_mem_stats_add(struct device_mem_stats *stats, unsigned kind,
                                        uint64_t bytes)
{
    device_mem_counter_add(&stats->kinds[mem_kind_of(kind)], bytes);
    device_mem_counter_add(&stats->uses[mem_use_of(kind)][mem_kind_of(kind)], bytes);
}

static inline void device_mem_stats_sub(struct device_mem_stats *stats, unsigned kind,
                                        uint64_t bytes)
{
    atomic_fetch_sub_explicit(&stats->kinds[mem_kind_of(kind)].used_bytes, bytes,
                              memory_order_relaxed);
    atomic_fetch_sub_explicit(&stats->uses[mem_use_of(kind)][mem_kind_of(kind)].used_bytes, bytes,
                              memory_order_relaxed);
}

static inline void device_mem_stats_read(struct device_mem_stats *stats,
                                         struct device_mem_info *info)
{
    for (int kind = 0; kind < MEM_KIND_COUNT; kind++) {
        struct device_mem_counter *counter = &stats->kinds[kind];
        info->used_bytes[kind] = atomic_load_explicit(&counter->used_bytes, memory_order_relaxed);
        info->peak_bytes[kind] = atomic_load_explicit(&counter->peak_bytes, memory_order_relaxed);
        for (int use = 0; use < MEM_USE_COUNT; use++)
            info->use_peak_bytes[use][kind] =
                atomic_load_explicit(&stats->uses[use][kind].peak_bytes, memory_order_relaxed);
    }
}

#endif
