/*
 * dispatch — maps an enum dtype to a kernel's element type. C++ only.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_DISPATCH_H
#define MILLRACE_TRAINER_OPS_CUDA_DISPATCH_H

#include "base/dtype.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

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
template <typename T> inline bool rows_are_packed(uint64_t cols)
{
    return cols % (16 / sizeof(T)) == 0;
}

inline uint32_t blocks_of(uint64_t count, uint64_t per_block)
{
    return (uint32_t)((count + per_block - 1) / per_block);
}

#endif
