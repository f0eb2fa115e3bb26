/*
 * offload — keeps a micro-batch's activations in pinned memory until the backward pass. They pass
 * through a ring of OFFLOAD_SLOTS slots on the device.
 *
 *     forward, in order:        offload_before_forward(o, i); queue the write of the slot
 *                               offload_after_forward(o, i, slot);
 *     backward, in reverse:     offload_before_backward(o, i); queue the read of the slot
 *                               offload_after_backward(o, i, slot);
 *
 *     item      0     1     2     3     4         slot of item i: i % OFFLOAD_SLOTS
 *     forward   out   out   out   -     -
 *     backward  in    in    in    -     -
 *
 * The last OFFLOAD_SLOTS items stay on the device, because the backward pass begins with them. Item
 * i returns to its slot after the backward pass of item i + OFFLOAD_SLOTS.
 *
 * Events order the copies, on a separate stream, with the ops' stream. The host never waits, so a
 * graph can capture a pass. All copies are complete when a backward pass ends. If device memory is
 * host memory, the copies still run but save no memory.
 *
 * Threads: only the owner of the ops. Allocates nothing after open.
 */
#ifndef MILLRACE_TRAINER_MODELS_OFFLOAD_H
#define MILLRACE_TRAINER_MODELS_OFFLOAD_H

#include "base/err.h"
#include "trainer/ops/ops.h"

#include <stdint.h>

enum { OFFLOAD_SLOTS = 2 };

static inline uint32_t offload_slots_count(uint32_t items_count)
{
    return items_count < OFFLOAD_SLOTS ? items_count : OFFLOAD_SLOTS;
}

static inline uint64_t offload_pinned_bytes(uint32_t items_count, uint64_t item_bytes)
{
    return (items_count - offload_slots_count(items_count)) * item_bytes;
}

struct offload;

/* Requires items_count > OFFLOAD_SLOTS. Borrows ops. The caller owns *ret_offload. -ENOMEM. */
int offload_open(struct ops *ops, uint32_t items_count, uint64_t item_bytes,
                 struct offload **ret_offload, struct err *err);
/* Waits for its copies. NULL is fine. */
void offload_close(struct offload *offload);

/* These queue copies and waits. slot: device memory of item_bytes. */
void offload_before_forward(struct offload *offload, uint32_t item);
void offload_after_forward(struct offload *offload, uint32_t item, const void *slot);
void offload_before_backward(struct offload *offload, uint32_t item);
void offload_after_backward(struct offload *offload, uint32_t item, void *slot);

/* Returns the first failure to queue since the last call, ignoring failures of the ops. Does not
 * block. NULL: 0. */
int offload_status(struct offload *offload, struct err *err);
/* Total bytes queued in both directions; a pass recorded in a graph counts once. */
uint64_t offload_copied_bytes(const struct offload *offload);

#endif
