/*
 * early_stop — ends a run once evaluations stop improving. Header only, pure.
 *
 * An evaluation is better if it beats the best previous one by more than min_delta. The run ends
 * after `patience` consecutive evaluations that are not better. Checkpoints store the counters,
 * so interruptions do not change the last step.
 */
#ifndef MILLRACE_TRAINER_CONTROL_EARLY_STOP_H
#define MILLRACE_TRAINER_CONTROL_EARLY_STOP_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

struct early_stop_options {
    uint64_t patience; /* evaluations; 0: never stop early */
    double min_delta;
    bool wants_largest;
};

/* Owner thread. Zero initially, except for the options. */
struct early_stop {
    struct early_stop_options options;
    bool has_best;
    double best;
    uint64_t best_step, waited_count; /* evaluations since the best one */
};

/* A non-finite value is never better. */
static inline void early_stop_note(struct early_stop *stop, uint64_t step, double value)
{
    double gain = stop->options.wants_largest ? value - stop->best : stop->best - value;
    bool is_better = isfinite(value) && (!stop->has_best || gain > stop->options.min_delta);
    stop->waited_count = is_better ? 0 : stop->waited_count + 1;
    if (!is_better)
        return;
    stop->has_best = true;
    stop->best = value;
    stop->best_step = step;
}

static inline bool early_stop_is_over(const struct early_stop *stop)
{
    return stop->options.patience > 0 && stop->waited_count >= stop->options.patience;
}

#endif
