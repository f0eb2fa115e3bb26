/*
 * resample — one separable antialiasing filter, in integers.
 *
 * A triangle filter as wide as the reduction (at least one source sample), as Pillow's BILINEAR
 * resize with antialiasing. Coefficients have 14 fractional bits in int16, are nonnegative, and sum
 * to exactly 1 << 14. They are computed from rational numbers: the same on any CPU. Coefficient k
 * is the difference of two adjacent rounded running sums. The sum is therefore exact for any number
 * of taps, and a reduction by thousands still weighs its whole support.
 *
 * A pass filters down the columns (adjacent columns form vectors), rounds to uint8 and writes its
 * output transposed; two passes make the image upright again:
 *
 *     source, rows x columns  -> down the rows, transposed ->  columns x out_height
 *                             -> down the columns, transposed -> out_height x out_width
 *
 * If the last pass writes straight, the result is out_width x out_height: the transposed image.
 */
#ifndef MILLRACE_IMAGE_KERNELS_RESAMPLE_H
#define MILLRACE_IMAGE_KERNELS_RESAMPLE_H

#include "base/err.h"
#include "image/kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RESAMPLE_FRACTION_BITS = 14,
    RESAMPLE_TARGET_MAX = 4096,  /* per side of a training image */
    RESAMPLE_LINE_MAX = 1 << 16, /* samples per line, source or target */
    RESAMPLE_DEN_MAX = 1024,     /* keeps a running sum < 2^43, times 2^15 < 2^58 */
};

/* An interval of a line of samples: [begin_num, begin_num + length_num) / den, in samples. */
struct resample_span {
    int64_t begin_num, length_num, den;
};

/* For each of count outputs: taps[i] coefficients from first[i] on. Memory is reused between plans
 * and grows when needed. Zero is a plan that was never made. Owner thread. */
struct resample_plan {
    uint32_t count;        /* outputs */
    uint32_t taps_max;     /* row length of coefficients[]; even, since they are used in pairs */
    uint32_t *first;       /* [count] the first source sample */
    uint32_t *taps;        /* [count] at least 1 */
    int16_t *coefficients; /* [count][taps_max], zero after taps[i] */
    /* The source samples that any output needs: [source_first, source_end). */
    uint32_t source_first, source_end;
    size_t outputs_capacity, coefficients_capacity;
    /* The input, with the two below; the plan is only recomputed if it changes. */
    struct resample_span span;
    uint32_t source_count;
    bool flip;
};

/* Plans count outputs over the span of a line with source_count samples. Taps outside the line are
 * dropped and the others normalized. flip: output i is computed as count-1-i. -ENOMEM; asserts the
 * limits above, and that the span lies in the line. */
int resample_plan_init(struct resample_plan *plan, struct resample_span span, uint32_t source_count,
                       uint32_t count, bool flip, struct err *err);
void resample_plan_deinit(struct resample_plan *plan);
/* source_first and source_end of that plan, without computing it. */
void resample_find_source(struct resample_span span, uint32_t source_count, uint32_t count,
                          uint32_t *ret_source_first, uint32_t *ret_source_end);

/* The rows first..end-1 of a source, columns samples each; data points at the first of them. */
struct resample_rows {
    const uint8_t *data;
    size_t stride_bytes;
    uint32_t first; /* at most the plan's source_first */
    uint32_t columns;
};

/* Filters down the columns, with kernels that this processor has. Transposed: output row i of the
 * plan becomes column i of target, target[c * stride + i]. Else straight: target[i * stride + c].
 * The target must not overlap the source. All kernels give the same bytes. */
void resample_columns(enum image_kernels kernels, const struct resample_plan *plan,
                      const struct resample_rows *source, bool transposed, uint8_t *target,
                      size_t target_stride_bytes);

#endif
