/*
 * schedule — see schedule.h.
 */
#include "trainer/schedule.h"

#include <math.h>

double schedule_lr(const struct schedule *schedule, uint64_t step)
{
    if (step < schedule->warmup)
        return schedule->lr * (double)(step + 1) / (double)schedule->warmup;
    if (schedule->type == SCHEDULE_CONSTANT || schedule->steps <= schedule->warmup)
        return schedule->lr;
    double progress = (double)(step - schedule->warmup) / (double)(schedule->steps - schedule->warmup);
    if (progress > 1)
        progress = 1;
    if (schedule->type == SCHEDULE_LINEAR)
        return schedule->lr + progress * (schedule->min_lr - schedule->lr);
    return schedule->min_lr + (1 + cos(M_PI * progress)) / 2 * (schedule->lr - schedule->min_lr);
}
