/*
 * range — named spans on the run's thread, shown by NVIDIA's profilers and timed by --profile.
 *
 * Times are host times. If the device queues work, only RANGE_WAIT includes its computation. Ranges
 * also drive category_timer, which excludes nested ranges from the time of the outer range.
 */
#ifndef MILLRACE_TRAINER_REPORT_RANGE_H
#define MILLRACE_TRAINER_REPORT_RANGE_H

#include "base/os/trace.h"
#include "comm/comm.h"
#include "trainer/ops/category_timer.h"

#include <stdbool.h>
#include <stdint.h>

enum range {
    RANGE_STEP, /* contains the ranges down to RANGE_STAGE */
    RANGE_DATA, /* waiting for the loader's next micro-batch */
    RANGE_UPLOAD,
    RANGE_MICRO_BATCH, /* its passes, or their graph replay, and gradient sums */
    RANGE_FORWARD,
    RANGE_BACKWARD, /* within RANGE_MICRO_BATCH; includes losses */
    RANGE_NORM,     /* including the last gradient sums */
    RANGE_REDUCE,   /* reductions over all ranks */
    RANGE_UPDATE,
    RANGE_STAGE,    /* within RANGE_UPDATE: copies a group for a checkpoint in progress */
    RANGE_WAIT,     /* until the device finishes earlier steps or, outside a step, all steps */
    RANGE_EVALUATE, /* all of data.val */
    RANGE_SAVE,     /* the part of a save that blocks the run */
    RANGE_COUNT
};

const char *range_name(enum range range);

struct range_time {
    uint64_t count, ns;
};

enum { RANGE_DEPTH_MAX = 4 };

/* Zero initially. Owner thread. */
struct ranges {
    bool is_measuring;
    bool is_async;             /* the device queues work */
    struct trace_track *track; /* borrowed; NULL: no trace */
    struct category_timer timer;
    /* If this rank is late, other ranks report its current range. Borrowed; NULL: none. */
    struct comm *comm;
    const uint64_t *step; /* last queued; borrowed */
    struct range_time times[RANGE_COUNT];
    struct {
        enum range range;
        enum time_category category; /* the enclosing range's */
        uint64_t began_ns;           /* 0: not measured */
    } stack[RANGE_DEPTH_MAX];
    unsigned depth;
};

/* Calls must be paired, except after a failure that ends the run. */
void range_begin(struct ranges *ranges, enum range range);
void range_end(struct ranges *ranges);

#endif
