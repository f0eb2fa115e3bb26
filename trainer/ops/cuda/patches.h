/*
 * patches — converts images to the normalized patches that a ViT reads, as defined in ops.h.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_PATCHES_H
#define MILLRACE_TRAINER_OPS_CUDA_PATCHES_H

#include "base/dtype.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes are at least 1; side is a multiple of patch; a row of an image has fewer than 2^31
 * bytes. */
struct cuda_images {
    uint64_t items, side, patch;
    /* [3], in host memory; read before the call returns. Deviations are normal numbers. */
    const float *mean, *deviation;
};

/* type: the type of out, DTYPE_F32, DTYPE_BF16 or DTYPE_F16; else cudaErrorInvalidValue. out and
 * images are 16-byte aligned. Before rounding, values equal the cpu's floats bit for bit. Queued on
 * the stream. */
cudaError_t cuda_patches(enum dtype type, const struct cuda_images *shape, void *out,
                         const uint8_t *images, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
