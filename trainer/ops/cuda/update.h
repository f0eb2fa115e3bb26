/*
 * update — the optimizer's step, and the exact sums that it and the metrics need. ops.h defines
 * what they compute. All calls queue on the stream.
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
struct update_gate;
struct update_gate_request;

/* Updates the parameters by a rule. Arrays are 16-byte aligned; compute is of compute_type. Arrays
 * and scalars are device memory. cudaErrorInvalidValue: no kernels for compute_type. */
cudaError_t cuda_update(enum update_rule rule, const struct update_options *options,
                        const struct update_arrays *arrays, enum dtype compute_type,
                        const struct update_scalars *scalars, cudaStream_t stream);

/* gate, losses, squares: device memory. */
cudaError_t cuda_gate_update(struct update_gate *gate, const int64_t *losses,
                             const int64_t *squares, const struct update_gate_request *request,
                             cudaStream_t stream);

/* x is 16-byte aligned if cols is a multiple of 4. */
cudaError_t cuda_row_sumsq(double *sums, const float *x, uint64_t rows, uint64_t cols,
                           cudaStream_t stream);
/* words: of a struct exact_sum. Integer addition commutes, so the bits depend on the terms
 * alone. */
cudaError_t cuda_exact_add(int64_t *words, const double *terms, uint64_t count,
                           cudaStream_t stream);
cudaError_t cuda_count_add(int64_t *word, const uint8_t *flags, uint64_t count,
                           cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
