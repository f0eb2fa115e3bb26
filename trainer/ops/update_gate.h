/*
 * update_gate — decides what happens to the gradients of a step: by how much they are scaled, and
 * whether the weights are updated at all. Header only: the CPU and a CUDA kernel use the same
 * arithmetic where the sums and gradients are, so that the host waits for neither.
 *
 * A step whose loss or gradients are not finite changes neither weights nor moments. If the scaler
 * does not tolerate it, no later step changes them either: the host, which looks at results some
 * steps later, finds everything as it was before that step.
 */
#ifndef MILLRACE_TRAINER_OPS_UPDATE_GATE_H
#define MILLRACE_TRAINER_OPS_UPDATE_GATE_H

#include "base/exact_value.h"
#include "trainer/ops/ops.h"
#include "trainer/ops/scaler.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Steps that may be queued whose decisions the host has not seen. */
enum { UPDATE_GATE_AHEAD_MAX = 2 };

/* Of one update, by its number alone. */
struct update_gate_factors {
    double lr, correction1, correction2; /* as update_scalars has them */
};

/* What the host knows of a step. */
struct update_gate_request {
    int64_t valid_count; /* of the whole global batch: what the gradients are sums over */
    double clip_norm;    /* 0: none */
    double clip_value;   /* of each element, once the norm is clipped; 0: none */
    /* Of the updates that may be next: factors[i] where first_update + i were made before. Not
     * skipping any, the last one is. */
    uint64_t first_update;
    struct update_gate_factors factors[UPDATE_GATE_AHEAD_MAX + 1];
};

/* Goes on from step to step, in device memory: what the next one begins with, then what the last
 * one came to. */
struct update_gate {
    struct scaler scaler;
    double loss_factor; /* scaler_factor(&scaler) */
    uint64_t updates_count;
    bool has_failed; /* no update is made any more */

    bool is_finite;                /* loss and gradients are */
    double norm;                   /* of the gradients of the mean loss, before clipping */
    struct update_scalars scalars; /* of the update, or of that which is skipped */
};

static inline struct update_gate update_gate_begin(const struct scaler *scaler,
                                                   uint64_t updates_count)
{
    struct update_gate gate;
    memset(&gate, 0, sizeof gate);
    gate.scaler = *scaler;
    gate.loss_factor = scaler_factor(scaler);
    gate.updates_count = updates_count;
    return gate;
}

/* losses, squares: the words of their exact sums. Gradients are brought to their mean and clipped:
 * they are multiplied by 1/divisor * min(1, clip / (norm + 1e-6)), norm = sqrt(squares) / divisor,
 * divisor: how many valid items they are sums over, times the loss's factor. */
SHARED_INLINE void update_gate_apply(struct update_gate *d, const int64_t *losses,
                                     const int64_t *squares,
                                     const struct update_gate_request *request)
{
    const struct update_gate_factors *next =
        &request->factors[d->updates_count - request->first_update];
    double divisor = (double)request->valid_count * d->loss_factor;
    double norm = sqrt(exact_value_of(squares)) / divisor;
    double factor = request->clip_norm > 0 ? request->clip_norm / (norm + 1e-6) : 1;
    d->norm = norm;
    d->is_finite = isfinite(norm) && isfinite(exact_value_of(losses));
    d->has_failed = d->has_failed || !scaler_update(&d->scaler, d->is_finite);
    d->loss_factor = scaler_factor(&d->scaler);
    d->scalars.lr = next->lr;
    d->scalars.correction1 = next->correction1;
    d->scalars.correction2 = next->correction2;
    d->scalars.gradient_scale = (factor < 1 ? factor : 1) / divisor;
    d->scalars.gradient_limit = request->clip_value > 0 ? request->clip_value : INFINITY;
    d->scalars.is_skipped = d->has_failed || !d->is_finite;
    d->updates_count += !d->scalars.is_skipped;
}

#endif
