/*
 * schedule — learning rate schedules: a linear warm-up, then constant, linear or cosine decay.
 */
#ifndef MILLRACE_TRAINER_OPTIM_SCHEDULE_H
#define MILLRACE_TRAINER_OPTIM_SCHEDULE_H

#include <stdint.h>

enum schedule_type { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_WARMUP_LINEAR };

struct schedule {
    enum schedule_type type;
    double lr, min_lr;
    uint64_t unit_steps;    /* updates that share a rate; 0 means 1 */
    uint64_t warmup, steps; /* warmup: in units; steps: in updates */
};

/* step counts from 0 and belongs to unit u = step / unit_steps, of U units in total. During
 * warm-up: lr * (u + 1) / warmup. Then, with p = (u - warmup) / (U - warmup): cosine: min + (1 +
 * cos(pi p)) / 2 * (lr - min); linear: lr + p * (min - lr); warmup_linear: linear with min = 0. */
double schedule_lr(const struct schedule *schedule, uint64_t step);

#endif
