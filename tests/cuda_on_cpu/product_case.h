/*
 * product_case — operands for mutants_product and their product in double. Header only.
 */
#ifndef MILLRACE_TESTS_CUDA_ON_CPU_PRODUCT_CASE_H
#define MILLRACE_TESTS_CUDA_ON_CPU_PRODUCT_CASE_H

#include "tests/cuda_on_cpu/mutants.h"

#include <string.h>

/* 7-bit numbers, which are exact in bf16: the same values as float and as bf16 bits. */
struct product_case {
    float a[PRODUCT_ROWS * PRODUCT_DEPTH], b[PRODUCT_DEPTH * PRODUCT_COLUMNS];
    uint16_t a16[PRODUCT_ROWS * PRODUCT_DEPTH], b16[PRODUCT_DEPTH * PRODUCT_COLUMNS];
};

static inline uint16_t product_case_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static inline void product_case_fill(struct product_case *p)
{
    for (int i = 0; i < PRODUCT_ROWS * PRODUCT_DEPTH; i++) {
        p->a[i] = (float)(i * 29 % 127 - 63) / 64;
        p->a16[i] = product_case_bf16(p->a[i]);
    }
    for (int i = 0; i < PRODUCT_DEPTH * PRODUCT_COLUMNS; i++) {
        p->b[i] = (float)(i * 53 % 113 - 56) / 64;
        p->b16[i] = product_case_bf16(p->b[i]);
    }
}

/* Element i of the product, row-major. */
static inline double product_case_expected(const struct product_case *p, int i)
{
    double sum = 0;
    for (int k = 0; k < PRODUCT_DEPTH; k++)
        sum += (double)p->a[i / PRODUCT_COLUMNS * PRODUCT_DEPTH + k] *
               p->b[k * PRODUCT_COLUMNS + i % PRODUCT_COLUMNS];
    return sum;
}

#endif
