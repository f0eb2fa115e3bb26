/*
 * range — see range.h.
 */
#include "trainer/report/range.h"

#include "base/clock.h"
#include "device/profiler.h"

#include <assert.h>

const char *range_name(enum range range)
{
    static const char *const names[RANGE_COUNT] = {
        [RANGE_STEP] = "step",       [RANGE_DATA] = "data",
        [RANGE_UPLOAD] = "feed",     [RANGE_MICRO_BATCH] = "micro-batch",
        [RANGE_FORWARD] = "forward", [RANGE_BACKWARD] = "backward",
        [RANGE_NORM] = "norm",       [RANGE_REDUCE] = "reduce",
        [RANGE_UPDATE] = "update",   [RANGE_STAGE] = "stage",
        [RANGE_WAIT] = "wait",       [RANGE_EVALUATE] = "evaluate",
        [RANGE_SAVE] = "save",
    };
    return names[range];
}

static enum time_category category_of(enum range range, bool is_async)
{
    static const struct {
        enum time_category sync, async;
    } categories[RANGE_COUNT] = {
        [RANGE_STEP] = {TIME_OTHER, TIME_OTHER},
        [RANGE_DATA] = {TIME_LOAD, TIME_LOAD},
        [RANGE_UPLOAD] = {TIME_LOAD, TIME_LOAD},
        [RANGE_MICRO_BATCH] = {TIME_REDUCE, TIME_QUEUE},
        [RANGE_FORWARD] = {TIME_FORWARD, TIME_QUEUE},
        [RANGE_BACKWARD] = {TIME_BACKWARD, TIME_QUEUE},
        [RANGE_NORM] = {TIME_REDUCE, TIME_QUEUE},
        [RANGE_REDUCE] = {TIME_REDUCE, TIME_REDUCE},
        [RANGE_UPDATE] = {TIME_UPDATE, TIME_QUEUE},
        [RANGE_STAGE] = {TIME_SAVE, TIME_SAVE},
        [RANGE_WAIT] = {TIME_OTHER, TIME_DEVICE},
        [RANGE_EVALUATE] = {TIME_EVALUATE, TIME_EVALUATE},
        [RANGE_SAVE] = {TIME_SAVE, TIME_SAVE},
    };
    return is_async ? categories[range].async : categories[range].sync;
}

/* may_be_slow: for saves, which may wait for the disk longer than the limit for late ranks. */
static void set_activity(const struct ranges *ranges, const char *name, bool may_be_slow)
{
    if (ranges->comm)
        comm_set_activity(ranges->comm, name, *ranges->step + 1, may_be_slow);
}

static void announce_range(const struct ranges *ranges, enum range range)
{
    set_activity(ranges, range_name(range), range == RANGE_STAGE || range == RANGE_SAVE);
}

void range_begin(struct ranges *ranges, enum range range)
{
    announce_range(ranges, range);
    assert(ranges->depth < RANGE_DEPTH_MAX);
    profiler_push(range_name(range));
    uint64_t now_ns = clock_now_ns();
    ranges->stack[ranges->depth].range = range;
    ranges->stack[ranges->depth].category = ranges->timer.category;
    ranges->stack[ranges->depth++].began_ns = ranges->is_measuring ? now_ns : 0;
    category_timer_switch(&ranges->timer, category_of(range, ranges->is_async), now_ns);
}

void range_end(struct ranges *ranges)
{
    assert(ranges->depth > 0);
    ranges->depth--;
    enum range range = ranges->stack[ranges->depth].range;
    struct range_time *time = &ranges->times[range];
    uint64_t began_ns = ranges->stack[ranges->depth].began_ns, now_ns = clock_now_ns();
    category_timer_switch(&ranges->timer, ranges->stack[ranges->depth].category, now_ns);
    if (began_ns > 0) {
        time->count++;
        time->ns += now_ns - began_ns;
        if (ranges->track)
            trace_add(ranges->track, &(struct trace_span){.name = range_name(range),
                                                          .began_ns = began_ns,
                                                          .ended_ns = now_ns,
                                                          .kind = TRACE_NESTED});
    }
    profiler_pop();
    if (ranges->depth > 0)
        announce_range(ranges, ranges->stack[ranges->depth - 1].range);
    else
        set_activity(ranges, "the end", false);
}
