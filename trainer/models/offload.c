/*
 * offload — see offload.h.
 */
#include "trainer/models/offload.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct offload {
    struct ops *ops;
    struct device_stream *stream;
    char *pinned; /* all items except the last OFFLOAD_SLOTS */
    uint32_t items_count;
    uint64_t item_bytes;
    /* Per slot: the ops' stream has finished with the slot; the slot's copy has finished. */
    struct device_event *compute_done[OFFLOAD_SLOTS], *copy_done[OFFLOAD_SLOTS];
    uint64_t copied_bytes;
    int status;
    struct err failure;
};

int offload_open(struct ops *ops, uint32_t items_count, uint64_t item_bytes,
                 struct offload **ret_offload, struct err *err)
{
    const struct device_ops *device = ops->device->ops;
    assert(items_count > OFFLOAD_SLOTS);
    struct offload *offload = calloc(1, sizeof *offload);
    if (!offload)
        return err_set(err, -ENOMEM, "out of memory for the offload of activations");
    offload->ops = ops;
    offload->items_count = items_count;
    offload->item_bytes = item_bytes;
    int status = device->mem_alloc(ops->device, mem_for(MEM_PINNED, MEM_FOR_ACTIVATIONS),
                                   offload_pinned_bytes(items_count, item_bytes),
                                   (void **)&offload->pinned, err);
    if (!status)
        status = device->stream_open(ops->device, &offload->stream, err);
    for (int i = 0; i < OFFLOAD_SLOTS && !status; i++) {
        status = device->event_open(ops->device, &offload->compute_done[i], err);
        if (!status)
            status = device->event_open(ops->device, &offload->copy_done[i], err);
    }
    if (status)
        offload_close(offload);
    else
        *ret_offload = offload;
    return status;
}

void offload_close(struct offload *offload)
{
    if (!offload)
        return;
    struct device *device = offload->ops->device;
    if (offload->stream)
        device->ops->stream_sync(device, offload->stream, NULL);
    for (int i = 0; i < OFFLOAD_SLOTS; i++) {
        device->ops->event_close(device, offload->compute_done[i]);
        device->ops->event_close(device, offload->copy_done[i]);
    }
    device->ops->stream_close(device, offload->stream);
    device->ops->mem_free(device, mem_for(MEM_PINNED, MEM_FOR_ACTIVATIONS), offload->pinned,
                          offload_pinned_bytes(offload->items_count, offload->item_bytes));
    free(offload);
}

/* Keeps only the first failure, since a failed recording makes all later calls fail. */
static void record_failure(struct offload *offload, int status, const struct err *detail)
{
    const struct ops *ops = offload->ops;
    if (status == 0 || offload->status || ops->table->status(ops, NULL))
        return;
    offload->status = status;
    offload->failure = *detail;
}

/* Makes later work on the ops' stream wait for the slot's copy. */
static void wait_for_copy(struct offload *offload, uint32_t item)
{
    struct device *device = offload->ops->device;
    struct err detail = {0};
    record_failure(offload,
                   device->ops->stream_wait_event(device, offload->ops->stream,
                                                  offload->copy_done[item % OFFLOAD_SLOTS],
                                                  &detail),
                   &detail);
}

/* Copies a slot after all work queued on the ops' stream. */
static void copy_item(struct offload *offload, uint32_t slot, void *target, const void *source)
{
    struct device *device = offload->ops->device;
    const struct device_ops *ops = device->ops;
    struct err detail = {0};
    int status =
        ops->event_record(device, offload->compute_done[slot], offload->ops->stream, &detail);
    if (!status)
        status =
            ops->stream_wait_event(device, offload->stream, offload->compute_done[slot], &detail);
    if (!status)
        status = ops->copy(device, offload->stream, target, source, offload->item_bytes, &detail);
    if (!status)
        status = ops->event_record(device, offload->copy_done[slot], offload->stream, &detail);
    record_failure(offload, status, &detail);
    offload->copied_bytes += offload->item_bytes;
}

static bool is_copied_out(const struct offload *offload, uint32_t item)
{
    return item + OFFLOAD_SLOTS < offload->items_count;
}

static char *pinned_at(const struct offload *offload, uint32_t item)
{
    return offload->pinned + item * offload->item_bytes;
}

void offload_before_forward(struct offload *offload, uint32_t item)
{
    if (item >= OFFLOAD_SLOTS)
        wait_for_copy(offload, item);
}

void offload_after_forward(struct offload *offload, uint32_t item, const void *slot)
{
    if (is_copied_out(offload, item))
        copy_item(offload, item % OFFLOAD_SLOTS, pinned_at(offload, item), slot);
}

void offload_before_backward(struct offload *offload, uint32_t item)
{
    if (is_copied_out(offload, item))
        wait_for_copy(offload, item);
}

void offload_after_backward(struct offload *offload, uint32_t item, void *slot)
{
    if (item >= OFFLOAD_SLOTS)
        copy_item(offload, item % OFFLOAD_SLOTS, slot, pinned_at(offload, item - OFFLOAD_SLOTS));
}

int offload_status(struct offload *offload, struct err *err)
{
    if (!offload || !offload->status)
        return 0;
    int status = offload->status;
    if (err)
        *err = offload->failure;
    offload->status = 0;
    return status;
}

uint64_t offload_copied_bytes(const struct offload *offload)
{
    return offload->copied_bytes;
}
