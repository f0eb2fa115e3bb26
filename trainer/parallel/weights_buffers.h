/*
 * weights_buffers — internal to weights: places on the device for groups that are whole for passes
 * only, where weights are sharded; and weights_begin_pass, weights_need and weights_done, which
 * fill them.
 *
 * A buffer's group comes when it is needed, or ahead of that by `ahead` needs: this rank's shard is
 * copied, the others' are gathered. What is offloaded is copied on a stream of its own: it waits
 * for the buffer's last use, and the passes wait for it, by events.
 *
 *     stream   | copy of 2 | copy of 3 |           | copy of 4 |
 *     passes   | uses 1    | uses 2    | uses 3    |
 *
 * With two buffers, as here, 4 takes the place of 2, whose use has passed.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_WEIGHTS_BUFFERS_H
#define MILLRACE_TRAINER_PARALLEL_WEIGHTS_BUFFERS_H

#include "trainer/parallel/weights.h"

/* Of sharded weights; else none. */
uint32_t weights_buffers_count(const struct weights_options *options, const struct model *model);
uint64_t weights_buffer_bytes(const struct weights_options *options); /* of each */

/* -EINVAL where groups_max is fewer than a pass uses at a time. */
int weights_buffers_open(struct weights *weights, const struct model *model,
                         const struct model_stage *stage, struct err *err);
void weights_buffers_close(struct weights *weights, bool is_idle); /* safe where none were opened */

/* It was updated: what a buffer has of it is old. */
void weights_buffers_forget(struct weights *weights, uint64_t group);

#endif
