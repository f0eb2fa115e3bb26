/*
 * attention_case — attention for one shape, on the device and in double.
 */
#ifndef MILLRACE_TESTS_TRAINER_CUDA_ATTENTION_CASE_H
#define MILLRACE_TESTS_TRAINER_CUDA_ATTENTION_CASE_H

#include "tests/trainer/cuda/cuda_case.h"
#include "trainer/ops/ops.h"

struct attention_sizes {
    size_t qkv, out, lse; /* numbers of elements */
};

struct attention_sizes attention_sizes_of(const struct attn_shape *shape);

/* malloc'ed doubles. */
struct attention_result {
    double *out, *lse, *d_qkv;
};

void attention_result_deinit(struct attention_result *result);

/* Computes row by row. Inputs, scores, probabilities and their gradients are rounded to
 * round_dtype, as by kernels that write each of them to memory. DTYPE_F64: no rounding. */
struct attention_result attention_reference(enum dtype round_dtype, const struct attn_shape *shape,
                                            const double *qkv, const double *d_out,
                                            const int32_t *row_starts);

/* Computed by the CPU ops in double. */
struct attention_result attention_on_cpu(const struct attn_shape *shape, const double *qkv,
                                         const double *d_out, const int32_t *row_starts);

/* Computed by the kernels, on arrays initialized to NaN. */
struct attention_result attention_on_device(enum dtype dtype, const struct attn_shape *shape,
                                            const double *qkv, const double *d_out,
                                            const int32_t *row_starts);

#endif
