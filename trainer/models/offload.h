/*
 * offload — activations that wait for their backward pass in pinned memory, and pass through a ring
 * of OFFLOAD_SLOTS places on the device. Of one micro-batch in flight.
 *
 *     forward, items rising:    offload_before_forward(o, i); what is queued writes the slot
 *                               offload_after_forward(o, i, slot);
 *     backward, items falling:  offload_before_backward(o, i); what is queued reads the slot
 *                               offload_after_backward(o, i, slot);
 *
 *     item      0     1     2     3     4         slot of item i: i % OFFLOAD_SLOTS
 *     forward   out   out   out   -     -
 *     backward  in    in    in    -     -
 *
 * The last OFFLOAD_SLOTS items stay where they are: the backward pass begins with them. Item i
 * comes back when the slot is free, after the backward pass of i + OFFLOAD_SLOTS.
 *
 * Copies run on a stream of their own beside the passes. They and the ops' stream wait for each
 * other by events; the host waits for nothing, so that a pass can be captured in a graph, and
 * nothing that was queued here is left behind at the end of a backward pass. Where device memory is
 * the host's, the same copies are made and save nothing.
 *
 * Threads: the owner of the ops. Nothing is allocated after open.
 */
#ifndef MILLRACE_TRAINER_MODELS_OFFLOAD_H
#define MILLRACE_TRAINER_MODELS_OFFLOAD_H

#include "base/err.h"
#include "trainer/ops/ops.h"

#include <stdint.h>

/* Two: while one block's is used, the next block's comes, or the last one's goes. */
enum { OFFLOAD_SLOTS = 2 };

static inline uint32_t offload_slots_count(uint32_t items_count)
{
    return items_count < OFFLOAD_SLOTS ? items_count : OFFLOAD_SLOTS;
}

/* Pinned memory. */
static inline uint64_t offload_pinned_bytes(uint32_t items_count, uint64_t item_bytes)
{
    return (items_count - offload_slots_count(items_count)) * item_bytes;
}

struct offload;

/* More items than OFFLOAD_SLOTS: fewer need none. Borrows ops. Gives the offload. -ENOMEM. */
int offload_open(struct ops *ops, uint32_t items_count, uint64_t item_bytes,
                 struct offload **ret_offload, struct err *err);
/* Waits for its copies. NULL is fine. */
void offload_close(struct offload *offload);

/* Queue. slot: the item's place on the device, item_bytes. */
void offload_before_forward(struct offload *offload, uint32_t item);
void offload_after_forward(struct offload *offload, uint32_t item, const void *slot);
void offload_before_backward(struct offload *offload, uint32_t item);
void offload_after_backward(struct offload *offload, uint32_t item, void *slot);

/* The first failure to queue since the last call, as the ops' sync tells theirs, but none that came
 * after the ops had failed. Does not wait. NULL is fine: 0. */
int offload_status(struct offload *offload, struct err *err);
/* Queued so far, out and in; of a pass that is recorded in a graph once. */
uint64_t offload_copied_bytes(const struct offload *offload);

#endif
