/*
 * weights_buffers — internal to weights: device buffers that hold sharded weights during passes;
 * weights_begin_pass, weights_acquire and weights_release fill them.
 *
 * A buffer is filled up to `prefetch_count` groups before a pass needs it: this rank's shard is
 * copied, the others are gathered. Offloaded shards are copied on a separate stream; events order
 * the copies after the buffer's last use and before its next.
 *
 *     stream   | copy of 2 | copy of 3 |           | copy of 4 |
 *     passes   | uses 1    | uses 2    | uses 3    |
 *
 * With two buffers, as here, group 4 replaces group 2.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_WEIGHTS_BUFFERS_H
#define MILLRACE_TRAINER_PARALLEL_WEIGHTS_BUFFERS_H

#include "trainer/parallel/weights.h"

/* 0 unless weights are sharded. */
uint32_t weights_buffers_count(const struct weights_options *options, const struct model *model);
uint64_t weights_buffer_bytes(const struct weights_options *options);

/* -EINVAL if groups_max is too small for a pass. */
int weights_buffers_open(struct weights *weights, const struct model *model,
                         const struct model_stage *stage, struct err *err);
void weights_buffers_close(struct weights *weights, bool is_idle); /* safe if none were opened */

/* Call after an update of the group to invalidate its buffer. */
void weights_buffers_invalidate(struct weights *weights, uint64_t group);

#endif
