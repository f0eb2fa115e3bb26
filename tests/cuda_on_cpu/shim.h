/*
 * shim — lets g++ compile a .cu file for the CPU: included before everything else (-include), with
 * __CUDACC__ undefined.
 *
 * CUDA's own headers provide the types, the declarations of the runtime and the arithmetic of bf16
 * and half. This header adds the nvcc keywords and the functions that exist only on a device. C++
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

/* Thread-local memory of the one thread that runs kernels: the only kind of static memory, also in
 * templates, that grid.c can locate as a whole to fill with NaN before each block. */
#undef __shared__
#define __shared__ static thread_local

#include "tests/cuda_on_cpu/device_math.h"
#include "tests/cuda_on_cpu/launch.h"
#include "tests/cuda_on_cpu/tensor_core.h"
#include "tests/cuda_on_cpu/warp.h"

#endif
