/*
 * usage — one rank's peak memory by use and kind, and its traffic per step. A run measures it; a
 * dry run (dry_run.h) predicts it. Header only.
 */
#ifndef MILLRACE_TRAINER_REPORT_USAGE_H
#define MILLRACE_TRAINER_REPORT_USAGE_H

#include "base/bytes.h"
#include "comm/comm_wrapper.h"
#include "device/device.h"

#include <stdbool.h>
#include <stdint.h>

/* Contains only integers, so that ranks can gather it. */
struct usage {
    uint64_t peak_bytes[MEM_USE_COUNT][MEM_KIND_COUNT];
    struct comm_traffic traffic;  /* of the newest step */
    uint64_t resident_peak_bytes; /* of the process, from the kernel; 0 in a dry run */
};

static inline struct usage usage_measure(struct device *device, const struct comm_traffic *traffic)
{
    struct usage usage = {.traffic = *traffic};
    struct device_mem_info info;
    device->ops->mem_info(device, &info);
    for (int use = 0; use < MEM_USE_COUNT; use++)
        for (int kind = 0; kind < MEM_KIND_COUNT; kind++)
            usage.peak_bytes[use][kind] = info.use_peak_bytes[use][kind];
    return usage;
}

/* Leaves traffic unchanged. */
static inline void usage_merge_peaks(struct usage *usage, const struct usage *other)
{
    for (int use = 0; use < MEM_USE_COUNT; use++)
        for (int kind = 0; kind < MEM_KIND_COUNT; kind++)
            usage->peak_bytes[use][kind] =
                bytes_max(usage->peak_bytes[use][kind], other->peak_bytes[use][kind]);
}

static inline uint64_t usage_bytes(const struct usage *usage, enum mem_use use)
{
    uint64_t bytes = 0;
    for (int kind = 0; kind < MEM_KIND_COUNT; kind++)
        bytes += usage->peak_bytes[use][kind];
    return bytes;
}

static inline uint64_t usage_device_bytes(const struct usage *usage)
{
    uint64_t bytes = 0;
    for (int use = 0; use < MEM_USE_COUNT; use++)
        bytes += usage->peak_bytes[use][MEM_DEVICE];
    return bytes;
}

static inline uint64_t usage_total_bytes(const struct usage *usage)
{
    uint64_t bytes = 0;
    for (int use = 0; use < MEM_USE_COUNT; use++)
        bytes += usage_bytes(usage, (enum mem_use)use);
    return bytes;
}

#endif
