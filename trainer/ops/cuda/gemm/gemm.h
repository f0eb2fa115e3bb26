/*
 * gemm — the products of the CUDA ops: plans by shape, kept until the end, over the adapter
 * cublaslt.h.
 *
 * The gradient of a small weight matrix has a long inner dimension (the tokens) and few tiles of
 * output, too few to occupy a device: such a product is cut along it into equal parts, by shape
 * alone, whose products run side by side and are added in their order.
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_GEMM_GEMM_H
#define MILLRACE_TRAINER_OPS_CUDA_GEMM_GEMM_H

#include "base/err.h"
#include "base/str.h"
#include "trainer/ops/ops.h"

#include <cuda_runtime_api.h>

enum {
    CUDA_GEMM_WORKSPACE_BYTES = 32 << 20
}; /* what the library's documentation wants on Hopper */

struct cuda_gemm; /* owner thread */

/* Borrows the device and its stream. Gives the products. */
int cuda_gemm_open(struct device *device, cudaStream_t stream, enum dtype compute,
                   struct cuda_gemm **ret_gemm, struct err *err);
void cuda_gemm_close(struct cuda_gemm *gemm); /* NULL is fine */

/* Equal shapes share a plan. Allocates what the product works in. */
int cuda_gemm_plan(struct cuda_gemm *gemm, const struct gemm_shape *shape,
                   struct gemm_plan *ret_plan, struct err *err);
int cuda_gemm_run(struct cuda_gemm *gemm, const struct gemm_plan *plan, const void *a,
                  const void *b, const void *bias, void *c, struct err *err);

/* Into how many parts the inner dimension is cut; 1: whole. */
uint32_t cuda_gemm_parts(const struct gemm_shape *shape);
/* Device memory that they are put together in. */
uint64_t cuda_gemm_partials_bytes(const struct gemm_shape *shape);
/* The library and all algorithms planned so far. */
void cuda_gemm_describe(const struct cuda_gemm *gemm, struct str *out);

#endif
