/*
 * device_cuda — describes GPUs and gives kernel launchers their CUDA handles.
 *
 * In builds or on machines without CUDA, the functions return -ENODEV with advice. CUDA runtime
 * codes are ints, so that callers do not need its headers.
 */
#ifndef MILLRACE_DEVICE_DEVICE_CUDA_H
#define MILLRACE_DEVICE_DEVICE_CUDA_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DEVICE_CUDA_NAME_BYTES_MAX = 256, DEVICE_CUDA_BUS_BYTES_MAX = 32 };

/* Versions use CUDA's encoding: 1000 * major + 10 * minor. */
struct device_cuda_info {
    char name[DEVICE_CUDA_NAME_BYTES_MAX]; /* "NVIDIA H200" */
    char bus[DEVICE_CUDA_BUS_BYTES_MAX];   /* PCI bus address: "0000:65:00.0" */
    int ordinal; /* among the GPUs that CUDA_VISIBLE_DEVICES leaves visible */
    int capability_major, capability_minor;
    int multiprocessors;
    uint64_t clock_hz; /* highest clock of the multiprocessors */
    int driver_version, runtime_version;
    uint64_t total_bytes;      /* of device memory */
    uint64_t shared_bytes_max; /* maximum that a block may request */
    uint64_t l2_bytes;
};

/* *ret_count >= 1. -ENODEV: the detail says whether the build, the driver or the device is missing.
 */
int device_cuda_count(int *ret_count, struct err *err);

/* ordinal < count. Starts nothing on the device. */
int device_cuda_describe(int ordinal, struct device_cuda_info *ret_info, struct err *err);

/* -ENODEV: the GPU does not exist, or is too old for this build. */
int device_cuda_open(int ordinal, struct device **ret_device, struct err *err);

/* The functions below need a device from device_cuda_open. */

/* Borrowed until the device is closed. */
const struct device_cuda_info *device_cuda_info(const struct device *device);

/* Returns a cudaStream_t. */
struct CUstream_st *device_cuda_stream(struct device_stream *stream);

/* Makes device the calling thread's current device, which kernel launches use. 0 or -EIO. */
int device_cuda_use(struct device *device, struct err *err);

/* Converts a CUDA runtime code (cudaError_t), with detail: 0, -ENOMEM, or -EIO if the device
 * failed. what: the operation, for example "a matrix product". */
int device_cuda_status(const struct device *device, int cuda_status, const char *what,
                       struct err *err);

#ifdef __cplusplus
}
#endif

#endif
