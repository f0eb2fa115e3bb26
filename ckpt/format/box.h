/*
 * box — boxes within n-dimensional arrays, and the contiguous runs that two boxes share.
 *
 * A box start..start+extent is stored row-major and dense. The intersection of two boxes consists
 * of contiguous runs; box_runs walks them at ascending offsets in both boxes. Trailing dimensions
 * in which the boxes are equal belong to one run.
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

/* Multiplies the dimensions in order; 1 for a scalar. -EOVERFLOW. */
int box_shape_volume(const uint64_t *shape, uint32_t rank, uint64_t *ret_elements);
/* Like box_shape_volume, in bytes. */
int box_shape_bytes(const uint64_t *shape, uint32_t rank, enum dtype dtype, uint64_t *ret_bytes);
/* -EOVERFLOW; -ERANGE if not within shape. */
int box_check(const struct box *box, const uint64_t *shape);
/* False if they share no element. Both must have the same rank; scalars always overlap. */
bool box_intersect(const struct box *a, const struct box *b, struct box *ret_overlap);
bool box_equals(const struct box *a, const struct box *b);
struct box box_from_shape(const uint64_t *shape, uint32_t rank);
struct box box_make(const uint64_t *start, const uint64_t *extent, uint32_t rank);
/* Returns the largest box that consists of the first elements of the flat range begin..end; begin <
 * end <= volume. Repeated calls, each from the previous end, cover the range in at most 2 * rank -
 * 1 boxes. */
struct box box_from_range(const uint64_t *shape, uint32_t rank, uint64_t begin, uint64_t end,
                          uint64_t *ret_elements);

/* Strides are in bytes. */
struct box_runs {
    uint32_t rank;
    uint64_t count[DTYPE_RANK_MAX];
    uint64_t source_stride[DTYPE_RANK_MAX], target_stride[DTYPE_RANK_MAX];
    uint64_t source, target; /* offsets of the first run, in bytes */
    uint64_t run_bytes, runs_count;
};

/* left: remaining runs, including this one; 0: at the end. */
struct box_runs_cursor {
    uint64_t index[DTYPE_RANK_MAX];
    uint64_t source, target, left;
};

/* False if the boxes share no element. Both must have passed box_check. */
bool box_runs_init(struct box_runs *runs, const struct box *source, const struct box *target,
                   enum dtype dtype);
struct box_runs_cursor box_runs_first(const struct box_runs *runs);
void box_runs_next(const struct box_runs *runs, struct box_runs_cursor *cursor);

#endif
