/*
 * cublaslt — the only interface to cuBLASLt: matrix products on a CUDA device, each with one
 * algorithm chosen when planned.
 *
 * Bits: no algorithm splits the inner dimension, and the choice depends only on the product, the
 * library's version and the device. Its id identifies it. The library is loaded on first open, not
 * linked, so that programs start without it.
 *
 * In tests that run kernels on the CPU, OpenBLAS implements this header
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

/* C[m,n] = op(A) op(B) (+ bias[n] on each row) (+ C), row-major and dense, as in struct gemm_shape;
 * `batch` of them, at the given strides. Sums in float. */
struct cublaslt_product {
    uint64_t m, n, k;
    bool trans_a, trans_b, bias, accumulate;
    enum dtype input, output; /* input: of A, B and bias; output: of C, the same or F32 */
    uint32_t batch;
    uint64_t stride_a, stride_b, stride_c; /* in elements; used if batch > 1 */
};

struct cublaslt; /* owner thread */
/* Owned by its cublaslt's thread: a run with a bias writes the bias address into the library's
 * description of the product. */
struct cublaslt_plan;

/* Queues products on stream and gives them exclusive use of workspace, in device memory. Borrows
 * both. Errors: -ELIBACC, naming what to install, if the library cannot be loaded or lacks a
 * function; -ENOMEM; -EIO if it fails to start. */
int cublaslt_open(cudaStream_t stream, void *workspace, size_t workspace_bytes,
                  struct cublaslt **ret_lt, struct err *err);
void cublaslt_close(struct cublaslt *lt); /* NULL is fine */

/* Matrices and biases are 16-byte aligned. *ret_id: identifies the algorithm. -ENOTSUP if the
 * library has no algorithm for the product, -ENOMEM, -EIO. */
int cublaslt_plan(struct cublaslt *lt, const struct cublaslt_product *product,
                  struct cublaslt_plan **ret_plan, uint32_t *ret_id, struct err *err);
void cublaslt_plan_free(struct cublaslt_plan *plan); /* NULL is fine */

/* 0, or -EIO with detail. */
int cublaslt_run(struct cublaslt *lt, const struct cublaslt_plan *plan, const void *a,
                 const void *b, const void *bias, void *c, struct err *err);

/* Appends the library and its version, which the bits depend on. */
void cublaslt_describe(const struct cublaslt *lt, struct str *out);

#endif
