/*
 * dataset_pipeline — see dataset_pipeline.h.
 */
#include "convert/dataset/dataset_pipeline.h"

#include "base/clock.h"
#include "base/os/thread.h"
#include "base/os/thread_pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct slot {
    struct pipeline_item item;
    /* Guarded by mutex. The worker owns the other members until done, then the caller. */
    bool done;
};

struct worker {
    struct pipeline *pipeline;
    struct item_encoder *encoder;
    pthread_t thread;
};

struct pipeline {
    const struct source *source;
    uint64_t next_items[CONVERT_SPLITS_MAX];
    /* Guards the positions, bytes_in_flight, stop, and the slots' done. */
    pthread_mutex_t mutex;
    pthread_cond_t slot_freed, item_done;
    uint64_t next_claimed, next_delivered, bytes_in_flight;
    bool stop;
    uint64_t slots_count;
    struct slot *slots;
    unsigned workers_count, threads_count;
    struct worker *workers;
};

static bool can_claim(const struct pipeline *pipeline)
{
    return pipeline->next_claimed < pipeline->next_delivered + pipeline->slots_count &&
           (pipeline->bytes_in_flight < PIPELINE_BYTES_MAX ||
            pipeline->next_claimed == pipeline->next_delivered);
}

/* Waits for a slot and takes the next position. Returns false at the end or after a stop. */
static bool claim_slot(struct pipeline *pipeline, struct slot **ret_slot)
{
    pthread_mutex_lock(&pipeline->mutex);
    while (!pipeline->stop && pipeline->next_claimed < pipeline->source->items_count &&
           !can_claim(pipeline))
        pthread_cond_wait(&pipeline->slot_freed, &pipeline->mutex);
    bool taken = !pipeline->stop && pipeline->next_claimed < pipeline->source->items_count;
    if (taken) {
        uint64_t position = pipeline->next_claimed++;
        struct slot *slot = &pipeline->slots[position % pipeline->slots_count];
        source_describe(pipeline->source, position, &slot->item.item);
        slot->item.is_stored = position < pipeline->next_items[slot->item.item.split];
        slot->item.status = 0;
        pipeline->bytes_in_flight += slot->item.item.bytes;
        *ret_slot = slot;
    }
    pthread_mutex_unlock(&pipeline->mutex);
    return taken;
}

static void *run_worker(void *context)
{
    struct worker *worker = context;
    struct pipeline *pipeline = worker->pipeline;
    struct slot *slot;
    while (claim_slot(pipeline, &slot)) {
        struct pipeline_item *item = &slot->item;
        if (!item->is_stored)
            item->status = item_encode(worker->encoder, &item->item, &item->encoded, &item->err);
        pthread_mutex_lock(&pipeline->mutex);
        slot->done = true;
        pthread_cond_signal(&pipeline->item_done);
        pthread_mutex_unlock(&pipeline->mutex);
    }
    return NULL;
}

static void init_synchronization(struct pipeline *pipeline)
{
    pthread_mutex_init(&pipeline->mutex, NULL);
    pthread_cond_init(&pipeline->slot_freed, NULL);
    thread_cond_init(&pipeline->item_done);
}

static int start_workers(struct pipeline *pipeline, struct io *io, struct err *err)
{
    for (unsigned i = 0; i < pipeline->workers_count; i++) {
        struct worker *worker = &pipeline->workers[i];
        worker->pipeline = pipeline;
        int status = item_encoder_open(io, pipeline->source, &worker->encoder, err);
        if (status)
            return status;
    }
    for (unsigned i = 0; i < pipeline->workers_count; i++) {
        int status = thread_start(&pipeline->workers[i].thread, run_worker, &pipeline->workers[i]);
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
    pipeline->slots_count = 16 + 8 * (uint64_t)pipeline->workers_count;
    if (pipeline->slots_count > PIPELINE_SLOTS_MAX)
        pipeline->slots_count = PIPELINE_SLOTS_MAX;
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
    struct slot *slot = &pipeline->slots[pipeline->next_delivered % pipeline->slots_count];
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
    struct slot *slot = &pipeline->slots[pipeline->next_delivered % pipeline->slots_count];
    if (slot->item.encoded.data.capacity_bytes > PIPELINE_KEEP_BYTES_MAX)
        encoded_item_deinit(&slot->item.encoded);
    pthread_mutex_lock(&pipeline->mutex);
    slot->done = false;
    pipeline->bytes_in_flight -= slot->item.item.bytes;
    pipeline->next_delivered++;
    pthread_cond_broadcast(&pipeline->slot_freed);
    pthread_mutex_unlock(&pipeline->mutex);
}

void pipeline_close(struct pipeline *pipeline)
{
    if (!pipeline)
        return;
    pthread_mutex_lock(&pipeline->mutex);
    pipeline->stop = true;
    pthread_cond_broadcast(&pipeline->slot_freed);
    pthread_mutex_unlock(&pipeline->mutex);
    for (unsigned i = 0; i < pipeline->threads_count; i++)
        pthread_join(pipeline->workers[i].thread, NULL);
    for (unsigned i = 0; pipeline->workers && i < pipeline->workers_count; i++)
        item_encoder_close(pipeline->workers[i].encoder);
    for (uint64_t i = 0; pipeline->slots && i < pipeline->slots_count; i++)
        encoded_item_deinit(&pipeline->slots[i].item.encoded);
    pthread_cond_destroy(&pipeline->item_done);
    pthread_cond_destroy(&pipeline->slot_freed);
    pthread_mutex_destroy(&pipeline->mutex);
    free(pipeline->workers);
    free(pipeline->slots);
    free(pipeline);
}
