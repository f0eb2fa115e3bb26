/*
 * time_parts — where a run's time goes, in parts that add up to all of it.
 *
 * A clock that always runs for exactly one part: whoever begins another thing turns it. So the
 * parts are the time that passed by construction, and the remainder is a part like the others. A
 * turn reads the clock and adds, nothing else.
 *
 * Threads: one owner. A GPU has a clock of its own for its work, turned by its own time when it
 * comes to it (ops.h's turn).
 */
#ifndef MILLRACE_TRAINER_OPS_TIME_PARTS_H
#define MILLRACE_TRAINER_OPS_TIME_PARTS_H

#include "base/shared_inline.h"

#include <stdint.h>

enum time_part {
    TIME_OTHER,   /* what is none of the others: lines of progress, the program around steps */
    TIME_LOAD,    /* waiting for a micro-batch, and its copy to where it is used */
    TIME_FORWARD, /* where the device queues: not known apart, as are backward, reduce and update */
    TIME_BACKWARD, /* with the losses */
    TIME_REDUCE,   /* sums of gradients, over micro-batches and ranks, and their norm */
    TIME_UPDATE,   /* of the weights */
    TIME_QUEUE,    /* only where the device queues: the host's time for giving it its work */
    TIME_DEVICE,   /* likewise: the host waits for the device, which computes */
    TIME_SAVE,     /* what the run does, or waits, for checkpoints */
    TIME_EVALUATE, /* no part of training */
    TIME_PARTS
};

/* Nanoseconds by part. */
struct time_spent {
    uint64_t ns[TIME_PARTS];
};

struct time_parts {
    struct time_spent spent;
    uint64_t turned_ns; /* spent counts until then */
    enum time_part part;
};

void time_parts_start(struct time_parts *parts, uint64_t now_ns);
/* From now on the time is that of part. */
SHARED_INLINE void time_parts_turn(struct time_parts *parts, enum time_part part, uint64_t now_ns)
{
    parts->spent.ns[parts->part] += now_ns - parts->turned_ns;
    parts->turned_ns = now_ns;
    parts->part = part;
}

/* What was spent since the start, or the last time that this was called, until now; the clock goes
 * on for the part that it runs for. */
struct time_spent time_parts_take(struct time_parts *parts, uint64_t now_ns);
/* What of `now` came after `before`. */
struct time_spent time_spent_since(const struct time_spent *now, const struct time_spent *before);
/* Of all parts but TIME_EVALUATE. */
uint64_t time_spent_in_training(const struct time_spent *spent);
/* "forward" */
const char *time_part_name(enum time_part part);

#endif
