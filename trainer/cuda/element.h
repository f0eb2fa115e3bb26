/*
 * element — the types that kernels compute in: read as float, written rounded to nearest even, eight at a time where 16 bytes
 * allow. C++ only.
 */
#ifndef MILLRACE_TRAINER_CUDA_ELEMENT_H
#define MILLRACE_TRAINER_CUDA_ELEMENT_H

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

/* As many elements as 16 bytes hold, moved by one instruction; memory is 16-byte aligned. */
template <typename T> struct alignas(16) packed {
    static constexpr int count = 16 / sizeof(T);
    T element[count];
};

template <typename T> __device__ inline packed<T> load_packed(const T *x)
{
    packed<T> p;
    *reinterpret_cast<int4 *>(&p) = *reinterpret_cast<const int4 *>(x);
    return p;
}

template <typename T> __device__ inline void store_packed(T *x, const packed<T> &p)
{
    *reinterpret_cast<int4 *>(x) = *reinterpret_cast<const int4 *>(&p);
}

#endif
