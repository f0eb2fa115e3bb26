/*
 * cublaslt — the one place that knows cuBLASLt: matrix products on a CUDA device, one algorithm
 * each, chosen when planned.
 *
 * Bits: no algorithm splits the inner dimension, and what is chosen depends on the product, the
 * library's version and the device alone; its id says which it is. The library is loaded when the
 * first is opened, not linked, so that programs start where it is absent.
 *
 * In tests that run kernels on the CPU OpenBLAS stands behind this header
 * (tests/cuda_on_cpu/cublaslt.c).
 */
#ifndef MILLRACE_TRAINER_OPS_CUDA_GEMM_CUBLASLT_H
#define MILLRACE_TRAINER_OPS_CUDA_GEMM_CUBLASLT_H

#include "base/dtype.h"
#include "base/err.h"
#include "base/str.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* C[m,n] = op(A) op(B) (+ bias[n] on each row) (+ C), row-major and dense, as struct gemm_shape has
 * it; `batch` of them, strides apart. Sums in float. */
struct cublaslt_product {
    uint64_t m, n, k;
    bool trans_a, trans_b, bias, accumulate;
    enum dtype input, output; /* of A, B and bias; of C: the same, or F32 */
    uint32_t batch;
    uint64_t stride_a, stride_b, stride_c; /* elements, where batch > 1 */
};

struct cublaslt; /* owner thread */
/* Owner thread, that of its cublaslt: a run with a bias writes the bias's address into what
 * describes the product to the library. */
struct cublaslt_plan;

/* Products are queued on stream, in a workspace of device memory that is theirs alone: both
 * borrowed. Errors: -ELIBACC with what to install where the library cannot be loaded or lacks a
 * function, -ENOMEM, -EIO where it does not start. */
int cublaslt_open(cudaStream_t stream, void *workspace, size_t workspace_bytes,
                  struct cublaslt **ret_lt, struct err *err);
void cublaslt_close(struct cublaslt *lt); /* NULL is fine */

/* Matrices are 16-byte aligned, biases too. *ret_id: of the algorithm. -ENOTSUP where the library
 * has none for it, -ENOMEM, -EIO. */
int cublaslt_plan(struct cublaslt *lt, const struct cublaslt_product *product,
                  struct cublaslt_plan **ret_plan, uint32_t *ret_id, struct err *err);
void cublaslt_plan_free(struct cublaslt_plan *plan); /* NULL is fine */

/* 0, or -EIO with detail. */
int cublaslt_run(struct cublaslt *lt, const struct cublaslt_plan *plan, const void *a,
                 const void *b, const void *bias, void *c, struct err *err);

/* The library and its version, as part of what bits depend on. */
void cublaslt_describe(const struct cublaslt *lt, struct str *out);

#endif
