/*
 * run_queue — see run_queue.h.
 */
#include "trainer/run/parts/run_queue.h"

#include <errno.h>

int run_queue_open(struct run_queue *queue, struct ops *ops, struct err *err)
{
    struct device *device = ops->device;
    const struct device_ops *table = device->ops;
    queue->ops = ops;
    int status = table->mem_alloc(device, MEM_DEVICE, sizeof *queue->device_record,
                                  (void **)&queue->device_record, err);
    if (!status)
        status =
            table->mem_alloc(device, MEM_PINNED, QUEUED_STEPS_MAX * sizeof *queue->host_records,
                             (void **)&queue->host_records, err);
    if (!status)
        status = table->mem_alloc(device, MEM_PINNED, sizeof *queue->host_sums,
                                  (void **)&queue->host_sums, err);
    for (int i = 0; i < QUEUED_STEPS_MAX && !status; i++) {
        queue->steps[i].record = &queue->host_records[i];
        status = table->event_open(device, &queue->steps[i].done_event, err);
    }
    return status;
}

void run_queue_close(struct run_queue *queue)
{
    if (!queue->ops)
        return;
    struct device *device = queue->ops->device;
    const struct device_ops *table = device->ops;
    for (int i = 0; i < QUEUED_STEPS_MAX; i++)
        if (queue->steps[i].done_event)
            table->event_close(device, queue->steps[i].done_event);
    table->mem_free(device, MEM_PINNED, queue->host_sums, sizeof *queue->host_sums);
    table->mem_free(device, MEM_PINNED, queue->host_records,
                    QUEUED_STEPS_MAX * sizeof *queue->host_records);
    table->mem_free(device, MEM_DEVICE, queue->device_record, sizeof *queue->device_record);
}

int run_queue_init_clip(struct run_queue *queue, const struct scaler *scaler,
                        uint64_t updates_count, struct err *err)
{
    const struct gradient_clip clip = gradient_clip_begin(scaler, updates_count);
    return device_upload(queue->ops->device, &queue->device_record->clip, &clip, sizeof clip, err);
}

static int copy_on_stream(struct run_queue *queue, void *target, const void *source, uint64_t bytes,
                          struct err *err)
{
    struct device *device = queue->ops->device;
    return device->ops->copy(device, queue->ops->stream, target, source, bytes, err);
}

int run_queue_zero_sums(struct run_queue *queue, struct err *err)
{
    struct device *device = queue->ops->device;
    return device->ops->fill(device, queue->ops->stream, &queue->device_record->sums, 0,
                             sizeof queue->device_record->sums, err);
}

void run_queue_add_result(struct run_queue *queue, const struct model_result *result, uint64_t rows)
{
    struct step_sums *sums = &queue->device_record->sums;
    const struct ops_table *table = queue->ops->table;
    table->add_to_exact_sum(queue->ops, sums->losses.limb, result->losses, rows);
    table->add_flag_count(queue->ops, &sums->correct_count, result->correct, rows);
}

int run_queue_read_sums(struct run_queue *queue, struct step_sums *ret_sums, struct err *err)
{
    int copied = copy_on_stream(queue, queue->host_sums, &queue->device_record->sums,
                                sizeof *queue->host_sums, err);
    /* if an earlier error made the copy fail, sync reports that error */
    int status = queue->ops->table->sync(queue->ops, err);
    if (status || copied)
        return status ? status : copied;
    *ret_sums = *queue->host_sums;
    return 0;
}

int run_queue_write_sums(struct run_queue *queue, const struct step_sums *sums, struct err *err)
{
    *queue->host_sums = *sums; /* run_queue_read_sums waited, so no copy reads it */
    return copy_on_stream(queue, &queue->device_record->sums, queue->host_sums, sizeof *sums, err);
}

int run_queue_push(struct run_queue *queue, uint64_t step, const struct step_sums *counts,
                   struct err *err)
{
    assert(queue->count < QUEUED_STEPS_MAX);
    struct device *device = queue->ops->device;
    struct queued_step *newest = &queue->steps[step % QUEUED_STEPS_MAX];
    newest->step = queue->newest_step = step;
    newest->valid_count = counts->valid_count;
    newest->samples_count = counts->samples_count;
    queue->count++;
    int status =
        copy_on_stream(queue, newest->record, queue->device_record, sizeof *newest->record, err);
    return status ? status
                  : device->ops->event_record(device, newest->done_event, queue->ops->stream, err);
}

int run_queue_pop(struct run_queue *queue, const struct queued_step **ret_oldest, struct err *err)
{
    struct device *device = queue->ops->device;
    const struct queued_step *oldest =
        &queue->steps[(queue->newest_step + 1 - queue->count) % QUEUED_STEPS_MAX];
    int status = device->ops->event_wait(device, oldest->done_event, err);
    int first = status ? queue->ops->table->sync(queue->ops, err) : 0;
    if (status)
        return first ? first : status;
    queue->count--;
    *ret_oldest = oldest;
    return 0;
}
