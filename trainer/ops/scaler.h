/*
 * scaler — loss scaling, to keep fp16 gradients from underflowing and overflowing. The CPU and CUDA
 * kernels share the update rule.
 *
 * The scale doubles after `window` steps without an overflow. An overflow halves it and skips the
 * step (Micikevicius et al., "Mixed precision training", ICLR 2018; PyTorch's GradScaler). With a
 * hysteresis of n, the first n - 1 overflows after a doubling only skip the step (as in DeepSpeed).
 * Scales are powers of two, so scaling and unscaling are exact.
 *
 * The scale applies to the mean loss of a micro-batch. Gradients are sums over its rows, so the
 * factor on the sum is scale / rows, with rows rounded up to a power of two.
 */
#ifndef MILLRACE_TRAINER_OPS_SCALER_H
#define MILLRACE_TRAINER_OPS_SCALER_H

#include "base/shared_inline.h"

#include <stdbool.h>
#include <stdint.h>

enum { SCALER_INITIAL = 1 << 16, SCALER_MIN = 1, SCALER_MAX = 1 << 24, SCALER_WINDOW_STEPS = 2000 };

/* Immutable. initial and min: powers of two from SCALER_MIN to SCALER_MAX. window, hysteresis: at
 * least 1. */
struct scaler_options {
    double initial, min;
    uint64_t window, hysteresis;
};

/* Stored in every checkpoint, except for the options and rows. If not dynamic, the scale stays 1
 * and every overflow is an error. */
struct scaler {
    struct scaler_options options;
    bool is_dynamic;
    double scale;
    uint64_t clean_steps_count; /* since the last overflow or change of scale */
    uint64_t overflows_count;   /* since the scale last doubled; at most the hysteresis */
    double rows;                /* rows of a micro-batch, rounded up to a power of two */
};

/* Uses SCALER_INITIAL, SCALER_MIN, a window of SCALER_WINDOW_STEPS, and no hysteresis. */
struct scaler scaler_begin(bool is_dynamic, uint64_t rows);
/* Always dynamic. */
struct scaler scaler_begin_with(const struct scaler_options *options, uint64_t rows);
/* True if the scale is a power of two within the limits. */
bool scaler_is_valid(const struct scaler *scaler);

/* The factor on the sum of a micro-batch's losses. */
SHARED_INLINE double scaler_factor(const struct scaler *scaler)
{
    return scaler->scale / scaler->rows;
}

/* Call after each step. is_finite: loss and gradients are finite. Returns false if they are not and
 * the scale is at its minimum. */
SHARED_INLINE bool scaler_update(struct scaler *scaler, bool is_finite)
{
    if (!scaler->is_dynamic)
        return is_finite;
    scaler->clean_steps_count = is_finite ? scaler->clean_steps_count + 1 : 0;
    if (!is_finite && scaler->overflows_count + 1 < scaler->options.hysteresis) {
        scaler->overflows_count++;
    } else if (!is_finite && scaler->scale <= scaler->options.min) {
        return false;
    } else if (!is_finite) {
        scaler->scale /= 2;
    } else if (scaler->clean_steps_count >= scaler->options.window) {
        scaler->scale = scaler->scale < SCALER_MAX ? scaler->scale * 2 : scaler->scale;
        scaler->clean_steps_count = scaler->overflows_count = 0;
    }
    return true;
}

#endif
