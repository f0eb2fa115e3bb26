/*
 * replay — a part of a step that is queued again and again: where the device can record it
 * (device.h's graphs), the host pays one call for hundreds of operations.
 *
 *     replay_init(&replay, ops, variants_count, err);
 *     replay_run(&replay, variant, queue_pass, &pass, err);
 *
 * What is queued, addresses and numbers included, depends on the variant alone; what changes
 * otherwise lies in device memory. The first run of all is queued as it is, so that what is made at
 * first use is made by then; from there on the first of each variant is recorded, and the others
 * replay it. Where the device records nothing, all are queued as they are. The bits are the same.
 */
#ifndef MILLRACE_TRAINER_OPS_REPLAY_H
#define MILLRACE_TRAINER_OPS_REPLAY_H

#include "base/err.h"
#include "trainer/ops/ops.h"

#include <stdbool.h>
#include <stdint.h>

/* Owner thread. */
struct replay {
    struct ops *ops;              /* borrowed: what is queued on its stream is recorded */
    struct device_graph **graphs; /* [variants_count], NULL before they are recorded */
    uint32_t variants_count;
    bool has_run;
};

/* -ENOMEM. */
int replay_init(struct replay *replay, struct ops *ops, uint32_t variants_count, struct err *err);
/* Nothing of it is in progress. Safe on a zeroed replay. */
void replay_deinit(struct replay *replay);
/* Queues what queue(context) queues. -EIO, or what the ops failed with, where it could not be
 * recorded. */
int replay_run(struct replay *replay, uint32_t variant, void (*queue)(void *context), void *context,
               struct err *err);

#endif
