/*
 * ops_cpu_blas — the only file that depends on OpenBLAS: single-threaded matrix products for the
 * cpu's compute ops.
 *
 * The library is loaded when the first ops is opened, not linked. OpenBLAS selects its kernels for
 * the processor while loading, and older versions select the slowest ones (five times slower) on
 * every newer processor. So this file selects them, by instruction set, unless the user did
 * (OPENBLAS_CORETYPE). One version then gives the same bits on all processors with the same
 * instruction set. Loading late also spares programs without products OpenBLAS's thread pool.
 *
 * To use another library, implement these three functions for it.
 */
#ifndef MILLRACE_TRAINER_OPS_CPU_BLAS_H
#define MILLRACE_TRAINER_OPS_CPU_BLAS_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* C[m,n] = alpha op(A) op(B) + beta C; row-major with leading dimensions. All sizes are in elements
 * and at most BLAS_SIZE_MAX. */
struct blas_product {
    bool trans_a, trans_b;
    uint64_t m, n, k;
    uint64_t lda, ldb, ldc;
    double alpha, beta;
};

#define BLAS_SIZE_MAX ((uint64_t)INT32_MAX)

typedef void blas_sgemm_function(int layout, int trans_a, int trans_b, int m, int n, int k,
                                 float alpha, const float *a, int lda, const float *b, int ldb,
                                 float beta, float *c, int ldc);
typedef void blas_dgemm_function(int layout, int trans_a, int trans_b, int m, int n, int k,
                                 double alpha, const double *a, int lda, const double *b, int ldb,
                                 double beta, double *c, int ldc);

/* Immutable; any thread. The library stays loaded until the process ends. */
struct blas {
    blas_sgemm_function *sgemm;
    blas_dgemm_function *dgemm;
    const char *config, *core; /* strings of the library: version and options, kernels */
};

/* Changes the environment during the load, so no other thread may read it meanwhile. -ELIBACC,
 * naming what to install. */
int blas_open(struct blas *ret_blas, struct err *err);
/* Appends everything that its bits depend on. */
void blas_describe(const struct blas *blas, struct str *out);

enum { BLAS_ROW_MAJOR = 101, BLAS_NO_TRANS = 111, BLAS_TRANS = 112 };

static inline void blas_multiply_f32(const struct blas *blas, const struct blas_product *p,
                                     const float *a, const float *b, float *c)
{
    blas->sgemm(BLAS_ROW_MAJOR, p->trans_a ? BLAS_TRANS : BLAS_NO_TRANS,
                p->trans_b ? BLAS_TRANS : BLAS_NO_TRANS, (int)p->m, (int)p->n, (int)p->k,
                (float)p->alpha, a, (int)p->lda, b, (int)p->ldb, (float)p->beta, c, (int)p->ldc);
}

static inline void blas_multiply_f64(const struct blas *blas, const struct blas_product *p,
                                     const double *a, const double *b, double *c)
{
    blas->dgemm(BLAS_ROW_MAJOR, p->trans_a ? BLAS_TRANS : BLAS_NO_TRANS,
                p->trans_b ? BLAS_TRANS : BLAS_NO_TRANS, (int)p->m, (int)p->n, (int)p->k, p->alpha,
                a, (int)p->lda, b, (int)p->ldb, p->beta, c, (int)p->ldc);
}

#endif
