/*
 * dataset_pipeline — see dataset_pipeline.h.
 */
#include "convert/dataset/dataset_pipeline.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/os/thread.h"
#include "base/os/thread_pool.h"

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
    uint64_t next_items[CONVERT_SPLITS_MAX];
    uint64_t run_items_max, slots_count;
    struct slot *slots;
    struct source_reader reader; /* the only one of a sequential source, for the claiming thread */
    unsigned workers_count, threads_count; /* the last worker is the caller, without a thread */
    struct worker *workers;
    /* The caller's: items before next_ready are done. Those from next_freed on that it has released
     * are freed together, because it would otherwise wait for the mutex at every item. */
    uint64_t next_delivered, next_ready, released_bytes;
    uint64_t end_ready; /* the end, once the caller has waited for it; else UINT64_MAX */
    /* Guards the members below and the slots' done. */
    pthread_mutex_t mutex;
    pthread_cond_t claimable; /* a worker can claim a run, or none are left */
    pthread_cond_t item_done; /* the caller's next item is done, or the caller can claim a run */
    uint64_t next_claimed, next_freed, bytes_in_flight;
    uint64_t end; /* of all items; SOURCE_COUNT_UNKNOWN before the last one has been read */
    unsigned waiting_count; /* workers that wait for claimable */
    bool is_claiming;       /* a thread claims a run */
    bool caller_waits, stop;
};

static bool has_slots_for_run(const struct pipeline *pipeline)
{
    return pipeline->next_claimed + pipeline->run_items_max <=
               pipeline->next_freed + pipeline->slots_count &&
           (pipeline->bytes_in_flight < PIPELINE_BYTES_MAX ||
            pipeline->next_claimed == pipeline->next_freed);
}

/* How much memory a slot retains for its next item. */
static size_t keep_bytes(const struct pipeline *pipeline)
{
    return KEEP_BYTES / pipeline->slots_count;
}

static bool has_items(const struct pipeline *pipeline)
{
    return !pipeline->stop && pipeline->next_claimed < pipeline->end;
}

static struct slot *slot_at(const struct pipeline *pipeline, uint64_t position)
{
    return &pipeline->slots[position % pipeline->slots_count];
}

/* Returns the item's bytes. */
static uint64_t describe_item(struct pipeline *pipeline, uint64_t position)
{
    struct pipeline_item *item = &slot_at(pipeline, position)->item;
    source_describe(pipeline->source, position, &item->item);
    item->is_stored = position < pipeline->next_items[item->item.split];
    item->is_last = false;
    item->status = 0;
    return item->item.bytes;
}

static void read_item(struct source_reader *reader, struct pipeline_item *item,
                      struct source_sample *sample)
{
    if (!item->is_stored)
        item->status = item_read(reader, &item->item, sample, &item->err);
}

/* Describes and reads the next item of a stream. Returns 1; 0 after the last item; -EAGAIN: none
 * has arrived yet; or an error, which becomes the last item. */
static int next_item(struct pipeline *pipeline, uint64_t position, struct source_sample *sample)
{
    struct pipeline_item *item = &slot_at(pipeline, position)->item;
    str_clear(&sample->data);
    sample->fields_count = 0;
    int result =
        pipeline->source->ops->next(&pipeline->reader, position, &item->item, sample, &item->err);
    if (result == 1 && str_status(&sample->data))
        result = err_set(&item->err, -ENOMEM, "out of memory for a sample");
    item->is_last = result < 0 && result != -EAGAIN;
    item->status = item->is_last ? result : 0;
    if (item->is_last) {
        item->item.split = 0;
        item->item.bytes = 0;
    }
    item->is_stored = result == 1 && position < pipeline->next_items[item->item.split];
    return result;
}

static void encode_item(struct worker *worker, struct pipeline_item *item,
                        const struct source_sample *sample)
{
    if (!item->is_stored && !item->status)
        item->status =
            item_encode(worker->encoder, &item->item, sample, &item->encoded, &item->err);
}

/* The items of a run: their number, and their bytes. */
struct run {
    uint64_t first, count, bytes;
    bool is_end; /* no items follow */
};

/* Describes the items, and reads them if the source is sequential. */
static void begin_run(struct worker *worker, struct run *run, uint64_t count_max)
{
    struct pipeline *pipeline = worker->pipeline;
    while (run->count < count_max && run->bytes < RUN_BYTES)
        run->bytes += describe_item(pipeline, run->first + run->count++);
    for (uint64_t i = 0; i < run->count && pipeline->source->ops->is_sequential; i++)
        read_item(&pipeline->reader, &slot_at(pipeline, run->first + i)->item, &worker->samples[i]);
}

