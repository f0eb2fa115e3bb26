/*
 * range — what a run does when: named spans of its thread's time, for NVIDIA's profilers always, in
 * seconds while they are measured.
 *
 * The seconds are the host's. Where the device is the host they are those of the computation; where
 * it queues, those of queueing, and RANGE_WAIT is what the host then waits for the device.
 *
 * Ranges turn the clock of time_parts: what happens within a range, and not within one inside it,
 * is time of the part that it belongs to.
 */
#ifndef MILLRACE_TRAINER_REPORT_RANGE_H
#define MILLRACE_TRAINER_REPORT_RANGE_H

#include "base/trace.h"
#include "comm/comm.h"
#include "trainer/ops/time_parts.h"

#include <stdbool.h>
#include <stdint.h>

enum range {
    RANGE_STEP,  /* the ranges down to RANGE_STAGE lie within it */
    RANGE_DATA,  /* waiting for a micro-batch of the loader */
    RANGE_FEED,  /* its copies to the device, and giving back the one before */
    RANGE_MICRO, /* a micro-batch: its passes, or their replay as a graph, and sums of gradients */
    RANGE_FORWARD,  /* within it */
    RANGE_BACKWARD, /* within it too, with losses */
    RANGE_NORM,     /* the last sums of gradients, and their norm */
    RANGE_REDUCE,   /* what ranks do together: sums over all of them */
    RANGE_UPDATE,   /* of the weights */
    /* within it: a group's weights and moments are kept for the checkpoint that is being written */
    RANGE_STAGE,
    RANGE_WAIT,     /* for the device: within a step for those before it, beside steps for all */
    RANGE_EVALUATE, /* all of data.val */
    RANGE_SAVE,     /* what of a checkpoint the run waits for when it begins */
    RANGE_COUNT
};

const char *range_name(enum range range);

struct range_time {
    uint64_t count, ns;
};

enum { RANGE_DEPTH_MAX = 4 };

/* Zero at first. Owner thread. */
struct ranges {
    bool measures;             /* spans that begin now are added to times */
    bool queues;               /* the device is not the host */
    struct trace_track *track; /* borrowed; NULL: no trace */
    struct time_parts parts;
    /* Others are told through it what this rank is at, where it is late; borrowed, as step, of the
     * last one that is queued. NULL: nobody. */
    struct comm *comm;
    const uint64_t *step;
    struct range_time times[RANGE_COUNT];
    struct {
        enum range range;
        enum time_part part; /* that the time was of before it */
        uint64_t began_ns;   /* 0: not measured */
    } open[RANGE_DEPTH_MAX];
    unsigned depth;
};

/* In pairs; what fails in between may leave a range open, for then the run ends. */
void range_begin(struct ranges *ranges, enum range range);
void range_end(struct ranges *ranges);

#endif
