/*
 * tree_sum — the canonical sum of one slice of each rank.
 *
 * T(lo, hi): one leaf is itself; else split at lo + the largest power of two below hi - lo, and
 * add. The order depends on the number of leaves alone, hence so do the bits.
 */
#ifndef MILLRACE_COMM_ENGINE_TREE_SUM_H
#define MILLRACE_COMM_ENGINE_TREE_SUM_H

#include "base/dtype.h"

#include <stddef.h>

/* leaves: count slices of stride_bytes, elements of dtype (F32 or F64) each. The sum is in the
 * first; the others hold anything. */
void tree_sum(void *leaves, size_t count, size_t stride_bytes, size_t elements, enum dtype dtype);

#endif
