/*
 * weights_buffers — internal to weights: device buffers for sharded weights, which are whole only
 * during passes; and weights_begin_pass, weights_need and weights_done, which fill them.
 *
 * A buffer is filled when its group is needed, or up to `ahead` groups earlier: this rank's shard
 * is copied, the others are gathered. Offloaded shards are copied on a separate stream, ordered by
 * events after the buffer's last use and before the passes that need it.
 *
 *     stream   | copy of 2 | copy of 3 |           | copy of 4 |
 *     passes   | uses 1    | uses 2    | uses 3    |
 *
 * With two buffers, as here, 4 replaces 2 after its use.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_WEIGHTS_BUFFERS_H
#define MILLRACE_TRAINER_PARALLEL_WEIGHTS_BUFFERS_H

#include "trainer/parallel/weights.h"

/* 0 unless weights are sharded. */
uint32_t weights_buffers_count(const struct weights_options *options, const struct model *model);
uint64_t weights_buffer_bytes(const struct weights_options *options); /* of each */

/* -EINVAL if groups_max is less than a pass uses at a time. */
int weights_buffers_open(struct weights *weights, const struct model *model,
                         const struct model_stage *stage, struct err *err);
void weights_buffers_close(struct weights *weights, bool is_idle); /* safe if none were opened */

/* Call after an update of the group: buffered copies are stale. */
void weights_buffers_forget(struct weights *weights, uint64_t group);

#endif
