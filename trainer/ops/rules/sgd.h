/*
 * sgd — stochastic gradient descent with momentum (Sutskever et al., "On the importance of
 * initialization and momentum in deep learning", ICML 2013), as torch.optim.SGD:
 *
 *     m = momentum m + g + decay w
 *     w = w - lr m                                with Nesterov's momentum
 *     w = w - lr (g + decay w + momentum m)
 */
#ifndef MILLRACE_TRAINER_OPS_RULES_SGD_H
#define MILLRACE_TRAINER_OPS_RULES_SGD_H

RULE_INLINE real sgd_step(const struct update_factors *f, real w, real g, real decay, real *m,
                          real *v)
{
    (void)v;
    g = g + decay * w;
    if (f->momentum == 0)
        return w - f->lr * g;
    *m = without_subnormals(f->momentum * *m + g);
    return w - f->lr * (f->nesterov ? g + f->momentum * *m : *m);
}

#endif
