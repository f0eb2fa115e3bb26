/*
 * launch — kernel launches and dynamic shared memory, whose syntax differs between nvcc and the
 * tests' compiler. The tests include their own version before every file
 * (tests/cuda_on_cpu/shim.h). C++ only.
 *
 *     cudaError_t status = LAUNCH((scale_kernel<float>), grid, block, 0, stream, out, x, count);
 *
 * A kernel name that contains commas needs parentheses. To run under both compilers, kernels must
 * follow these rules:
 *
 * - blocks are multiples of 32 threads
 * - collectives use full masks, and no thread returns before a collective
 * - all threads reach the same __syncthreads
 * - bf16 and half are converted to float for arithmetic
 * - no block waits for another
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_LAUNCH_H
#define MILLRACE_TRAINER_OPS_CUDA_LAUNCH_H

#include <cuda_runtime.h>

#ifdef __CUDACC__

/* Queues the kernel. Returns cudaSuccess or the launch failure. */
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                     \
    (kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__), cudaGetLastError())

/* Declares the block's dynamic shared memory as a 128-byte-aligned pointer. Once per kernel. */
#define DYNAMIC_SHARED(type, name)                                                                 \
    extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];                         \
    type *name = reinterpret_cast<type *>(dynamic_shared_bytes)

/* Allows the kernel more than 48 KiB of dynamic shared memory. Call it before the first launch. */
#define LAUNCH_ALLOW_SHARED(kernel, shared_bytes)                                                  \
    cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),                                   \
                         cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(shared_bytes))

#endif

#endif
