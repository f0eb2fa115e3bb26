/*
 * cast — real numbers of one dtype as those of another, rounded once, to nearest, ties to even.
 *
 * Too large for the target is infinite, and not a number in F8_E4M3, which has no infinities; what
 * is not a number stays so. The same dtype on both sides is a copy of the bits.
 *
 * Pure.
 */
#ifndef MILLRACE_CKPT_FORMAT_CAST_H
#define MILLRACE_CKPT_FORMAT_CAST_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* F64, F32, F16, BF16 and the two of 8 bits: what casts take. */
bool cast_is_real(enum dtype dtype);
/* source and target: of any alignment, not overlapping. */
void cast_elements(enum dtype from, const void *source, enum dtype to, void *target,
                   uint64_t count);

#endif
