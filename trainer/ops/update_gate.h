/*
 * update_gate — computes the scale of a step's gradients and decides whether the weights are
 * updated. Header only: the CPU and a CUDA kernel run the same code where the sums reside, so the
 * host does not wait.
 *
 * A step with a non-finite loss or gradient changes neither weights nor moments. If the scaler does
 * not tolerate the overflow, later steps change nothing either: the host, which reads results some
 * steps late, finds the state from before the failed step.
 */
#ifndef MILLRACE_TRAINER_OPS_UPDATE_GATE_H
#define MILLRACE_TRAINER_OPS_UPDATE_GATE_H

#include "base/numeric/exact_value.h"
#include "trainer/ops/ops.h"
#include "trainer/ops/scaler.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Maximum number of queued steps whose results the host has not read. */
enum { UPDATE_GATE_AHEAD_MAX = 2 };

/* These depend only on the update's number. */
struct update_gate_factors {
    double lr, correction1, correction2; /* see update_scalars */
};

struct update_gate_request {
    int64_t valid_count; /* in the global batch; gradients are sums over these items */
    double clip_norm;    /* 0: off */
    double clip_value;   /* per element, applied after norm clipping; 0: off */
    /* factors[i] applies after first_update + i updates; the last one applies if no step is
     * skipped. */
    uint64_t first_update;
    struct update_gate_factors factors[UPDATE_GATE_AHEAD_MAX + 1];
};

/* In device memory: inputs of the next step, then results of the last one. */
struct update_gate {
    struct scaler scaler;
    double loss_factor;
    uint64_t updates_count;
    bool has_failed; /* no further updates */

    bool is_finite;                /* loss and gradients of the last step */
    double norm;                   /* of the mean loss's gradient, before clipping */
    struct update_scalars scalars; /* of the last update, applied or skipped */
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

/* losses, squares: the words of exact sums. Gradients are averaged, then clipped: they are
 * multiplied by min(1, clip / (norm + 1e-6)) / divisor. norm = sqrt(squares) / divisor; divisor =
 * valid items * loss factor. */
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
