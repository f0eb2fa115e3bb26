/*
 * ops_cpu_real — the element type for which the .inc files are compiled; REAL_BITS is 32 or 64.
 */
#ifndef MILLRACE_TRAINER_OPS_CPU_REAL_H
#define MILLRACE_TRAINER_OPS_CPU_REAL_H

#include "base/numeric/half.h"
#include "trainer/ops/cpu/math.h"
#include "trainer/ops/cpu/ops_cpu.h"

#include <assert.h>
#include <errno.h>
#include <float.h>

#if REAL_BITS == 32
typedef float real;
#define real_exp           exp_f32
#define real_sqrt          sqrtf
#define REAL_MIN           FLT_MIN
#define blas_multiply_real blas_multiply_f32
#define OPS_CPU_TABLE      ops_cpu_table_f32
#elif REAL_BITS == 64
typedef double real;
#define real_exp           exp_f64
#define real_sqrt          sqrt
#define REAL_MIN           DBL_MIN
#define blas_multiply_real blas_multiply_f64
#define OPS_CPU_TABLE      ops_cpu_table_f64
#else
#error "REAL_BITS is 32 or 64"
#endif

#define REAL_LOWEST (-(real)INFINITY)

enum { LANES = OPS_CPU_SCORES_ALIGN, DOUBLE_LANES = 8 }; /* interleaved partial sums */

struct span {
    uint64_t first, count;
};

static inline struct span tile_span(size_t tile, uint64_t grain, uint64_t count)
{
    uint64_t first = tile * grain;
    return (struct span){first, count - first < grain ? count - first : grain};
}

static inline size_t tile_count(uint64_t count, uint64_t grain)
{
    return (size_t)((count + grain - 1) / grain);
}

static inline uint64_t clamp_count(uint64_t count, uint64_t max)
{
    return count < 1 ? 1 : count > max ? max : count;
}

/* Rows per tile of a matrix with this many columns. */
static inline uint64_t row_grain(uint64_t cols)
{
    return cols >= OPS_CPU_GRAIN ? 1 : OPS_CPU_GRAIN / cols;
}

IN_KERNEL real fold_lanes(real *lanes)
{
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lanes[l] += lanes[l + width];
    return lanes[0];
}

IN_KERNEL double fold_doubles(double *lanes)
{
    for (int width = DOUBLE_LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lanes[l] += lanes[l + width];
    return lanes[0];
}

IN_KERNEL real array_sum(const real *x, uint64_t count)
{
    real lanes[LANES] = {0};
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += x[i + (uint64_t)l];
    for (int l = 0; i < count; i++, l++)
        lanes[l] += x[i];
    return fold_lanes(lanes);
}

IN_KERNEL real array_dot(const real *x, const real *y, uint64_t count)
{
    real lanes[LANES] = {0};
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += x[i + (uint64_t)l] * y[i + (uint64_t)l];
    for (int l = 0; i < count; i++, l++)
        lanes[l] += x[i] * y[i];
    return fold_lanes(lanes);
}

/* Ignores NaN. */
IN_KERNEL real array_max(const real *x, uint64_t count)
{
    real lanes[LANES];
    for (int l = 0; l < LANES; l++)
        lanes[l] = REAL_LOWEST;
    uint64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] = x[i + (uint64_t)l] > lanes[l] ? x[i + (uint64_t)l] : lanes[l];
    for (int l = 0; i < count; i++, l++)
        lanes[l] = x[i] > lanes[l] ? x[i] : lanes[l];
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lanes[l] = lanes[l + width] > lanes[l] ? lanes[l + width] : lanes[l];
    return lanes[0];
}

#endif
