/*
 * cublaslt — the only interface to cuBLASLt: matrix products on a CUDA device, each with one
 * algorithm, chosen when the product is planned.
 *
 * No algorithm splits the inner dimension, and the choice depends only on the product, the
 * library's version and the device. The library is loaded on first open, so programs start without
 * it.
 *
 * Tests that run kernels on the CPU implement this header with OpenBLAS
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

/* C[m,n] = op(A) op(B) (+ bias[n] on each row) (+ C), row-major and dense, as in struct gemm_shape,
 * for `batch` matrices. Sums are in float. */
struct cublaslt_product {
    uint64_t m, n, k;
    bool trans_a, trans_b, bias, accumulate;
    enum dtype input, output; /* input: of A, B and bias; output: of C, input or F32 */
    uint32_t batch;
    uint64_t stride_a, stride_b, stride_c; /* elements; used if batch > 1 */
};

struct cublaslt; /* owner thread */
/* Used only by its cublaslt's thread, because a run with a bias writes the bias address into it. */
struct cublaslt_plan;

/* Products are queued on stream and have exclusive use of workspace (device memory). Borrows both.
 * -ELIBACC names what to install if the library is missing or incomplete; -ENOMEM; -EIO if it fails
 * to initialize. */
int cublaslt_open(cudaStream_t stream, void *workspace, size_t workspace_bytes,
                  struct cublaslt **ret_lt, struct err *err);
void cublaslt_close(struct cublaslt *lt); /* NULL is fine */

/* Matrices and biases are 16-byte aligned. *ret_id identifies the algorithm. -ENOTSUP if the
 * library has no algorithm for the product, -ENOMEM, -EIO. */
int cublaslt_plan(struct cublaslt *lt, const struct cublaslt_product *product,
                  struct cublaslt_plan **ret_plan, uint32_t *ret_id, struct err *err);
void cublaslt_plan_free(struct cublaslt_plan *plan); /* NULL is fine */

/* -EIO with detail. */
int cublaslt_run(struct cublaslt *lt, const struct cublaslt_plan *plan, const void *a,
                 const void *b, const void *bias, void *c, struct err *err);

/* Appends the library and its version. */
void cublaslt_describe(const struct cublaslt *lt, struct str *out);

#endif
