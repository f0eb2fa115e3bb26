/*
 * grid — a kernel's launch: what a device would refuse is refused, the rest is queued and runs
 * block by block.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_GRID_H
#define MILLRACE_TESTS_CUDA_ON_CPU_GRID_H

#include <stdbool.h>
#include <stddef.h>

#include <driver_types.h>
#include <vector_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shim_launch {
    const void *kernel; /* its address: what LAUNCH_ALLOW_SHARED allowed is kept by it */
    dim3 grid, block;
    size_t shared_bytes;         /* dynamic */
    void (*main)(void *closure); /* runs one thread */
    void (*destroy)(void *closure);
    void *closure;
};

/* Queues it and takes the closure. cudaErrorInvalidConfiguration and cudaErrorInvalidValue as a
 * device of compute capability 9.0 says them. A block that is no multiple of 32 threads is a
 * violation. */
cudaError_t shim_launch(const struct shim_launch *launch, cudaStream_t stream);
/* More communicators whose kernels wait for other ranks, or fewer. What is launched for the first
 * time is loaded, for which the driver may wait until the device is idle: while one of them is at
 * it that is a violation, as ranks may wait for each other then. */
void shim_spin(int more);

/* The kernel's name as the source has it, template arguments too; found among the names that the
 * program exports (-rdynamic). Returns text. */
enum { SHIM_NAME_BYTES_MAX = 512 };
const char *shim_kernel_name(const void *kernel, char text[SHIM_NAME_BYTES_MAX]);

/* Ends the program unless memory (may be NULL) is such that a device can read it: its own or
 * pinned. */
void shim_check_argument(const void *kernel, int number, const void *memory);

/* The running block's dynamic shared memory: exactly as many bytes as the launch said, 128-byte
 * aligned, NaN before it is written. */
void *shim_dynamic_shared(void);

/* Whether these bytes are the running block's shared memory, of either sort. */
bool shim_is_shared(const void *memory, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
