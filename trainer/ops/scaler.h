/*
 * scaler — the factor on the loss that keeps gradients of a narrow type (fp16) away from zero and
 * from infinity.
 *
 * Doubles after `window` steps without an overflow, halves at an overflow, whose step is skipped
 * (Micikevicius et al., "Mixed precision training", ICLR 2018; PyTorch's GradScaler). With a
 * hysteresis of n the first n - 1 overflows after a doubling cost their step alone (as
 * DeepSpeed's). Powers of two: what is multiplied and later divided is exact.
 *
 * The scale is that of a micro-batch's mean loss, as elsewhere. Gradients here are of the sum over
 * its rows, so what multiplies them is the scale over the number of rows, rounded up to a power of
 * two.
 *
 * It follows the steps where their gradients are: kernels share what a step does to it.
 */
#ifndef MILLRACE_TRAINER_OPS_SCALER_H
#define MILLRACE_TRAINER_OPS_SCALER_H

#include "base/shared_inline.h"

#include <stdbool.h>
#include <stdint.h>

enum { SCALER_FIRST = 1 << 16, SCALER_LEAST = 1, SCALER_MOST = 1 << 24, SCALER_CLEAN_STEPS = 2000 };

/* Immutable. first and least: powers of two, SCALER_LEAST to SCALER_MOST. window, hysteresis: at
 * least 1. */
struct scaler_options {
    double first, least;
    uint64_t window, hysteresis;
};

/* By value in every checkpoint, but for the options. Not dynamic: scale stays 1, and no overflow is
 * forgiven. */
struct scaler {
    struct scaler_options options;
    bool is_dynamic;
    double scale;
    uint64_t clean_steps_count; /* since the scale changed, or an overflow */
    uint64_t overflows_count;   /* since the scale doubled, up to the hysteresis */
    double rows; /* a power of two, at least those of a micro-batch; not part of a checkpoint */
};

/* By default: SCALER_FIRST, SCALER_LEAST, a window of SCALER_CLEAN_STEPS, no hysteresis. */
struct scaler scaler_begin(bool is_dynamic, uint64_t rows);
struct scaler scaler_begin_with(const struct scaler_options *options, uint64_t rows); /* dynamic */
bool scaler_is_valid(const struct scaler *scaler); /* a power of two within the limits */

/* Of the sum of a micro-batch's losses. */
SHARED_INLINE double scaler_factor(const struct scaler *scaler)
{
    return scaler->scale / scaler->rows;
}

/* After a step: were its loss and gradients finite? False where they were not and the scale can't
 * be lowered. */
SHARED_INLINE bool scaler_update(struct scaler *scaler, bool is_finite)
{
    if (!scaler->is_dynamic)
        return is_finite;
    scaler->clean_steps_count = is_finite ? scaler->clean_steps_count + 1 : 0;
    if (!is_finite && scaler->overflows_count + 1 < scaler->options.hysteresis) {
        scaler->overflows_count++;
    } else if (!is_finite && scaler->scale <= scaler->options.least) {
        return false;
    } else if (!is_finite) {
        scaler->scale /= 2;
    } else if (scaler->clean_steps_count >= scaler->options.window) {
        scaler->scale = scaler->scale < SCALER_MOST ? scaler->scale * 2 : scaler->scale;
        scaler->clean_steps_count = scaler->overflows_count = 0;
    }
    return true;
}

#endif
