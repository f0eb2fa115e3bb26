/*
 * launch — how a kernel is started, and the memory that its blocks share: the only two things that
 * nvcc and the compiler of the tests do not write alike. The latter reads its own before every file
 * (tests/cuda_on_cpu/shim.h). C++ only.
 *
 *     cudaError_t status = LAUNCH((scale_kernel<float>), grid, block, 0, stream, out, x, count);
 *
 * A kernel's name with commas stands in parentheses. Rules that kernels keep, so that both run
 * them: blocks are multiples of 32 threads; collectives have full masks and nobody returns before
 * one; all threads reach the same __syncthreads; bf16 and half are converted to float for
 * arithmetic; no block waits for another.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_LAUNCH_H
#define MILLRACE_TRAINER_OPS_CUDA_LAUNCH_H

#include <cuda_runtime.h>

#ifdef __CUDACC__

/* Queues the kernel; cudaSuccess, or why it could not be queued. */
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                     \
    (kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__), cudaGetLastError())

/* name: the block's dynamic shared memory, as a pointer to type, 128-byte aligned. Once a
 * kernel. */
#define DYNAMIC_SHARED(type, name)                                                                 \
    extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];                         \
    type *name = reinterpret_cast<type *>(dynamic_shared_bytes)

/* Lets the kernel take more than 48 KiB of dynamic shared memory; once before its first launch. */
#define LAUNCH_ALLOW_SHARED(kernel, shared_bytes)                                                  \
    cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),                                   \
                         cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(shared_bytes))

#endif

#endif
