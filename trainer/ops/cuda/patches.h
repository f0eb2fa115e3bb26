/*
 * patches — images to the rows of patches that a ViT reads, normalised. ops.h has what it computes.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_PATCHES_H
#define MILLRACE_TRAINER_OPS_CUDA_PATCHES_H

#include "base/dtype.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes are at least 1, side a multiple of patch; a row of images has fewer than 2^31 bytes. */
struct cuda_images {
    uint64_t items, side, patch;
    const float *mean,
        /* of 3 colours, in host memory; read before the call returns. Deviations: normal numbers */
        *deviation;
};

/* out: of the type (DTYPE_F32, DTYPE_BF16, DTYPE_F16; another is cudaErrorInvalidValue), 16-byte
 * aligned, as are images. Before they are rounded to it, values are those of the cpu in float, bit
 * for bit. Queued on the stream. */
cudaError_t cuda_patches(enum dtype type, const struct cuda_images *shape, void *out,
                         const uint8_t *images, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
