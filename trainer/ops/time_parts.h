/*
 * time_parts — splits a run's time into parts that add up to the total.
 *
 * The clock always runs for exactly one part; code that begins another activity switches it. So the
 * parts add up by construction, and the remainder is a part like the others. A switch only reads
 * the clock and adds.
 *
 * Threads: one owner. A GPU has a separate clock, which reads the GPU's own time when the switch
 * executes in its stream (`turn` in ops.h).
 */
#ifndef MILLRACE_TRAINER_OPS_TIME_PARTS_H
#define MILLRACE_TRAINER_OPS_TIME_PARTS_H

#include "base/shared_inline.h"

#include <stdint.h>

enum time_part {
    TIME_OTHER, /* everything else: progress lines, the program around steps */
    TIME_LOAD,  /* waiting for a micro-batch, and copying it to its destination */
    /* if the device queues, not measured separately; nor are backward, reduce, update */
    TIME_FORWARD,
    TIME_BACKWARD, /* including losses */
    TIME_REDUCE,   /* summing gradients over micro-batches and ranks, and their norm */
    TIME_UPDATE,
    TIME_QUEUE,    /* only if the device queues: host time to queue its work */
    TIME_DEVICE,   /* likewise: the host waits for the device to compute */
    TIME_SAVE,     /* work and waits for checkpoints */
    TIME_EVALUATE, /* not part of training */
    TIME_PARTS
};

struct time_spent {
    uint64_t ns[TIME_PARTS];
};

struct time_parts {
    struct time_spent spent;
    uint64_t switched_ns; /* spent is up to date until then */
    enum time_part part;
};

void time_parts_start(struct time_parts *parts, uint64_t now_ns);
/* Charges the time from now on to part. */
SHARED_INLINE void time_parts_switch(struct time_parts *parts, enum time_part part, uint64_t now_ns)
{
    parts->spent.ns[parts->part] += now_ns - parts->switched_ns;
    parts->switched_ns = now_ns;
    parts->part = part;
}

/* Returns the time spent since the start or the last call and resets it. The clock keeps running
 * for its current part. */
struct time_spent time_parts_take(struct time_parts *parts, uint64_t now_ns);
/* The difference now - before. */
struct time_spent time_spent_since(const struct time_spent *now, const struct time_spent *before);
/* The sum of all parts except TIME_EVALUATE. */
uint64_t time_spent_in_training(const struct time_spent *spent);
/* "forward" */
const char *time_part_name(enum time_part part);

#endif
