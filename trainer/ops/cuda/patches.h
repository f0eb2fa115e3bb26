/*
 * patches — converts images to the normalized rows of patches that a ViT reads. ops.h defines what
 * it computes.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_PATCHES_H
#define MILLRACE_TRAINER_OPS_CUDA_PATCHES_H

#include "base/dtype.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes are at least 1, side is a multiple of patch, and a row of images has fewer than 2^31
 * bytes. */
struct cuda_images {
    uint64_t items, side, patch;
    /* Of 3 colors, in host memory; read before the call returns. Deviations are normal numbers. */
    const float *mean, *deviation;
};

/* type: element type of out: DTYPE_F32, DTYPE_BF16 or DTYPE_F16; any other returns
 * cudaErrorInvalidValue. out and images must be 16-byte aligned. Before rounding to type, values
 * equal the cpu's in float, bit for bit. Queued on the stream. */
cudaError_t cuda_patches(enum dtype type, const struct cuda_images *shape, void *out,
                         const uint8_t *images, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
