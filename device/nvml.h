/*
 * nvml — how busy a GPU is, as the driver's management library (NVML) tells. The one place that
 * knows it.
 *
 * The library comes with the driver and is loaded when it is asked for, so that programs start
 * where there is none, in any build. What is declared of it here follows NVIDIA's "NVML API
 * Reference Guide".
 *
 * Threads: the library takes calls from any thread; ours is used by one.
 */
#ifndef MILLRACE_DEVICE_NVML_H
#define MILLRACE_DEVICE_NVML_H

#include "base/err.h"

enum { NVML_TEXT_BYTES = 96 };

struct nvml;          /* owner thread */
struct nvmlDevice_st; /* a GPU as the library knows it; lives as long as the library is open */

/* Loads and starts the library. -ENODEV where it, a function of it or the driver behind it is
 * absent. Gives it. */
int nvml_open(struct nvml **ret_nvml, struct err *err);
void nvml_close(struct nvml *nvml); /* NULL is fine */

/* The driver's own version, "580.65.06". -EIO. */
int nvml_driver_version(struct nvml *nvml, char text[NVML_TEXT_BYTES], struct err *err);
/* The GPU at that place of the bus, as device_cuda_info has it. -ENODEV where the library sees none
 * there. */
int nvml_find(struct nvml *nvml, const char *bus, struct nvmlDevice_st **ret_gpu, struct err *err);
/* The part of the time, 0 to 1, in which a kernel ran, over the library's last sample: 1/6 s to 1
 * s. -ENOTSUP where this GPU does not tell, as one that is partitioned (MIG). */
int nvml_utilization(struct nvml *nvml, struct nvmlDevice_st *gpu, double *ret_share,
                     struct err *err);

#endif
