/*
 * update — the optimizer's update, and the exact sums for the update and the metrics, as defined in
 * ops.h. Calls queue on the stream.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_UPDATE_H
#define MILLRACE_TRAINER_OPS_CUDA_UPDATE_H

#include "base/dtype.h"
#include "trainer/ops/rules/rules.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct update_arrays;
struct gradient_clip;
struct gradient_clip_input;

/* Arrays and scalars are in device memory; arrays are 16-byte aligned; compute has compute_type.
 * cudaErrorInvalidValue if no kernels support that type. */
cudaError_t cuda_update(enum update_rule rule, const struct update_options *options,
                        const struct update_arrays *arrays, enum dtype compute_type,
                        const struct update_scalars *scalars, cudaStream_t stream);

/* clip, losses, squares: device memory. */
cudaError_t cuda_clip_gradients(struct gradient_clip *clip, const int64_t *losses,
                                const int64_t *squares, const struct gradient_clip_input *input,
                                cudaStream_t stream);

/* x is 16-byte aligned if cols is a multiple of 4. */
cudaError_t cuda_row_sumsq(double *sums, const float *x, uint64_t rows, uint64_t cols,
                           cudaStream_t stream);
/* words: those of a struct exact_sum. */
cudaError_t cuda_add_to_exact_sum(int64_t *words, const double *terms, uint64_t count,
                                  cudaStream_t stream);
cudaError_t cuda_add_flag_count(int64_t *word, const uint8_t *flags, uint64_t count,
                                cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
