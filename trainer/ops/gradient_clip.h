/*
 * gradient_clip — computes the factor that averages and clips a step's gradients, and skips the
 * update if they overflow. Header only: the CPU and a CUDA kernel run the same code where the sums
 * reside, so the host does not wait.
 *
 * A step with a non-finite loss or gradient changes neither weights nor moments. If the scaler does
 * not tolerate the overflow, later steps change nothing either: the host reads results some steps
 * late and then finds the state from before the failed step.
 */
#ifndef MILLRACE_TRAINER_OPS_GRADIENT_CLIP_H
#define MILLRACE_TRAINER_OPS_GRADIENT_CLIP_H

#include "base/numeric/exact_value.h"
#include "trainer/ops/ops.h"
#include "trainer/ops/scaler.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Maximum number of queued steps whose results the host has not read. */
enum { UNREAD_STEPS_MAX = 2 };

/* The members of update_scalars that depend only on the update's number. */
struct scheduled_scalars {
    double lr, correction1, correction2;
};

struct gradient_clip_input {
    int64_t valid_count; /* in the global batch; gradients are sums over these items */
    double clip_norm;    /* 0: off */
    double clip_value;   /* per element, applied after norm clipping; 0: off */
    /* scheduled[i] applies after first_update + i updates. If no step is skipped, the last entry
     * applies. */
    uint64_t first_update;
    struct scheduled_scalars scheduled[UNREAD_STEPS_MAX + 1];
};

/* In device memory: inputs of the next step, then results of the last one. */
struct gradient_clip {
    struct scaler scaler;
    double loss_factor;
    uint64_t updates_count;
    bool has_failed; /* no further updates */

    bool is_finite;                /* loss and gradients of the last step */
    double norm;                   /* of the mean loss's gradient, before clipping */
    struct update_scalars scalars; /* of the last update, applied or skipped */
};

static inline struct gradient_clip gradient_clip_begin(const struct scaler *scaler,
                                                       uint64_t updates_count)
{
    struct gradient_clip clip;
    memset(&clip, 0, sizeof clip);
    clip.scaler = *scaler;
    clip.loss_factor = scaler_factor(scaler);
    clip.updates_count = updates_count;
    return clip;
}

/* losses, squares: the words of exact sums. Gradients are averaged, then clipped: they are
 * multiplied by min(1, clip / (norm + 1e-6)) / divisor. norm = sqrt(squares) / divisor; divisor =
 * valid items * loss factor. */
SHARED_INLINE void gradient_clip_compute(struct gradient_clip *clip, const int64_t *losses,
                                         const int64_t *squares,
                                         const struct gradient_clip_input *input)
{
    const struct scheduled_scalars *next =
        &input->scheduled[clip->updates_count - input->first_update];
    double divisor = (double)input->valid_count * clip->loss_factor;
    double norm = sqrt(exact_value_round(squares)) / divisor;
    double factor = input->clip_norm > 0 ? input->clip_norm / (norm + 1e-6) : 1;
    clip->norm = norm;
    clip->is_finite = isfinite(norm) && isfinite(exact_value_round(losses));
    clip->has_failed = clip->has_failed || !scaler_update(&clip->scaler, clip->is_finite);
    clip->loss_factor = scaler_factor(&clip->scaler);
    clip->scalars.lr = next->lr;
    clip->scalars.correction1 = next->correction1;
    clip->scalars.correction2 = next->correction2;
    clip->scalars.gradient_scale = (factor < 1 ? factor : 1) / divisor;
    clip->scalars.gradient_limit = input->clip_value > 0 ? input->clip_value : INFINITY;
    clip->scalars.is_skipped = clip->has_failed || !clip->is_finite;
    clip->updates_count += !clip->scalars.is_skipped;
}

#endif
