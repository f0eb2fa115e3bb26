/*
 * box — boxes within n-dimensional arrays, and the contiguous runs that two of them share.
 *
 * A box start..start+extent of an array is stored row-major and dense. The intersection of two
 * boxes lies in each of them as runs of bytes; `runs` walks them in ascending order of both.
 * Trailing dimensions in which the boxes are equal belong to one run.
 *
 * Pure; no allocation.
 */
#ifndef MILLRACE_CKPT_FORMAT_BOX_H
#define MILLRACE_CKPT_FORMAT_BOX_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* Dimensions beyond rank are undefined. */
struct box {
    uint32_t rank;
    uint64_t start[DTYPE_RANK_MAX], extent[DTYPE_RANK_MAX];
};

/* The product of the dimensions, multiplied in order; 1 for a scalar. -EOVERFLOW. */
int box_shape_volume(const uint64_t *shape, uint32_t rank, uint64_t *ret_elements);
/* The same times the element size. -EOVERFLOW. */
int box_shape_bytes(const uint64_t *shape, uint32_t rank, enum dtype dtype, uint64_t *ret_bytes);
/* -EOVERFLOW; -ERANGE if not within shape. */
int box_check(const struct box *box, const uint64_t *shape);
/* False if they share no element. Both have the same rank; scalars always overlap. */
bool box_intersect(const struct box *a, const struct box *b, struct box *ret_common);
bool box_is_same(const struct box *a, const struct box *b);
struct box box_whole(const uint64_t *shape, uint32_t rank);
struct box box_make(const uint64_t *start, const uint64_t *extent, uint32_t rank);
/* The largest box of the array whose elements are the flat range begin..begin+n for some n <= end -
 * begin; begin < end <= volume. Repeated calls, each from where the last ended, cover begin..end in
 * at most 2 * rank - 1 boxes. */
struct box box_of_range(const uint64_t *shape, uint32_t rank, uint64_t begin, uint64_t end,
                        uint64_t *ret_elements);

/* Immutable once made. Strides are in bytes, of the walked dimensions. */
struct runs {
    uint32_t rank;
    uint64_t count[DTYPE_RANK_MAX];
    uint64_t source_stride[DTYPE_RANK_MAX], target_stride[DTYPE_RANK_MAX];
    uint64_t source, target; /* of the first run, in bytes from the start of each box */
    uint64_t run_bytes, runs_count;
};

/* Position of a walk: the run at source and target. left: runs from this one on; 0: past the last.
 * By value. */
struct runs_cursor {
    uint64_t index[DTYPE_RANK_MAX];
    uint64_t source, target, left;
};

/* False if the boxes share no element. They must have passed box_check. */
bool runs_init(struct runs *runs, const struct box *source, const struct box *target,
               enum dtype dtype);
struct runs_cursor runs_first(const struct runs *runs);
void runs_next(const struct runs *runs, struct runs_cursor *cursor);

#endif
