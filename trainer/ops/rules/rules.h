/*
 * rules — the optimizers' update rules, a row each. A rule is one function in a file of its own,
 * which the CPU and CUDA both compile (step.inc).
 */
#ifndef MILLRACE_TRAINER_OPS_RULES_RULES_H
#define MILLRACE_TRAINER_OPS_RULES_RULES_H

#include <stdbool.h>

/* RULE(name, NAME, moments, first, second)
 *
 *   name           what optimizer.type calls it; its function is name_step in name.inc
 *   NAME           UPDATE_NAME of enum update_rule; new rows go last
 *   moments        how many moments an element has, 0 to 2, given `options`
 *   first, second  the moments' names in a checkpoint, which are torch's; NULL: none */
#define UPDATE_RULES(RULE)                                                                         \
    RULE(adamw, ADAMW, 2, "exp_avg", "exp_avg_sq")                                                 \
    RULE(sgd, SGD, options->momentum > 0, "momentum_buffer", NULL)                                 \
    RULE(lion, LION, 1, "exp_avg", NULL)

enum update_rule {
#define ROW(name, NAME, ...) UPDATE_##NAME,
    UPDATE_RULES(ROW)
#undef ROW
};

/* What a run fixes. A rule reads those that concern it. */
struct update_options {
    double beta1, beta2, epsilon;
    double momentum; /* 0: none */
    bool nesterov;
    double weight_decay; /* of the elements that decay */
};

/* What each update sets; in device memory. */
struct update_scalars {
    double lr;
    double correction1, correction2; /* 1 / (1 - beta^t) of update t = 1, 2, ... */
    double gradient_scale; /* gradients are sums: 1 / valid items, times the clip factor */
    double gradient_limit; /* of the size of a scaled gradient; INFINITY: none */
    bool is_skipped;       /* nothing is changed */
};

/* How many moments an element has: 0 to 2. */
static inline unsigned update_moments(enum update_rule rule, const struct update_options *options)
{
    switch (rule) {
#define ROW(name, NAME, moments, ...)                                                              \
    case UPDATE_##NAME:                                                                            \
        return (moments);
        UPDATE_RULES(ROW)
#undef ROW
    }
    return 0;
}

#endif
