/*
 * lion — Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", NeurIPS 2023,
 * algorithm 2):
 *
 *     c = beta1 m + (1 - beta1) g
 *     w = w - lr (sign(c) + decay w)
 *     m = beta2 m + (1 - beta2) g
 */
#ifndef MILLRACE_TRAINER_OPS_RULES_LION_H
#define MILLRACE_TRAINER_OPS_RULES_LION_H

RULE_INLINE real lion_step(const struct update_factors *f, real w, real g, real decay, real *m,
                           real *v)
{
    (void)v;
    real c = f->beta1 * *m + f->rest1 * g;
    real sign = (real)((c > 0) - (c < 0));
    *m = without_subnormals(f->beta2 * *m + f->rest2 * g);
    return w - f->lr * (sign + decay * w);
}

#endif
