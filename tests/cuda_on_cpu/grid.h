/*
 * grid — launches kernels: rejects launches that a device would reject, and queues the others,
 * which run block by block.
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
    const void *kernel; /* the kernel's address; LAUNCH_ALLOW_SHARED limits are stored under it */
    dim3 grid, block;
    size_t shared_bytes;         /* dynamic shared memory */
    void (*main)(void *closure); /* runs one thread */
    void (*destroy)(void *closure);
    void *closure;
};

/* Queues the launch and takes ownership of the closure. Returns cudaErrorInvalidConfiguration and
 * cudaErrorInvalidValue in the same cases as a device of compute capability 9.0. A block size that
 * is not a multiple of 32 threads is a violation. */
cudaError_t shim_launch(const struct shim_launch *launch, cudaStream_t stream);
/* Adds `change` (may be negative) to the number of communicators whose kernels wait for other
 * ranks. While this number is positive, the first launch of a kernel is a violation: to load the
 * kernel, the driver may wait until the device is idle, so ranks could deadlock. */
void shim_add_spinning_comms(int change);

/* Writes the kernel's name as in the source, with template arguments, to text and returns text. The
 * name is looked up among the symbols that the program exports (-rdynamic). */
enum { SHIM_NAME_BYTES_MAX = 512 };
const char *shim_kernel_name(const void *kernel, char text[SHIM_NAME_BYTES_MAX]);

/* Ends the program unless memory is NULL, device memory or pinned memory. */
void shim_check_argument(const void *kernel, int number, const void *memory);

/* The running block's dynamic shared memory: exactly as many bytes as the launch requested,
 * 128-byte aligned, NaN until written. */
void *shim_dynamic_shared(void);

/* Whether these bytes lie in the running block's shared memory, static or dynamic. */
bool shim_is_shared(const void *memory, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
