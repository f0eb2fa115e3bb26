/*
 * attention_case — attention of one shape on the device, and the same in doubles.
 */
#ifndef MILLRACE_TESTS_TRAINER_CUDA_ATTENTION_CASE_H
#define MILLRACE_TESTS_TRAINER_CUDA_ATTENTION_CASE_H

#include "tests/trainer/cuda/cuda_case.h"
#include "trainer/ops/ops.h"

struct attention_sizes {
    size_t qkv, out, lse; /* elements */
};

struct attention_sizes attention_sizes_of(const struct attn_shape *shape);

/* Doubles of malloc. */
struct attention_result {
    double *out, *lse, *d_qkv;
};

void attention_result_deinit(struct attention_result *result);

/* Row by row. Scores, probabilities, their gradients and what is given are rounded to `rounded`, as
 * kernels do that write each of them to memory; DTYPE_F64: nothing is. */
struct attention_result attention_reference(enum dtype rounded, const struct attn_shape *shape,
                                            const double *qkv, const double *d_out,
                                            const int32_t *row_starts);

/* The cpu's ops in double. */
struct attention_result attention_on_cpu(const struct attn_shape *shape, const double *qkv,
                                         const double *d_out, const int32_t *row_starts);

/* The kernels, on arrays that begin as NaN. */
struct attention_result attention_on_device(enum dtype dtype, const struct attn_shape *shape,
                                            const double *qkv, const double *d_out,
                                            const int32_t *row_starts);

#endif
