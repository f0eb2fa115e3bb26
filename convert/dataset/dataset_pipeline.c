/*
 * dataset_pipeline — see dataset_pipeline.h.
 */
#include "convert/dataset/dataset_pipeline.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/os/thread.h"
#include "base/os/thread_pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum {
    /* Workers claim and finish items in runs, because waking a thread costs more than encoding a
     * row of a list. */
    RUN_ITEMS = 8,
    RUN_ITEMS_MAX = 128,         /* if items are small: */
    SMALL_ITEM_BYTES = 16 << 10, /* their mean size is below */
    RUN_BYTES = 64 << 10,        /* a run ends with the item that reaches it */
    KEEP_BYTES = 64 << 20,       /* retained in all slots for their next items */
};

struct slot {
    struct pipeline_item item;
    /* Guarded by mutex. The worker owns the other members until done, then the caller. */
    bool done;
};

struct worker {
    struct pipeline *pipeline;
    struct source_reader reader;
    struct item_encoder *encoder;
    struct source_sample samples[RUN_ITEMS_MAX]; /* of a run; otherwise only the first is used */
    pthread_t thread;
};

struct pipeline {
    const struct source *source;
    /* A sequential source: its only reader, and the lock for claiming a run and reading it, taken
     * before mutex. */
    struct source_reader reader;
    pthread_mutex_t reading;
    uint64_t next_items[CONVERT_SPLITS_MAX];
    /* Guards the positions, bytes_in_flight, waiting_count, stop, and the slots' done. */
    pthread_mutex_t mutex;
    pthread_cond_t slots_freed, item_done;
    unsigned waiting_count; /* workers that wait for slots_freed */
    uint64_t next_claimed, next_delivered, bytes_in_flight;
    bool stop;
    uint64_t run_items_max, slots_count;
    struct slot *slots;
    unsigned workers_count, threads_count;
    struct worker *workers;
};

static bool has_slots(const struct pipeline *pipeline, uint64_t count)
{
    return pipeline->next_claimed + count <= pipeline->next_delivered + pipeline->slots_count &&
           (pipeline->bytes_in_flight < PIPELINE_BYTES_MAX ||
            pipeline->next_claimed == pipeline->next_delivered);
}

/* How much memory a slot retains for its next item. */
static size_t keep_bytes(const struct pipeline *pipeline)
{
    return KEEP_BYTES / pipeline->slots_count;
}

static bool has_items(const struct pipeline *pipeline)
{
    return !pipeline->stop && pipeline->next_claimed < pipeline->source->items_count;
}

static struct slot *slot_at(const struct pipeline *pipeline, uint64_t position)
{
    return &pipeline->slots[position % pipeline->slots_count];
}

static void claim_item(struct pipeline *pipeline)
{
    uint64_t position = pipeline->next_claimed++;
    struct slot *slot = slot_at(pipeline, position);
    source_describe(pipeline->source, position, &slot->item.item);
    slot->item.is_stored = position < pipeline->next_items[slot->item.item.split];
    slot->item.status = 0;
    pipeline->bytes_in_flight += slot->item.item.bytes;
}

/* Waits for slots and takes the next positions. Returns their number, 0 at the end or after a stop.
 */
static uint64_t claim_run(struct pipeline *pipeline, uint64_t *ret_first)
{
    uint64_t bytes = 0, count = 0;
    pthread_mutex_lock(&pipeline->mutex);
    pipeline->waiting_count++;
    while (has_items(pipeline) && !has_slots(pipeline, pipeline->run_items_max))
        pthread_cond_wait(&pipeline->slots_freed, &pipeline->mutex);
    pipeline->waiting_count--;
    *ret_first = pipeline->next_claimed;
    while (count < pipeline->run_items_max && bytes < RUN_BYTES && has_items(pipeline) &&
           has_slots(pipeline, 1)) {
        claim_item(pipeline);
        bytes += slot_at(pipeline, *ret_first + count++)->item.item.bytes;
    }
    pthread_mutex_unlock(&pipeline->mutex);
    return count;
}

