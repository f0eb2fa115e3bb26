/*
 * schedule — see schedule.h.
 */
#include "trainer/optim/schedule.h"

#include <math.h>

double schedule_lr(const struct schedule *schedule, uint64_t step)
{
    uint64_t unit_steps = schedule->unit_steps ? schedule->unit_steps : 1;
    uint64_t unit = step / unit_steps, units = (schedule->steps + unit_steps - 1) / unit_steps;
    double min_lr = schedule->type == SCHEDULE_WARMUP_LINEAR ? 0 : schedule->min_lr;
    if (unit < schedule->warmup)
        return schedule->lr * (double)(unit + 1) / (double)schedule->warmup;
    if (schedule->type == SCHEDULE_CONSTANT || units <= schedule->warmup)
        return schedule->lr;
    double progress = (double)(unit - schedule->warmup) / (double)(units - schedule->warmup);
    if (progress > 1)
        progress = 1;
    if (schedule->type != SCHEDULE_COSINE)
        return schedule->lr + progress * (min_lr - schedule->lr);
    return min_lr + (1 + cos(M_PI * progress)) / 2 * (schedule->lr - min_lr);
}
