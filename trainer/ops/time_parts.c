/*
 * time_parts — see time_parts.h.
 */
#include "trainer/ops/time_parts.h"

void time_parts_start(struct time_parts *parts, uint64_t now_ns)
{
    *parts = (struct time_parts){.switched_ns = now_ns};
}

struct time_spent time_parts_take(struct time_parts *parts, uint64_t now_ns)
{
    time_parts_switch(parts, parts->part, now_ns);
    struct time_spent spent = parts->spent;
    parts->spent = (struct time_spent){0};
    return spent;
}

struct time_spent time_spent_since(const struct time_spent *now, const struct time_spent *before)
{
    struct time_spent since;
    for (int part = 0; part < TIME_PARTS; part++)
        since.ns[part] = now->ns[part] - before->ns[part];
    return since;
}

uint64_t time_spent_in_training(const struct time_spent *spent)
{
    uint64_t sum_ns = 0;
    for (int part = 0; part < TIME_PARTS; part++)
        sum_ns += part == TIME_EVALUATE ? 0 : spent->ns[part];
    return sum_ns;
}

const char *time_part_name(enum time_part part)
{
    static const char *const names[TIME_PARTS] = {
        [TIME_OTHER] = "other",       [TIME_LOAD] = "load",     [TIME_FORWARD] = "forward",
        [TIME_BACKWARD] = "backward", [TIME_REDUCE] = "reduce", [TIME_UPDATE] = "update",
        [TIME_QUEUE] = "queue",       [TIME_DEVICE] = "device", [TIME_SAVE] = "save",
        [TIME_EVALUATE] = "evaluate",
    };
    return names[part];
}
