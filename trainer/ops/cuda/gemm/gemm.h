/*
 * gemm — matrix products of the CUDA ops over cublaslt.h, with a plan per shape, kept until close.
 *
 * The gradient of a small weight matrix has a long inner dimension (the tokens) and too few output
 * tiles to occupy a device. Such a product is split along the inner dimension into equal parts;
 * their number depends only on the shape. The parts run in parallel and are added in order.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_GEMM_GEMM_H
#define MILLRACE_TRAINER_OPS_CUDA_GEMM_GEMM_H

#include "base/err.h"
#include "base/str.h"
#include "trainer/ops/ops.h"

#include <cuda_runtime_api.h>

enum { CUDA_GEMM_WORKSPACE_BYTES = 32 << 20 }; /* NVIDIA's recommendation for Hopper */

struct cuda_gemm; /* owner thread */

/* Borrows the device and its stream. The caller owns *ret_gemm. */
int cuda_gemm_open(struct device *device, cudaStream_t stream, enum dtype compute,
                   struct cuda_gemm **ret_gemm, struct err *err);
void cuda_gemm_close(struct cuda_gemm *gemm); /* NULL is fine */

/* Equal shapes share a plan. Allocates workspace. */
int cuda_gemm_plan(struct cuda_gemm *gemm, const struct gemm_shape *shape,
                   struct gemm_plan *ret_plan, struct err *err);
int cuda_gemm_run(struct cuda_gemm *gemm, const struct gemm_plan *plan, const void *a,
                  const void *b, const void *bias, void *c, struct err *err);

/* Parts along the inner dimension; 1: not split. */
uint32_t cuda_gemm_parts(const struct gemm_shape *shape);
/* Device memory for partial products. */
uint64_t cuda_gemm_partials_bytes(const struct gemm_shape *shape);
/* Appends the library and the algorithms planned so far. */
void cuda_gemm_describe(const struct cuda_gemm *gemm, struct str *out);

#endif
