/*
 * scaler — the factor on the loss that keeps gradients of a narrow type (fp16) away from zero and from infinity.
 *
 * Doubles after SCALER_CLEAN_STEPS steps without an overflow, halves at an overflow, whose step is skipped (Micikevicius et al., "Mixed
 * precision training", ICLR 2018; PyTorch's GradScaler). Powers of two: what is multiplied and later divided is exact.
 *
 * The scale is that of a micro-batch's mean loss, as elsewhere. Gradients here are of the sum over its rows, so what multiplies them is
 * the scale over the number of rows, rounded up to a power of two.
 *
 * It follows the steps where their gradients are: kernels share what a step does to it.
 */
#ifndef MILLRACE_TRAINER_SCALER_H
#define MILLRACE_TRAINER_SCALER_H

#include "base/shared_inline.h"

#include <stdbool.h>
#include <stdint.h>

enum { SCALER_FIRST = 1 << 16, SCALER_LEAST = 1, SCALER_MOST = 1 << 24, SCALER_CLEAN_STEPS = 2000 };

/* By value in every checkpoint. Not dynamic: scale stays 1, and no overflow is forgiven. */
struct scaler {
    bool is_dynamic;
    double scale;
    uint64_t clean_steps_count; /* since the scale changed */
    double rows; /* a power of two, at least those of a micro-batch; not part of a checkpoint */
};

struct scaler scaler_begin(bool is_dynamic, uint64_t rows);
bool scaler_is_valid(const struct scaler *scaler); /* a power of two within the limits */

/* Of the sum of a micro-batch's losses. */
SHARED_INLINE double scaler_factor(const struct scaler *scaler)
{
    return scaler->scale / scaler->rows;
}

/* After a step: were its loss and gradients finite? False where they were not and the scale can't be lowered. */
SHARED_INLINE bool scaler_update(struct scaler *scaler, bool is_finite)
{
    if (!scaler->is_dynamic)
        return is_finite;
    if (!is_finite && scaler->scale <= SCALER_LEAST)
        return false;
    scaler->clean_steps_count = is_finite ? scaler->clean_steps_count + 1 : 0;
    if (!is_finite) {
        scaler->scale /= 2;
    } else if (scaler->clean_steps_count >= SCALER_CLEAN_STEPS && scaler->scale < SCALER_MOST) {
        scaler->scale *= 2;
        scaler->clean_steps_count = 0;
    }
    return true;
}

#endif
