/*
 * device_cuda — what only a GPU has: its description, and the handles behind the streams of
 * device.h, for who launches kernels.
 *
 * Everything here is there in every build; where the build or the machine has no CUDA the functions
 * say -ENODEV and what to do. Codes of the CUDA runtime are ints here, so that nobody needs its
 * headers.
 */
#ifndef MILLRACE_DEVICE_DEVICE_CUDA_H
#define MILLRACE_DEVICE_DEVICE_CUDA_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DEVICE_CUDA_NAME_BYTES_MAX = 256, DEVICE_CUDA_BUS_BYTES_MAX = 32 };

/* Versions are as CUDA writes them: 1000 * major + 10 * minor. */
struct device_cuda_info {
    char name[DEVICE_CUDA_NAME_BYTES_MAX]; /* of the model: "NVIDIA H200" */
    char bus[DEVICE_CUDA_BUS_BYTES_MAX];   /* its place on the PCI bus: "0000:65:00.0" */
    int ordinal;                           /* among those that CUDA_VISIBLE_DEVICES leaves */
    int capability_major, capability_minor;
    int multiprocessors;
    uint64_t clock_hz; /* the highest of its multiprocessors */
    int driver_version, runtime_version;
    uint64_t total_bytes;      /* of its memory */
    uint64_t shared_bytes_max; /* that a block may ask for */
    uint64_t l2_bytes;
};

/* How many GPUs there are, at least one. -ENODEV where there is none, saying whether build, driver
 * or device is missing. */
int device_cuda_count(int *ret_count, struct err *err);

/* ordinal: below the count. Starts nothing on the device. */
int device_cuda_describe(int ordinal, struct device_cuda_info *ret_info, struct err *err);

/* The GPU as a device. -ENODEV where there is no such one, or one too old for this build. */
int device_cuda_open(int ordinal, struct device **ret_device, struct err *err);

/* The following take a device that device_cuda_open gave. */

/* Borrowed until the device is closed. */
const struct device_cuda_info *device_cuda_info(const struct device *device);

/* The stream as the CUDA runtime knows it (a cudaStream_t). */
struct CUstream_st *device_cuda_stream(struct device_stream *stream);

/* Makes it the calling thread's device, on which its kernels start. 0 or -EIO. */
int device_cuda_use(struct device *device, struct err *err);

/* A code of the CUDA runtime (cudaError_t) as ours, with detail: 0, -ENOMEM, or -EIO where the
 * device failed. what: what was being done, "a product of matrices". */
int device_cuda_status(const struct device *device, int cuda_status, const char *what,
                       struct err *err);

#ifdef __cplusplus
}
#endif

#endif
