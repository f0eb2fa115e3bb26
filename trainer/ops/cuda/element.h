/*
 * element — the element types of kernels: read as float, written with rounding to nearest even, up
 * to 16 bytes at a time. C++ only.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_ELEMENT_H
#define MILLRACE_TRAINER_OPS_CUDA_ELEMENT_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

__device__ inline float to_float(float x)
{
    return x;
}

__device__ inline float to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

__device__ inline float to_float(__half x)
{
    return __half2float(x);
}

template <typename T> __device__ inline T from_float(float x);

template <> __device__ inline float from_float<float>(float x)
{
    return x;
}

template <> __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}

template <> __device__ inline __half from_float<__half>(float x)
{
    return __float2half_rn(x);
}

/* N elements moved by one instruction, aligned to their size: 16 bytes, 8 bytes or one element. */
template <typename T, int N = 16 / (int)sizeof(T)> struct alignas(N * sizeof(T)) packed {
    static_assert(N == 1 || N * sizeof(T) == 16 || N * sizeof(T) == 8, "one load");
    static constexpr int count = N;
    T element[N];
};

template <typename T, int N = 16 / (int)sizeof(T)>
__device__ inline packed<T, N> load_packed(const T *x)
{
    packed<T, N> p;
    if constexpr (N == 1)
        p.element[0] = *x;
    else if constexpr (sizeof p == 8)
        *reinterpret_cast<int2 *>(&p) = *reinterpret_cast<const int2 *>(x);
    else
        *reinterpret_cast<int4 *>(&p) = *reinterpret_cast<const int4 *>(x);
    return p;
}

template <typename T, int N> __device__ inline void store_packed(T *x, const packed<T, N> &p)
{
    if constexpr (N == 1)
        *x = p.element[0];
    else if constexpr (sizeof p == 8)
        *reinterpret_cast<int2 *>(x) = *reinterpret_cast<const int2 *>(&p);
    else
        *reinterpret_cast<int4 *>(x) = *reinterpret_cast<const int4 *>(&p);
}

#endif
