/*
 * ops_cpu_blas — the one place that knows OpenBLAS: single-threaded matrix products for the cpu's
 * compute ops.
 *
 * The library is loaded when the first ops is opened, not linked: it decides once, while it is
 * being loaded, which kernels this processor gets, and older versions take the slowest ones (five
 * times slower) for every processor newer than themselves. So the choice is made here, by
 * instruction set, unless the user has made it (OPENBLAS_CORETYPE): then one version gives the same
 * bits on all processors of an instruction set. It also spares the programs that never multiply
 * from starting a pool of threads.
 *
 * Another library is put in its place by writing these three functions for it.
 */
#ifndef MILLRACE_TRAINER_OPS_CPU_BLAS_H
#define MILLRACE_TRAINER_OPS_CPU_BLAS_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* C[m,n] = alpha op(A) op(B) + beta C; row-major with leading dimensions, all in elements and at
 * most BLAS_SIZE_MAX. */
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
    const char *config, *core; /* the library's own words: version and options, kernels */
};

/* Changes the environment for the moment of loading: not while other threads read it. -ELIBACC with
 * what to install. */
int blas_open(struct blas *ret_blas, struct err *err);
void blas_describe(const struct blas *blas, struct str *out); /* all that its bits depend on */

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
