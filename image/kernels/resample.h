/*
 * resample — a separable antialiasing filter in integer arithmetic.
 *
 * A triangle filter as wide as the reduction (at least one source sample), like Pillow's
 * BILINEAR resize. Coefficients are nonnegative int16 with 14 fractional bits and sum to exactly
 * 1 << 14. They come from rational numbers, so they are the same on any CPU. Each is the
 * difference of two adjacent rounded running sums. This keeps the sum exact for any number of taps;
 * even a reduction by a factor of thousands uses its whole support.
 *
 * A pass filters down the columns (adjacent columns form vectors), rounds to uint8 and writes
 * its output transposed; two passes make the image upright again:
 *
 *     source, rows x columns  -> down the rows, transposed ->  columns x out_height
 *                             -> down the columns, transposed -> out_height x out_width
 *
 * If the last pass does not transpose, the result is the transposed image, out_width x
 * out_height.
 *
 * enlarge.h filters rows of enlargements without transposing.
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
    RESAMPLE_DEN_MAX =
        1024, /* keeps a running sum below 2^43, and below 2^58 after scaling by 2^15 */
};

/* Interval of a line: [begin_num, begin_num + length_num) / den, in samples. */
struct resample_span {
    int64_t begin_num, length_num, den;
};

/* Output i is the weighted sum of taps[i] samples starting at first[i]. Memory is reused between
 * plans. Zero-initialize it. One thread at a time. */
struct resample_plan {
    uint32_t count;        /* outputs */
    uint32_t taps_max;     /* row length of coefficients[]; even, because taps are used in pairs */
    uint32_t *first;       /* [count] first source sample */
    uint32_t *taps;        /* [count] at least 1 */
    int16_t *coefficients; /* [count][taps_max], zero after taps[i] */
    /* Source samples that the outputs need: [source_first, source_end). */
    uint32_t source_first, source_end;
    size_t outputs_capacity, coefficients_capacity;
    /* The inputs, with the two fields below; the plan is recomputed only if they change. */
    struct resample_span span;
    uint32_t source_count;
    bool flip;
};

/* Plans count outputs over the span of a line with source_count samples. Drops taps outside the
 * line and normalizes the others. flip: output i is computed as count-1-i. -ENOMEM. Asserts the
 * limits above, and that the span lies in the line. */
int resample_plan_init(struct resample_plan *plan, struct resample_span span, uint32_t source_count,
                       uint32_t count, bool flip, struct err *err);
void resample_plan_deinit(struct resample_plan *plan);
/* Returns source_first and source_end of that plan without computing it. */
void resample_find_source(struct resample_span span, uint32_t source_count, uint32_t count,
                          uint32_t *ret_source_first, uint32_t *ret_source_end);

/* Rows `first` to `end` - 1 of a source with `columns` samples per row; `data` points to row
 * `first`. */
struct resample_rows {
    const uint8_t *data;
    size_t stride_bytes;
    uint32_t first; /* at most the plan's source_first */
    uint32_t columns;
};

/* Filters down the columns. Output row i becomes column i of target, target[c * stride + i], if
 * transposed, else row i, target[i * stride + c]. The target must not overlap the source. The
 * processor must have the kernels. All kernels give the same bytes. */
void resample_columns(enum image_kernels kernels, const struct resample_plan *plan,
                      const struct resample_rows *source, bool transposed, uint8_t *target,
                      size_t target_stride_bytes);

#endif
