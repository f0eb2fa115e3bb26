/*
 * control — lets a test make the shim's device small, broken or absent, and count its calls.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_CONTROL_H
#define MILLRACE_TESTS_CUDA_ON_CPU_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <driver_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the device's total memory; initially 4 GiB. Must not be less than the memory already
 * allocated. */
void shim_set_memory(size_t total_bytes);

/* Sets the driver's version in CUDA's encoding (12040), or 0 for no driver, and the number of
 * devices. Initially, this build's version and one device. */
void shim_set_driver(int version, int devices);

/* The GPU's compute capability and the shared memory limit per block. Initially 9.0 with 227
 * KiB. */
struct shim_architecture {
    int major, minor;
    size_t shared_bytes_max;
};
#define SHIM_HOPPER ((struct shim_architecture){9, 0, 227 << 10})
void shim_set_architecture(struct shim_architecture architecture);
struct shim_architecture shim_architecture(void);

/* The next kernel, copy or fill that runs fails with this status, and so does everything after it,
 * until the program ends or this function is called again: the device is lost, as after an illegal
 * address. cudaSuccess repairs the device. */
void shim_set_failure(cudaError_t status);

/* Sets the algorithms that the cuBLASLt stand-in offers. */
struct shim_gemms {
    uint16_t cluster_shape; /* the algorithms' cluster shape; initially 0 */
    bool has_algorithms;    /* initially true */
};
void shim_set_products(struct shim_gemms products);

/* Sets NCCL's version in NCCL's encoding (22304); 0 (initially): the version of this build's
 * headers. */
void shim_set_nccl(int version);

/* The device's clock advances by tick_ns each time it is read, and only then; 0 (initially): the
 * device uses the host's clock. */
void shim_set_clock(uint64_t tick_ns);

/* Counted since the program began, except `waiting`. */
struct shim_counts {
    uint64_t stream_waits; /* calls that wait for a stream or for all streams */
    uint64_t event_waits;
    uint64_t allocations; /* allocations of device and pinned memory */
    uint64_t queued;      /* calls that queued work; launching a graph counts as one */
    uint64_t waiting;     /* queued operations that have not run yet */
};
struct shim_counts shim_counts(void);

#ifdef __cplusplus
}
#endif

#endif
