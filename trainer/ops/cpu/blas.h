/*
 * ops_cpu_blas — single-threaded matrix products. This is the only interface to OpenBLAS.
 *
 * OpenBLAS is loaded when the first ops is opened. It selects kernels by processor model; old
 * versions fall back to kernels that are five times slower on newer processors. blas_open therefore
 * selects kernels by instruction set, unless OPENBLAS_CORETYPE is set. One version then produces
 * the same bits on all processors with the same instruction set.
 */
#ifndef MILLRACE_TRAINER_OPS_CPU_BLAS_H
#define MILLRACE_TRAINER_OPS_CPU_BLAS_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* C[m,n] = alpha op(A) op(B) + beta C. Matrices are row-major with leading dimensions; sizes are in
 * elements, at most BLAS_SIZE_MAX. */
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

/* Immutable; thread-safe. The library is never unloaded. */
struct blas {
    blas_sgemm_function *sgemm;
    blas_dgemm_function *dgemm;
    const char *config, *core; /* version and options; kernels in use */
};

/* Temporarily changes the environment; no other thread may read it meanwhile. -ELIBACC names the
 * package to install. */
int blas_open(struct blas *ret_blas, struct err *err);
/* Appends everything that determines the bits. */
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
