/*
 * adamw — Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled Weight Decay
 * Regularization", ICLR 2019), as torch.optim.AdamW:
 *
 *     m = beta1 m + (1 - beta1) g
 *     v = beta2 v + (1 - beta2) g^2
 *     w = w - lr (m correction1 / (sqrt(v correction2) + epsilon) + decay w)
 */
#ifndef MILLRACE_TRAINER_OPS_RULES_ADAMW_H
#define MILLRACE_TRAINER_OPS_RULES_ADAMW_H

RULE_INLINE real adamw_step(const struct update_factors *f, real w, real g, real decay, real *m,
                            real *v)
{
    *m = without_subnormals(f->beta1 * *m + f->rest1 * g);
    *v = without_subnormals(f->beta2 * *v + f->rest2 * g * g);
    real step = *m * f->correction1 / (real_sqrt(*v * f->correction2) + f->epsilon);
    return w - f->lr * (step + decay * w);
}

#endif
