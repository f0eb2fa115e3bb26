/*
 * step — what update rules compute with. Includes all rules.
 *
 * Whoever includes it defines `real` (float or double), real_sqrt, REAL_MIN (the smallest normal
 * number) and RULE_INLINE, which begins each function. A rule is
 *
 *     RULE_INLINE real name_step(const struct update_factors *f, real w, real g, real decay,
 *                                real *m, real *v);
 *
 * It returns the new weight. w: the weight. g: the gradient, scaled and clipped. decay: the weight
 * decay, 0 for elements that do not decay. m, v: the moments, changed in place; a moment that the
 * rule's row in rules.h does not count is 0 and is lost.
 */
#ifndef MILLRACE_TRAINER_OPS_RULES_STEP_H
#define MILLRACE_TRAINER_OPS_RULES_STEP_H

#include "trainer/ops/rules/rules.h"

#include <string.h>

/* update_options and update_scalars in the element type; rest = 1 - beta. */
struct update_factors {
    real beta1, beta2, rest1, rest2, epsilon, momentum, weight_decay;
    real lr, correction1, correction2, gradient_scale, gradient_limit;
    bool nesterov;
};

static inline struct update_factors update_factors_of(const struct update_options *options)
{
    struct update_factors f;
    memset(&f, 0, sizeof f);
    f.beta1 = (real)options->beta1;
    f.beta2 = (real)options->beta2;
    f.rest1 = (real)(1 - options->beta1);
    f.rest2 = (real)(1 - options->beta2);
    f.epsilon = (real)options->epsilon;
    f.momentum = (real)options->momentum;
    f.weight_decay = (real)options->weight_decay;
    f.nesterov = options->nesterov;
    return f;
}

RULE_INLINE void update_factors_set(struct update_factors *f, const struct update_scalars *scalars)
{
    f->lr = (real)scalars->lr;
    f->correction1 = (real)scalars->correction1;
    f->correction2 = (real)scalars->correction2;
    f->gradient_scale = (real)scalars->gradient_scale;
    f->gradient_limit = (real)scalars->gradient_limit;
}

/* A moment that fades out ends at 0. Subnormal numbers never fade out in rounded arithmetic, and
 * they make the CPU's loop thirty times slower. */
RULE_INLINE real without_subnormals(real x)
{
    return x < REAL_MIN && x > -REAL_MIN ? 0 : x;
}

/* g of a rule. sum: the sum of the gradients of all items. */
RULE_INLINE real update_gradient(const struct update_factors *f, real sum)
{
    real g = sum * f->gradient_scale;
    g = g < f->gradient_limit ? g : f->gradient_limit;
    return g > -f->gradient_limit ? g : -f->gradient_limit;
}

#include "trainer/ops/rules/adamw.h"
#include "trainer/ops/rules/lion.h"
#include "trainer/ops/rules/sgd.h"

/* `rule` is a constant where this is called: one rule is left. */
RULE_INLINE real update_step(enum update_rule rule, const struct update_factors *f, real w, real g,
                             real decay, real *m, real *v)
{
    switch (rule) {
#define ROW(name, NAME, ...)                                                                       \
    case UPDATE_##NAME:                                                                            \
        return name##_step(f, w, g, decay, m, v);
        UPDATE_RULES(ROW)
#undef ROW
    }
    return w;
}

#endif
