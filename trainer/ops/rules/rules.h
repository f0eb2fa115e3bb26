/*
 * rules — the list of optimizer update rules. Each rule is a function in its own file, compiled for
 * both the CPU and CUDA (step.inc).
 */
#ifndef MILLRACE_TRAINER_OPS_RULES_RULES_H
#define MILLRACE_TRAINER_OPS_RULES_RULES_H

#include <stdbool.h>

/* RULE(name, NAME, moments, first, second)
 *
 *   name           value of optimizer.type; the rule is name_step in name.inc
 *   NAME           suffix of UPDATE_NAME; new rows go last
 *   moments        moments per element, 0 to 2; may depend on `options`
 *   first, second  names of the moments in a checkpoint, as in torch; NULL: none */
#define UPDATE_RULES(RULE)                                                                         \
    RULE(adamw, ADAMW, 2, "exp_avg", "exp_avg_sq")                                                 \
    RULE(sgd, SGD, options->momentum > 0, "momentum_buffer", NULL)                                 \
    RULE(lion, LION, 1, "exp_avg", NULL)

enum update_rule {
#define ROW(name, NAME, ...) UPDATE_##NAME,
    UPDATE_RULES(ROW)
#undef ROW
};

/* Constant during a run. Each rule reads only its own options. */
struct update_options {
    double beta1, beta2, epsilon;
    double momentum; /* 0: none */
    bool nesterov;
    double weight_decay; /* for elements that decay */
};

/* Set for each update; in device memory. */
struct update_scalars {
    double lr;
    double correction1, correction2; /* 1 / (1 - beta^t) of update t = 1, 2, ... */
    double gradient_scale; /* 1 / valid items, times the clip factor; gradients are sums */
    double gradient_limit; /* on the magnitude of a scaled gradient; INFINITY: none */
    bool is_skipped;
};

/* Moments per element, 0 to 2. */
static inline unsigned update_moment_count(enum update_rule rule,
                                           const struct update_options *options)
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
