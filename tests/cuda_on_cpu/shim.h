/*
 * shim — what g++ must know to compile a .cu file for the CPU: included before all else (-include),
 * with __CUDACC__ undefined.
 *
 * CUDA's own headers give the types, the runtime's declarations and the arithmetic of bf16 and
 * half; this gives the words that belong to nvcc and the functions that exist only on a device. C++
 * only.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_SHIM_H
#define MILLRACE_TESTS_CUDA_ON_CPU_SHIM_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "tests/cuda_on_cpu/block.h"

#define threadIdx (*shim_thread_index)
#define blockIdx  (shim_index.block)
#define blockDim  (shim_index.block_dim)
#define gridDim   (shim_index.grid_dim)
static const int warpSize = BLOCK_WARP_THREADS;

#define __launch_bounds__(...)

/* Thread-local memory of the one thread that runs kernels: the one kind of static memory, of
 * templates too, that can be found whole and made NaN before a block (grid.c). */
#undef __shared__
#define __shared__ static thread_local

#include "tests/cuda_on_cpu/device_math.h"
#include "tests/cuda_on_cpu/launch.h"
#include "tests/cuda_on_cpu/tensor_core.h"
#include "tests/cuda_on_cpu/warp.h"

#endif
