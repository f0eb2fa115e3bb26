/*
 * tree_sum — the deterministic sum of one slice per rank.
 *
 * T(lo, hi) = T(lo, mid) + T(mid, hi), where mid - lo is the largest power of two below hi - lo.
 * The order, and therefore the bits, depends only on the number of leaves.
 */
#ifndef MILLRACE_COMM_ENGINE_TREE_SUM_H
#define MILLRACE_COMM_ENGINE_TREE_SUM_H

#include "base/dtype.h"

#include <stddef.h>

/* leaves: count slices, stride_bytes apart, of `elements` elements (F32 or F64). The first
 * becomes the sum; the others are overwritten. */
void tree_sum(void *leaves, size_t count, size_t stride_bytes, size_t elements, enum dtype dtype);

#endif
