/*
 * schedule — the learning rate of each update: a linear warm-up, then constant, linear or cosine down to a minimum.
 */
#ifndef MILLRACE_TRAINER_SCHEDULE_H
#define MILLRACE_TRAINER_SCHEDULE_H

#include <stdint.h>

enum schedule_type { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE };

/* Immutable. */
struct schedule {
    enum schedule_type type;
    double lr, min_lr;
    uint64_t warmup, steps; /* updates: of the warm-up, of all */
};

/* The rate of update step (from 0): (step+1)/warmup of lr while warming up, then, with p = (step - warmup) / (steps - warmup),
 * cosine min + (1 + cos(pi p)) / 2 * (lr - min) or linear lr + p * (min - lr). */
double schedule_lr(const struct schedule *schedule, uint64_t step);

#endif
