/*
 * schedule — the learning rate of each update: a linear warm-up, then constant, linear or cosine
 * down to a minimum.
 */
#ifndef MILLRACE_TRAINER_OPTIM_SCHEDULE_H
#define MILLRACE_TRAINER_OPTIM_SCHEDULE_H

#include <stdint.h>

enum schedule_type { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_WARMUP_LINEAR };

/* Immutable. */
struct schedule {
    enum schedule_type type;
    double lr, min_lr;
    uint64_t unit_steps;    /* updates per unit of constant rate: 1 or an epoch; 0: 1 */
    uint64_t warmup, steps; /* units of warm-up; updates in total */
};

/* The rate of an update (from 0) in unit u = step / unit_steps of U; the last unit may be short.
 * During warm-up: lr * (u + 1) / warmup. Then, with p = (u - warmup) / (U - warmup):
 * cosine: min + (1 + cos(pi p)) / 2 * (lr - min); linear: lr + p * (min - lr);
 * warmup_linear: linear with a min of 0. */
double schedule_lr(const struct schedule *schedule, uint64_t step);

#endif
