/*
 * tree_sum — the canonical sum of one slice per rank.
 *
 * T(lo, hi): a single leaf is itself; otherwise split at lo + the largest power of two below hi -
 * lo, and add. The order, and therefore the bits, depend only on the number of leaves.
 */
#ifndef MILLRACE_COMM_ENGINE_TREE_SUM_H
#define MILLRACE_COMM_ENGINE_TREE_SUM_H

#include "base/dtype.h"

#include <stddef.h>

/* leaves: count slices, stride_bytes apart, of `elements` elements of dtype (F32 or F64). The first
 * receives the sum; the others are overwritten. */
void tree_sum(void *leaves, size_t count, size_t stride_bytes, size_t elements, enum dtype dtype);

#endif
