/*
 * reduce — sums and maxima over a warp and a block, in an order that depends only on the number of
 * threads. C++ only.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_REDUCE_H
#define MILLRACE_TRAINER_OPS_CUDA_REDUCE_H

#include <cuda_runtime.h>

enum { WARP_THREADS = 32, WARPS_MAX = 32 };

#define FULL_MASK 0xffffffffu

/* All lanes get bit-identical sums, because addition commutes. */
template <typename T> __device__ inline T warp_sum(T x)
{
    for (int distance = WARP_THREADS / 2; distance > 0; distance /= 2)
        x += __shfl_xor_sync(FULL_MASK, x, distance);
    return x;
}

__device__ inline float warp_max(float x)
{
    for (int distance = WARP_THREADS / 2; distance > 0; distance /= 2)
        x = fmaxf(x, __shfl_xor_sync(FULL_MASK, x, distance));
    return x;
}

__device__ inline int warp_max(int x)
{
    for (int distance = WARP_THREADS / 2; distance > 0; distance /= 2) {
        int other = __shfl_xor_sync(FULL_MASK, x, distance);
        x = other > x ? other : x;
    }
    return x;
}

/* Returns the block's sum to all threads. blockDim.x is a multiple of 32. warps[WARPS_MAX]: shared
 * memory, reusable on return. */
template <typename T> __device__ inline T block_sum(T x, T *warps)
{
    int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    x = warp_sum(x);
    if (lane == 0)
        warps[warp] = x;
    __syncthreads();
    x = lane < (int)(blockDim.x / WARP_THREADS) ? warps[lane] : T(0);
    x = warp_sum(x);
    __syncthreads();
    return x;
}

__device__ inline float block_max(float x, float *warps)
{
    int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    x = warp_max(x);
    if (lane == 0)
        warps[warp] = x;
    __syncthreads();
    x = warp_max(warps[lane < (int)(blockDim.x / WARP_THREADS) ? lane : 0]);
    __syncthreads();
    return x;
}

#endif
