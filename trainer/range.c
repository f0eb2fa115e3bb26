/*
 * range — see range.h.
 */
#include "trainer/range.h"

#include "base/clock.h"
#include "device/profiler.h"

#include <assert.h>

const char *range_name(enum range range)
{
    static const char *const names[RANGE_COUNT] = {
        [RANGE_STEP] = "step",         [RANGE_DATA] = "data",       [RANGE_FEED] = "feed",
        [RANGE_MICRO] = "micro-batch", [RANGE_FORWARD] = "forward", [RANGE_BACKWARD] = "backward",
        [RANGE_NORM] = "norm",         [RANGE_UPDATE] = "update",   [RANGE_WAIT] = "wait",
        [RANGE_EVALUATE] = "evaluate", [RANGE_SAVE] = "save",
    };
    return names[range];
}

void range_begin(struct ranges *ranges, enum range range)
{
    assert(ranges->depth < RANGE_DEPTH_MAX);
    profiler_push(range_name(range));
    ranges->open[ranges->depth].range = range;
    ranges->open[ranges->depth++].began_ns = ranges->measures ? clock_now_ns() : 0;
}

void range_end(struct ranges *ranges)
{
    assert(ranges->depth > 0);
    ranges->depth--;
    struct range_time *time = &ranges->times[ranges->open[ranges->depth].range];
    uint64_t began_ns = ranges->open[ranges->depth].began_ns;
    if (began_ns > 0) {
        time->count++;
        time->ns += clock_now_ns() - began_ns;
    }
    profiler_pop();
}
