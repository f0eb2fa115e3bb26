/*
 * collective — computes the results of warp collectives from the arguments of all lanes.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_COLLECTIVE_H
#define MILLRACE_TESTS_CUDA_ON_CPU_COLLECTIVE_H

#include "tests/cuda_on_cpu/block.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SHUFFLE_BYTES_MAX = 16 };

enum shuffle { SHUFFLE_INDEX, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR };

/* All lanes must agree on all fields except value and, for SHUFFLE_INDEX, operand. */
struct collective_shuffle {
    enum shuffle kind;
    int operand, width; /* lane or distance; number of lanes in a shuffle segment */
    size_t bytes;
    unsigned char value[SHUFFLE_BYTES_MAX], result[SHUFFLE_BYTES_MAX];
};

struct collective_vote {
    int predicate;
    uint32_t ballot; /* result */
};

/* Four 8 x 8 matrices of 16-bit elements: each lane passes a row and receives the contents of
 * ldmatrix's four registers. */
struct collective_matrices {
    bool transposed;
    uint32_t row[4];    /* this lane passes row lane % 8 of matrix lane / 8 */
    uint32_t result[4]; /* one for each matrix */
};

/* The fragments of mma.m16n8k16, laid out as in trainer/ops/cuda/tensor_core.h; c += a b. */
struct collective_product {
    bool is_fp16; /* otherwise bfloat16 */
    uint32_t a[4], b[2];
    float c[4];
};

/* arguments: one per lane; arguments of lanes outside the mask are not read. */
void collective_compute(enum collective kind, uint32_t mask,
                        void *const arguments[BLOCK_WARP_THREADS]);

#ifdef __cplusplus
}
#endif

#endif