/* Ends with the items that have arrived, so that a sender that pauses delays neither their encoding
 * nor the report of an error. */
static void read_stream_run(struct worker *worker, struct run *run, uint64_t count_max)
{
    struct pipeline *pipeline = worker->pipeline;
    int result = 1;
    while (run->count < count_max && run->bytes < RUN_BYTES && result == 1) {
        uint64_t position = run->first + run->count;
        result = next_item(pipeline, position, &worker->samples[run->count]);
        if (result == 0 || result == -EAGAIN)
            break;
        run->bytes += slot_at(pipeline, position)->item.item.bytes;
        run->count++;
    }
    run->is_end = result != 1 && result != -EAGAIN;
}

static bool can_claim(const struct pipeline *pipeline)
{
    return has_items(pipeline) && !pipeline->is_claiming && has_slots_for_run(pipeline);
}

/* Wakes a thread if it can claim a run. */
static void wake_claimer(struct pipeline *pipeline)
{
    if (!can_claim(pipeline))
        return;
    if (pipeline->waiting_count > 0)
        pthread_cond_signal(&pipeline->claimable);
    else if (pipeline->caller_waits)
        pthread_cond_signal(&pipeline->item_done);
}

/* Takes the next positions, and reads their items if the source is sequential: only the encoding is
 * then parallel. Requires can_claim and the mutex, which it releases in between. */
static void claim_run(struct worker *worker, struct run *ret_run)
{
    struct pipeline *pipeline = worker->pipeline;
    struct run run = {.first = pipeline->next_claimed};
    uint64_t count_max = bytes_min(pipeline->end - run.first, pipeline->run_items_max);
    pipeline->is_claiming = true;
    pthread_mutex_unlock(&pipeline->mutex);
    if (pipeline->source->ops->next)
        read_stream_run(worker, &run, count_max);
    else
        begin_run(worker, &run, count_max);
    pthread_mutex_lock(&pipeline->mutex);
    pipeline->next_claimed += run.count;
    pipeline->bytes_in_flight += run.bytes;
    pipeline->is_claiming = false;
    if (run.is_end) {
        pipeline->end = pipeline->next_claimed;
        pthread_cond_broadcast(&pipeline->claimable);
        pthread_cond_signal(&pipeline->item_done);
    }
    wake_claimer(pipeline);
    *ret_run = run;
}

static void encode_run(struct worker *worker, const struct run *run)
{
    for (uint64_t i = 0; i < run->count; i++) {
        encode_item(worker, &slot_at(worker->pipeline, run->first + i)->item, &worker->samples[i]);
        if (worker->samples[i].data.capacity_bytes > keep_bytes(worker->pipeline))
            str_deinit(&worker->samples[i].data);
    }
}

static void read_and_encode_run(struct worker *worker, const struct run *run)
{
    for (uint64_t i = 0; i < run->count; i++) {
        struct pipeline_item *item = &slot_at(worker->pipeline, run->first + i)->item;
        read_item(&worker->reader, item, &worker->samples[0]);
        encode_item(worker, item, &worker->samples[0]);
    }
}

/* Claims a run and encodes it. Requires can_claim and the mutex, which it releases meanwhile. */
static void process_run(struct worker *worker)
{
    struct pipeline *pipeline = worker->pipeline;
    struct run run;
    claim_run(worker, &run);
    pthread_mutex_unlock(&pipeline->mutex);
    if (pipeline->source->ops->is_sequential)
        encode_run(worker, &run);
    else
        read_and_encode_run(worker, &run);
    pthread_mutex_lock(&pipeline->mutex);
    for (uint64_t i = 0; i < run.count; i++)
        slot_at(pipeline, run.first + i)->done = true;
    if (run.first == pipeline->next_freed && pipeline->caller_waits)
        pthread_cond_signal(&pipeline->item_done);
}

static void *run_worker(void *context)
{
    struct worker *worker = context;
    struct pipeline *pipeline = worker->pipeline;
    pthread_mutex_lock(&pipeline->mutex);
    while (has_items(pipeline)) {
        if (can_claim(pipeline)) {
            process_run(worker);
            continue;
        }
        pipeline->waiting_count++;
        pthread_cond_wait(&pipeline->claimable, &pipeline->mutex);
        pipeline->waiting_count--;
    }
    pthread_cond_signal(&pipeline->claimable); /* no items are left for another worker either */
    pthread_mutex_unlock(&pipeline->mutex);
    return NULL;
}

