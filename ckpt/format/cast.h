/*
 * cast — converts real numbers between dtypes, rounding once, to nearest even.
 *
 * Values too large for the target become infinite, or NaN in F8_E4M3, which has no infinities. NaN
 * stays NaN. If the dtypes are equal, bits are copied.
 */
#ifndef MILLRACE_CKPT_FORMAT_CAST_H
#define MILLRACE_CKPT_FORMAT_CAST_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* True for F64, F32, F16, BF16 and the two 8-bit formats. */
bool cast_is_float(enum dtype dtype);
/* source and target may be unaligned but must not overlap. */
void cast_elements(enum dtype from, const void *source, enum dtype to, void *target,
                   uint64_t count);

#endif
