/*
 * time_parts — splits a run's time into parts that add up to the total.
 *
 * The clock always charges exactly one part. Code that begins a different activity switches to
 * another part, which costs one clock reading and one addition.
 *
 * Threads: only the owner. A GPU has a separate clock, which reads the GPU's time when a switch
 * executes in its stream (`time_switch` in ops.h).
 */
#ifndef MILLRACE_TRAINER_OPS_TIME_PARTS_H
#define MILLRACE_TRAINER_OPS_TIME_PARTS_H

#include "base/shared_inline.h"

#include <stdint.h>

enum time_part {
    TIME_OTHER, /* progress output and everything not listed below */
    TIME_LOAD,  /* waiting for a micro-batch and copying it */
    /* these four are measured separately only if the device does not queue */
    TIME_FORWARD,
    TIME_BACKWARD, /* including losses */
    TIME_REDUCE,   /* reducing gradients over micro-batches and ranks, and their norm */
    TIME_UPDATE,
    TIME_QUEUE,    /* host time spent queueing, if the device queues */
    TIME_DEVICE,   /* host time spent waiting for the device, if it queues */
    TIME_SAVE,     /* writing and waiting for checkpoints */
    TIME_EVALUATE, /* not part of training */
    TIME_PARTS
};

struct time_spent {
    uint64_t ns[TIME_PARTS];
};

struct time_parts {
    struct time_spent spent;
    uint64_t switched_ns; /* time up to here is charged */
    enum time_part part;
};

void time_parts_start(struct time_parts *parts, uint64_t now_ns);
/* Charges the time from now on to `part`. */
SHARED_INLINE void time_parts_switch(struct time_parts *parts, enum time_part part, uint64_t now_ns)
{
    parts->spent.ns[parts->part] += now_ns - parts->switched_ns;
    parts->switched_ns = now_ns;
    parts->part = part;
}

/* Returns and resets the time spent since the start or the last call. The current part stays the
 * same. */
struct time_spent time_parts_take(struct time_parts *parts, uint64_t now_ns);
struct time_spent time_spent_since(const struct time_spent *now, const struct time_spent *before);
/* The sum of all parts except TIME_EVALUATE. */
uint64_t time_spent_in_training(const struct time_spent *spent);
/* Such as "forward". */
const char *time_part_name(enum time_part part);

#endif
