/*
 * control — what a test may make the shim's device be: small, broken or absent; and how often it
 * was asked for what.
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

/* Of the device's memory, whatever is allocated; 4 GiB at first. Not below what is allocated. */
void shim_set_memory(size_t total_bytes);

/* The driver's version as CUDA writes it (12040), 0: none is installed; and how many devices it
 * has. One of this build's version with one device at first. */
void shim_set_driver(int version, int devices);

/* Which GPU it is, and how much shared memory a block of it may have. One of compute capability 9.0
 * with 227 KiB at first. */
struct shim_architecture {
    int major, minor;
    size_t shared_bytes_max;
};
#define SHIM_HOPPER ((struct shim_architecture){9, 0, 227 << 10})
void shim_set_architecture(struct shim_architecture architecture);
struct shim_architecture shim_architecture(void);

/* The next kernel, copy or fill that runs fails so, and with it all that follows until the program
 * ends or this is called again: the device is lost, as after an illegal address. cudaSuccess mends
 * it. */
void shim_set_failure(cudaError_t status);

/* What the library of products chooses from now on. */
struct shim_products {
    uint16_t cluster_shape; /* of the algorithms; 0 at first */
    bool has_algorithms;    /* at first it has */
};
void shim_set_products(struct shim_products products);

/* NCCL's version as it writes it (22304); 0, as at first: that of this build's headers. */
void shim_set_nccl(int version);

/* The device's clock goes on by so many nanoseconds each time that it is read, and only then; 0, as
 * at first: it is the host's. */
void shim_set_clock(uint64_t tick_ns);

/* Since the program began, but for the last. */
struct shim_counts {
    uint64_t stream_waits; /* calls that wait for a stream, or for all */
    uint64_t event_waits;
    uint64_t allocations; /* of device and pinned memory */
    uint64_t queued;      /* calls that queued work: a whole graph is one */
    uint64_t waiting;     /* pieces of it that have not run, now */
};
struct shim_counts shim_counts(void);

#ifdef __cplusplus
}
#endif

#endif
