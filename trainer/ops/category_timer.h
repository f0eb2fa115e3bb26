/*
 * category_timer — splits a run's time into categories that add up to the total.
 *
 * Time is always charged to exactly one category. Switching to another category costs one clock
 * reading and one addition.
 *
 * Owner thread only. A GPU has a separate timer, which reads the GPU's clock when a switch executes
 * in its stream (`switch_category` in ops.h).
 */
#ifndef MILLRACE_TRAINER_OPS_CATEGORY_TIMER_H
#define MILLRACE_TRAINER_OPS_CATEGORY_TIMER_H

#include "base/shared_inline.h"

#include <stdint.h>

enum time_category {
    TIME_OTHER, /* progress output and everything not listed below */
    TIME_LOAD,  /* waiting for a micro-batch and copying it */
    /* these four are measured separately only if the device does not queue work */
    TIME_FORWARD,
    TIME_BACKWARD, /* including losses */
    TIME_REDUCE,   /* reducing gradients over micro-batches and ranks; their norm */
    TIME_UPDATE,
    TIME_QUEUE,    /* host time spent queueing, if the device queues */
    TIME_DEVICE,   /* host time spent waiting for the device, if it queues */
    TIME_SAVE,     /* writing and waiting for checkpoints */
    TIME_EVALUATE, /* not part of training */
    TIME_CATEGORIES
};

struct category_times {
    uint64_t ns[TIME_CATEGORIES];
};

struct category_timer {
    struct category_times times;
    uint64_t switched_ns; /* time up to here is charged */
    enum time_category category;
};

void category_timer_start(struct category_timer *timer, uint64_t now_ns);
/* Charges the time from now on to the category. */
SHARED_INLINE void category_timer_switch(struct category_timer *timer, enum time_category category,
                                         uint64_t now_ns)
{
    timer->times.ns[timer->category] += now_ns - timer->switched_ns;
    timer->switched_ns = now_ns;
    timer->category = category;
}

/* Returns and resets the times. The current category stays the same. */
struct category_times category_timer_take(struct category_timer *timer, uint64_t now_ns);
struct category_times category_times_since(const struct category_times *now,
                                           const struct category_times *before);
/* The sum of all categories except TIME_EVALUATE. */
uint64_t category_times_training_ns(const struct category_times *times);
const char *time_category_name(enum time_category category);

#endif
