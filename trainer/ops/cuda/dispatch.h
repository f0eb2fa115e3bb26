/*
 * dispatch — maps an enum dtype and a row width to template parameters of a kernel. C++ only.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_DISPATCH_H
#define MILLRACE_TRAINER_OPS_CUDA_DISPATCH_H

#include "base/dtype.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <type_traits>

/* Calls launch(T()), where T is the compute type; cudaErrorInvalidValue if unsupported. */
template <typename F> inline cudaError_t dispatch_type(enum dtype type, F launch)
{
    switch (type) {
    case DTYPE_F32:
        return launch(float());
    case DTYPE_BF16:
        return launch(__nv_bfloat16());
    case DTYPE_F16:
        return launch(__half());
    default:
        return cudaErrorInvalidValue;
    }
}

/* True if each row of cols elements begins at a multiple of 16 bytes. */
template <typename T> inline bool rows_are_aligned(uint64_t cols)
{
    return cols % (16 / sizeof(T)) == 0;
}

/* Calls launch(N), where N is the number of elements of T moved at a time in rows of cols
 * elements. */
template <typename T, typename F> inline cudaError_t dispatch_width(uint64_t cols, F launch)
{
    if (rows_are_aligned<T>(cols))
        return launch(std::integral_constant<int, 16 / (int)sizeof(T)>());
    return launch(std::integral_constant<int, 1>());
}

inline uint32_t block_count(uint64_t count, uint64_t per_block)
{
    return (uint32_t)((count + per_block - 1) / per_block);
}

#endif
