/*
 * early_stop — a run ends before its last step where its evaluations have not become better for
 * some time. Header only, pure.
 *
 * An evaluation is better where it beats the best one before it by more than min_delta; after
 * `patience` evaluations in a row that are not, the run is over. What is counted stands in each
 * checkpoint, so that a run that was stopped or killed ends where it would have ended without.
 */
#ifndef MILLRACE_TRAINER_RUN_EARLY_STOP_H
#define MILLRACE_TRAINER_RUN_EARLY_STOP_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Immutable. */
struct early_stop_options {
    uint64_t patience; /* evaluations; 0: the run goes to its end */
    double min_delta;
    bool wants_largest; /* the metric is better the larger it is */
};

/* Owner thread. Zero but for the options at first. */
struct early_stop {
    struct early_stop_options options;
    bool has_best;
    double best;
    uint64_t best_step, waited_count; /* evaluations since the best one */
};

/* An evaluation after that step. What is not finite is never better. */
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