static void finish_run(struct pipeline *pipeline, uint64_t first, uint64_t count)
{
    pthread_mutex_lock(&pipeline->mutex);
    for (uint64_t position = first; position < first + count; position++)
        slot_at(pipeline, position)->done = true;
    if (first == pipeline->next_delivered)
        pthread_cond_signal(&pipeline->item_done);
    pthread_mutex_unlock(&pipeline->mutex);
}

static void read_item(struct source_reader *reader, struct pipeline_item *item,
                      struct source_sample *sample)
{
    if (!item->is_stored)
        item->status = item_read(reader, &item->item, sample, &item->err);
}

static void encode_item(struct worker *worker, struct pipeline_item *item,
                        const struct source_sample *sample)
{
    if (!item->is_stored && !item->status)
        item->status =
            item_encode(worker->encoder, &item->item, sample, &item->encoded, &item->err);
}

/* Claims a run and reads its items before another worker claims the next one. Only the encoding is
 * parallel. */
static uint64_t claim_and_read_run(struct worker *worker, uint64_t *ret_first)
{
    struct pipeline *pipeline = worker->pipeline;
    pthread_mutex_lock(&pipeline->reading);
    uint64_t count = claim_run(pipeline, ret_first);
    for (uint64_t i = 0; i < count; i++)
        read_item(&pipeline->reader, &slot_at(pipeline, *ret_first + i)->item, &worker->samples[i]);
    pthread_mutex_unlock(&pipeline->reading);
    return count;
}

static void encode_run(struct worker *worker, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        encode_item(worker, &slot_at(worker->pipeline, first + i)->item, &worker->samples[i]);
        if (worker->samples[i].data.capacity_bytes > keep_bytes(worker->pipeline))
            str_deinit(&worker->samples[i].data);
    }
}

static void read_and_encode_run(struct worker *worker, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct pipeline_item *item = &slot_at(worker->pipeline, first + i)->item;
        read_item(&worker->reader, item, &worker->samples[0]);
        encode_item(worker, item, &worker->samples[0]);
    }
}

static void *run_worker(void *context)
{
    struct worker *worker = context;
    struct pipeline *pipeline = worker->pipeline;
    bool is_sequential = pipeline->source->ops->is_sequential;
    uint64_t first, count;
    while ((count = is_sequential ? claim_and_read_run(worker, &first)
                                  : claim_run(pipeline, &first)) > 0) {
        if (is_sequential)
            encode_run(worker, first, count);
        else
            read_and_encode_run(worker, first, count);
        finish_run(pipeline, first, count);
    }
    return NULL;
}

static void init_synchronization(struct pipeline *pipeline)
{
    pthread_mutex_init(&pipeline->mutex, NULL);
    pthread_mutex_init(&pipeline->reading, NULL);
    pthread_cond_init(&pipeline->slots_freed, NULL);
    thread_cond_init(&pipeline->item_done);
}

static int start_workers(struct pipeline *pipeline, struct io *io, struct err *err)
{
    bool is_sequential = pipeline->source->ops->is_sequential;
    int status =
        is_sequential ? source_reader_open(pipeline->source, io, &pipeline->reader, err) : 0;
    for (unsigned i = 0; i < pipeline->workers_count && !status; i++) {
        struct worker *worker = &pipeline->workers[i];
        worker->pipeline = pipeline;
        if (!is_sequential)
            status = source_reader_open(pipeline->source, io, &worker->reader, err);
        if (!status)
            status = item_encoder_open(pipeline->source, &worker->encoder, err);
    }
    if (status)
        return status;
    for (unsigned i = 0; i < pipeline->workers_count; i++) {
        status = thread_start(&pipeline->workers[i].thread, run_worker, &pipeline->workers[i]);
        if (status)
            return err_errno(err, status, "could not start a thread");
        pipeline->threads_count = i + 1;
    }
    return 0;
}

