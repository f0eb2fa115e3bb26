/*
 * category_timer — see category_timer.h.
 */
#include "trainer/ops/category_timer.h"

void category_timer_start(struct category_timer *timer, uint64_t now_ns)
{
    *timer = (struct category_timer){.switched_ns = now_ns};
}

struct category_times category_timer_take(struct category_timer *timer, uint64_t now_ns)
{
    category_timer_switch(timer, timer->category, now_ns);
    struct category_times times = timer->times;
    timer->times = (struct category_times){0};
    return times;
}

struct category_times category_times_since(const struct category_times *now,
                                           const struct category_times *before)
{
    struct category_times since;
    for (int i = 0; i < TIME_CATEGORIES; i++)
        since.ns[i] = now->ns[i] - before->ns[i];
    return since;
}

uint64_t category_times_training_ns(const struct category_times *times)
{
    uint64_t sum_ns = 0;
    for (int i = 0; i < TIME_CATEGORIES; i++)
        sum_ns += i == TIME_EVALUATE ? 0 : times->ns[i];
    return sum_ns;
}

const char *time_category_name(enum time_category category)
{
    static const char *const names[TIME_CATEGORIES] = {
        [TIME_OTHER] = "other",       [TIME_LOAD] = "load",     [TIME_FORWARD] = "forward",
        [TIME_BACKWARD] = "backward", [TIME_REDUCE] = "reduce", [TIME_UPDATE] = "update",
        [TIME_QUEUE] = "queue",       [TIME_DEVICE] = "device", [TIME_SAVE] = "save",
        [TIME_EVALUATE] = "evaluate",
    };
    return names[category];
}
