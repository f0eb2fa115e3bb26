/*
 * rope_spec — the frequencies of rotary positions, for CPU and CUDA. Header only.
 */
#ifndef MILLRACE_TRAINER_OPS_ROPE_SPEC_H
#define MILLRACE_TRAINER_OPS_ROPE_SPEC_H

#include "base/shared_inline.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Llama 3.1's scaling for contexts longer than those of pretraining (Grattafiori et al., "The Llama
 * 3 Herd of Models", 2024; rope_type llama3 in transformers). Wavelengths above original_positions
 * / low_freq_factor are multiplied by factor, those below original_positions / high_freq_factor are
 * unchanged, and those in between are interpolated. */
struct rope_scaling {
    double factor; /* 0 or 1: no scaling */
    double low_freq_factor, high_freq_factor;
    uint64_t original_positions;
};

struct rope_spec {
    double base;
    struct rope_scaling scaling;
};

static inline bool rope_spec_equal(const struct rope_spec *a, const struct rope_spec *b)
{
    const struct rope_scaling *s = &a->scaling, *t = &b->scaling;
    return a->base == b->base && s->factor == t->factor &&
           s->low_freq_factor == t->low_freq_factor && s->high_freq_factor == t->high_freq_factor &&
           s->original_positions == t->original_positions;
}

/* Rotation angle per position of a pair, in radians. */
SHARED_INLINE double rope_frequency(const struct rope_spec *spec, uint64_t pair, uint64_t pairs)
{
    const struct rope_scaling *s = &spec->scaling;
    double frequency = pow(spec->base, -(double)pair / (double)pairs);
    if (s->factor == 0 || s->factor == 1)
        return frequency;
    double turns = (double)s->original_positions * frequency / 6.283185307179586;
    if (turns > s->high_freq_factor)
        return frequency;
    if (turns < s->low_freq_factor)
        return frequency / s->factor;
    double smooth = (turns - s->low_freq_factor) / (s->high_freq_factor - s->low_freq_factor);
    return (1 - smooth) * (frequency / s->factor) + smooth * frequency;
}

#endif