int pipeline_open(struct io *io, const struct source *source, uint64_t first,
                  const uint64_t *next_items, struct pipeline **ret_pipeline, struct err *err)
{
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (!pipeline)
        return err_set(err, -ENOMEM, "out of memory for a pipeline");
    init_synchronization(pipeline);
    pipeline->source = source;
    pipeline->next_claimed = pipeline->next_delivered = first;
    for (int split = 0; split < CONVERT_SPLITS_MAX; split++)
        pipeline->next_items[split] = next_items[split];
    unsigned workers =
        source->options->workers ? source->options->workers : thread_pool_cpu_count();
    pipeline->workers_count = workers < THREAD_POOL_THREADS_MAX ? workers : THREAD_POOL_THREADS_MAX;
    pipeline->run_items_max =
        source->items_count > 0 && source->bytes / source->items_count < SMALL_ITEM_BYTES
            ? RUN_ITEMS_MAX
            : RUN_ITEMS;
    pipeline->slots_count = bytes_min(
        2 * pipeline->run_items_max * (1 + (uint64_t)pipeline->workers_count), PIPELINE_SLOTS_MAX);
    pipeline->slots = calloc(pipeline->slots_count, sizeof *pipeline->slots);
    pipeline->workers = calloc(pipeline->workers_count, sizeof *pipeline->workers);
    int status = !pipeline->slots || !pipeline->workers
                     ? err_set(err, -ENOMEM, "out of memory for a pipeline")
                     : start_workers(pipeline, io, err);
    if (status)
        pipeline_close(pipeline);
    else
        *ret_pipeline = pipeline;
    return status;
}

bool pipeline_next(struct pipeline *pipeline, int timeout_ms, struct pipeline_item **ret_item)
{
    assert(pipeline->next_delivered < pipeline->source->items_count);
    uint64_t until_ns = clock_now_ns() + (uint64_t)timeout_ms * 1000000;
    struct timespec until = {(time_t)(until_ns / CLOCK_NS_PER_S),
                             (long)(until_ns % CLOCK_NS_PER_S)};
    struct slot *slot = slot_at(pipeline, pipeline->next_delivered);
    int waited = 0;
    pthread_mutex_lock(&pipeline->mutex);
    while (!slot->done && !waited)
        waited = pthread_cond_timedwait(&pipeline->item_done, &pipeline->mutex, &until);
    bool is_done = slot->done;
    pthread_mutex_unlock(&pipeline->mutex);
    if (is_done)
        *ret_item = &slot->item;
    return is_done;
}

void pipeline_release(struct pipeline *pipeline)
{
    struct slot *slot = slot_at(pipeline, pipeline->next_delivered);
    if (slot->item.encoded.data.capacity_bytes > keep_bytes(pipeline))
        encoded_item_deinit(&slot->item.encoded);
    pthread_mutex_lock(&pipeline->mutex);
    slot->done = false;
    pipeline->bytes_in_flight -= slot->item.item.bytes;
    pipeline->next_delivered++;
    if (pipeline->waiting_count > 0 && has_slots(pipeline, pipeline->run_items_max))
        pthread_cond_signal(&pipeline->slots_freed);
    pthread_mutex_unlock(&pipeline->mutex);
}

static void free_worker(struct worker *worker)
{
    item_encoder_close(worker->encoder);
    source_reader_close(&worker->reader);
    for (int i = 0; i < RUN_ITEMS_MAX; i++)
        str_deinit(&worker->samples[i].data);
}

void pipeline_close(struct pipeline *pipeline)
{
    if (!pipeline)
        return;
    pthread_mutex_lock(&pipeline->mutex);
    pipeline->stop = true;
    pthread_cond_broadcast(&pipeline->slots_freed);
    pthread_mutex_unlock(&pipeline->mutex);
    for (unsigned i = 0; i < pipeline->threads_count; i++)
        pthread_join(pipeline->workers[i].thread, NULL);
    for (unsigned i = 0; pipeline->workers && i < pipeline->workers_count; i++)
        free_worker(&pipeline->workers[i]);
    source_reader_close(&pipeline->reader);
    for (uint64_t i = 0; pipeline->slots && i < pipeline->slots_count; i++)
        encoded_item_deinit(&pipeline->slots[i].item.encoded);
    pthread_cond_destroy(&pipeline->item_done);
    pthread_cond_destroy(&pipeline->slots_freed);
    pthread_mutex_destroy(&pipeline->reading);
    pthread_mutex_destroy(&pipeline->mutex);
    free(pipeline->workers);
    free(pipeline->slots);
    free(pipeline);
}
