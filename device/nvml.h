/*
 * nvml — GPU utilization from the driver's management library (NVML).
 *
 * The library is loaded on first use, so programs start without it. The declarations follow
 * NVIDIA's "NVML API Reference Guide".
 *
 * Threads: each struct nvml has one owner.
 */
#ifndef MILLRACE_DEVICE_NVML_H
#define MILLRACE_DEVICE_NVML_H

#include "base/err.h"

enum { NVML_TEXT_BYTES = 96 };

struct nvml;
struct nvmlDevice_st; /* the library's handle of a GPU; valid while the library is open */

/* -ENODEV: the library, one of its functions or the driver is missing. */
int nvml_open(struct nvml **ret_nvml, struct err *err);
void nvml_close(struct nvml *nvml); /* NULL is fine */

/* Writes, for example, "580.65.06". -EIO. */
int nvml_driver_version(struct nvml *nvml, char text[NVML_TEXT_BYTES], struct err *err);
/* Finds the GPU at a PCI bus address, as in device_cuda_info. -ENODEV: the library finds none. */
int nvml_find(struct nvml *nvml, const char *bus, struct nvmlDevice_st **ret_gpu, struct err *err);
/* The fraction of time, 0 to 1, in which a kernel ran, over the library's last sample period of 1/6
 * s to 1 s. -ENOTSUP: this GPU does not report it, for example because it is partitioned (MIG). */
int nvml_utilization(struct nvml *nvml, struct nvmlDevice_st *gpu, double *ret_fraction,
                     struct err *err);

#endif