static void init_synchronization(struct pipeline *pipeline)
{
    pthread_mutex_init(&pipeline->mutex, NULL);
    pthread_cond_init(&pipeline->claimable, NULL);
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
    for (unsigned i = 0; i + 1 < pipeline->workers_count; i++) {
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
    pipeline->next_claimed = pipeline->next_freed = first;
    pipeline->next_delivered = pipeline->next_ready = first;
    pipeline->end = source->items_count;
    pipeline->end_ready = UINT64_MAX;
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

static struct slot *next_ready_slot(const struct pipeline *pipeline)
{
    return slot_at(pipeline, pipeline->next_ready);
}

/* Waits until the next item is done, at most until timeout_ms have passed; until then, works like a
 * worker. */
static void wait_for_items(struct pipeline *pipeline, int timeout_ms)
{
    struct worker *caller = &pipeline->workers[pipeline->workers_count - 1];
    uint64_t until_ns = clock_now_ns() + (uint64_t)timeout_ms * 1000000;
    struct timespec until = {(time_t)(until_ns / CLOCK_NS_PER_S),
                             (long)(until_ns % CLOCK_NS_PER_S)};
    pthread_mutex_lock(&pipeline->mutex);
    int waited = 0;
    while (!next_ready_slot(pipeline)->done && pipeline->next_ready < pipeline->end && !waited) {
        if (can_claim(pipeline)) {
            process_run(caller);
            waited = clock_now_ns() >= until_ns;
            continue;
        }
        pipeline->caller_waits = true;
        waited = pthread_cond_timedwait(&pipeline->item_done, &pipeline->mutex, &until);
        pipeline->caller_waits = false;
    }
    uint64_t end = pipeline->next_freed + pipeline->slots_count;
    while (pipeline->next_ready < end && next_ready_slot(pipeline)->done)
        pipeline->next_ready++;
    if (pipeline->next_ready >= pipeline->end)
        pipeline->end_ready = pipeline->end;
    pthread_mutex_unlock(&pipeline->mutex);
}

bool pipeline_is_at_end(const struct pipeline *pipeline)
{
    return pipeline->next_delivered >= pipeline->end_ready;
}

bool pipeline_next(struct pipeline *pipeline, int timeout_ms, struct pipeline_item **ret_item)
{
    if (pipeline->next_delivered == pipeline->next_ready)
        wait_for_items(pipeline, timeout_ms);
    if (pipeline->next_delivered == pipeline->next_ready)
        return false;
    *ret_item = &slot_at(pipeline, pipeline->next_delivered)->item;
    return true;
}

/* Wakes a worker only when half of the slots are free, because it would soon wait again. */
static void free_slots(struct pipeline *pipeline)
{
    pthread_mutex_lock(&pipeline->mutex);
    while (pipeline->next_freed < pipeline->next_delivered)
        slot_at(pipeline, pipeline->next_freed++)->done = false;
    pipeline->bytes_in_flight -= pipeline->released_bytes;
    pipeline->released_bytes = 0;
    if (pipeline->next_claimed - pipeline->next_freed <= pipeline->slots_count / 2)
        wake_claimer(pipeline);
    pthread_mutex_unlock(&pipeline->mutex);
}

void pipeline_release(struct pipeline *pipeline)
{
    struct slot *slot = slot_at(pipeline, pipeline->next_delivered++);
    if (slot->item.encoded.data.capacity_bytes > keep_bytes(pipeline))
        encoded_item_deinit(&slot->item.encoded);
    pipeline->released_bytes += slot->item.item.bytes;
    if (pipeline->next_delivered == pipeline->next_ready || pipeline->released_bytes >= RUN_BYTES)
        free_slots(pipeline);
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
    pthread_cond_broadcast(&pipeline->claimable);
    pthread_mutex_unlock(&pipeline->mutex);
    for (unsigned i = 0; i < pipeline->threads_count; i++)
        pthread_join(pipeline->workers[i].thread, NULL);
    for (unsigned i = 0; pipeline->workers && i < pipeline->workers_count; i++)
        free_worker(&pipeline->workers[i]);
    source_reader_close(&pipeline->reader);
    for (uint64_t i = 0; pipeline->slots && i < pipeline->slots_count; i++)
        encoded_item_deinit(&pipeline->slots[i].item.encoded);
    pthread_cond_destroy(&pipeline->item_done);
    pthread_cond_destroy(&pipeline->claimable);
    pthread_mutex_destroy(&pipeline->mutex);
    free(pipeline->workers);
    free(pipeline->slots);
    free(pipeline);
}
