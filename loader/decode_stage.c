/*
 * decode_stage — the worker threads, which verify samples and decode them into the batch.
 *
 * Workers take items, not micro-batches, oldest first, so that all of them work on the batch that
 * the consumer needs next. The worker that finishes a micro-batch mixes its images, if requested.
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/os/thread.h"
#include "base/os/thread_pool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static void wake_worker(struct decode_pool *pool)
{
    struct load_worker *worker = pool->idle;
    pool->idle = worker->next_idle;
    worker->is_asleep = false;
    pthread_cond_signal(&worker->wake);
}

void decode_pool_add_without_wake(struct decode_pool *pool, struct load_slot *slot, uint32_t item)
{
    pool->work[pool->work_next++ % pool->work_capacity] =
        (struct load_work){.slot = slot, .item = item};
}

void decode_pool_add(struct decode_pool *pool, struct load_slot *slot, uint32_t item)
{
    decode_pool_add_without_wake(pool, slot, item);
    if (pool->idle)
        wake_worker(pool);
}

static void sleep_until_woken(struct load_worker *worker)
{
    struct loader *loader = worker->loader;
    struct decode_pool *pool = &loader->pool;
    reader_note_idle_worker(loader);
    worker->is_asleep = true;
    worker->next_idle = pool->idle;
    pool->idle = worker;
    while (worker->is_asleep)
        pthread_cond_wait(&worker->wake, &loader->mutex);
}

uint32_t decode_pool_take(struct loader *loader, struct load_work *group)
{
    struct decode_pool *pool = &loader->pool;
    uint32_t count = 0;
    uint64_t waiting = pool->work_next - pool->work_first;
    /* leave some for the other workers */
    uint64_t share = (waiting + pool->workers_count - 1) / pool->workers_count;
    uint32_t most = (uint32_t)bytes_min(pool->group_items, share);
    while (count < most) {
        const struct load_work *next = &pool->work[pool->work_first % pool->work_capacity];
        if (count > 0 && next->slot != group[0].slot)
            break;
        group[count++] = *next;
        pool->work_first++;
    }
    slot_acquire_memory(loader, group[0].slot);
    pool->decoding_count += count;
    return count;
}

void decode_pool_requeue(struct decode_pool *pool, const struct load_work *work)
{
    pool->decoding_count--;
    decode_pool_add(pool, work->slot, work->item);
}

static void fail_item(struct loader *loader, struct load_slot *slot, uint32_t item,
                      const struct err *why)
{
    pthread_mutex_lock(&loader->mutex);
    slot_fail(slot, item, why);
    pthread_mutex_unlock(&loader->mutex);
}

void item_describe_bad(const struct loader *loader, const struct load_slot *slot, uint32_t i,
                       struct err *err)
{
    const struct load_item *load = &slot->load_items[i];
    const struct batch_item *item = &slot->items[i];
    char path[IO_PATH_BYTES_MAX] = "";
    shard_cache_path(loader->cache, load->location.shard, path, NULL);
    if (item->key)
        err_set(err, -EBADMSG, "sample \"%.*s\" cannot be used: %s",
                (int)bytes_min(item->key_bytes, 80), item->key, load->reason);
    else
        err_set(err, -EBADMSG, "sample %" PRIu64 " cannot be used: %s", item->ref.sample,
                load->reason);
    err_at(err, path, load->bad_offset);
    err_advise(
        err,
        "repair the dataset (`millrace verify %.80s --decode` lists all bad samples), or skip it: "
        "`millrace read --on-error skip`, in training `data.bad_samples: {policy: substitute}`",
        loader_source_of(loader, item->ref)->dataset->path);
}

static void decode_item(struct load_worker *worker, struct load_slot *slot, uint32_t i)
{
    struct loader *loader = worker->loader;
    struct load_item *load = &slot->load_items[i];
    struct err err = {0};
    if (load->has_failed)
        return;
    int waited = slot_wait_for_memory(slot, &err);
    if (waited) {
        fail_item(loader, slot, i, &err);
        return;
    }
    slot_store_valid(loader, slot, i);
    if (!load->is_bad) {
        for (uint32_t k = 0; k < load->pieces_count; k++)
            worker->pieces[k] = loader_pieces(loader, slot, i)[k].view;
        int status = item_decode(worker, slot, i, load->shard, slot->items[i].ref, worker->pieces,
                                 load->pieces_count, &err);
        if (!status)
            return;
        if (item_failure_is_fatal(status)) {
            fail_item(loader, slot, i, &err);
            return;
        }
        slot_note_bad(slot, i, &err);
    }
    switch (loader->options.bad_policy) {
    case LOADER_BAD_STOP:
        item_describe_bad(loader, slot, i, &err);
        fail_item(loader, slot, i, &err);
        break;
    case LOADER_BAD_SUBSTITUTE:
        if (item_substitute(worker, slot, i, &err))
            fail_item(loader, slot, i, &err);
        break;
    case LOADER_BAD_SKIP:
        load->substitute = slot->items[i].ref.sample;
        slot->items[i].skipped = true;
        break;
    }
}

void decode_pool_finish(struct loader *loader, const struct load_work *work)
{
    struct load_slot *slot = work->slot;
    uint32_t i = work->item;
    if (loader->options.decode != LOADER_BYTES)
        slot_release_chunks(loader, slot, i);
    loader->pool.decoding_count--;
    slot->items_left--;
}

static int finish_fields(struct load_worker *worker, struct load_slot *slot, struct err *err)
{
    struct loader *loader = worker->loader;
    if (loader->pool.mixup) {
        uint64_t began_ns = trace_begin(worker->track);
        mix_slot_images(worker, slot);
        trace_end(worker->track, "mix", began_ns);
    }
    return ragged_finish(loader, slot, err);
}

/* Requires the mutex. Unlocks it while finishing fields, because no other thread uses the slot
 * then. */
static void finish_slot(struct load_worker *worker, struct load_slot *slot)
{
    struct loader *loader = worker->loader;
    if (slot->failed_item == UINT32_MAX &&
        (loader->pool.mixup || loader->options.fields_count > 0)) {
        struct err err = {0};
        pthread_mutex_unlock(&loader->mutex);
        int status = finish_fields(worker, slot, &err);
        pthread_mutex_lock(&loader->mutex);
        if (status)
            slot_fail(slot, 0, &err);
    }
    slot_set_ready(loader, slot);
}

static void *worker_main(void *argument)
{
    struct load_worker *worker = argument;
    struct loader *loader = worker->loader;
    struct decode_pool *pool = &loader->pool;
    struct load_work group[LOADER_GROUP_ITEMS_MAX];
    pthread_mutex_lock(&loader->mutex);
    while (!loader->stop) {
        if (pool->work_first == pool->work_next) {
            sleep_until_woken(worker);
            continue;
        }
        uint32_t count = decode_pool_take(loader, group);
        pthread_mutex_unlock(&loader->mutex);
        uint64_t began_ns = trace_begin(worker->track);
        for (uint32_t i = 0; i < count; i++)
            decode_item(worker, group[i].slot, group[i].item);
        trace_end_with_value(worker->track, "decode", began_ns, "items", count);
        pthread_mutex_lock(&loader->mutex);
        for (uint32_t i = 0; i < count; i++)
            decode_pool_finish(loader, &group[i]);
        /* decoding frees memory but no slots */
        if (loader->reader.state != READER_NO_SLOT)
            reader_wake(&loader->reader);
        if (group[0].slot->items_left == 0)
            finish_slot(worker, group[0].slot);
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

/* ---- Life cycle. ---- */

static int init_worker(struct loader *loader, struct load_worker *worker, struct err *err)
{
    worker->loader = loader;
    worker->pieces = calloc(loader->pieces_max, sizeof *worker->pieces);
    if (!worker->pieces)
        return err_set(err, -ENOMEM, "out of memory for a worker");
    int status = field_pipelines_open(worker, err); /* checks sizes */
    if (status)
        return status;
    const uint64_t picture_bytes = loader_picture_bytes_max(loader);
    if (picture_bytes > 0 && !(worker->picture = malloc(picture_bytes)))
        return err_set(err, -ENOMEM, "out of memory for a worker");
    return 0;
}

static int open_mixup(struct loader *loader, struct err *err)
{
    const struct mixup_options *options = &loader->options.image.mixup;
    int status = mixup_options_check(options, err);
    return status || !mixup_is_on(options) ? status : mixup_open(options, &loader->pool.mixup, err);
}

int decode_pool_open(struct loader *loader, struct err *err)
{
    struct decode_pool *pool = &loader->pool;
    bool is_image = loader->options.decode == LOADER_IMAGE;
    unsigned workers = loader->options.workers ? loader->options.workers : thread_pool_cpu_count();
    pool->workers_count = (uint32_t)bytes_min(workers, LOADER_WORKERS_MAX);
    pool->group_items = loader_geometries(loader) > 0 ? 1 : LOADER_GROUP_ITEMS_MAX;
    pool->workers = calloc(pool->workers_count, sizeof pool->workers[0]);
    if (!pool->workers)
        return err_set(err, -ENOMEM, "out of memory for %" PRIu32 " workers", pool->workers_count);
    int status = is_image ? open_mixup(loader, err) : 0;
    if (!status && is_image)
        normalize_init(&pool->normalize, &loader->options.image.normalize);
    if (!status)
        status = field_normalizes_open(loader, err);
    for (uint32_t i = 0; !status && i < pool->workers_count; i++)
        status = init_worker(loader, &pool->workers[i], err);
    return status;
}

int decode_pool_start(struct loader *loader, struct err *err)
{
    struct decode_pool *pool = &loader->pool;
    for (uint32_t i = 0; i < pool->workers_count; i++) {
        struct load_worker *worker = &pool->workers[i];
        worker->track = trace_add_track(loader->options.trace, "decode", i);
        pthread_cond_init(&worker->wake, NULL);
        int status = thread_start(&worker->thread, worker_main, worker);
        if (status) {
            pthread_cond_destroy(&worker->wake);
            return err_errno(err, status, "could not start decoding thread %" PRIu32, i);
        }
        pool->workers_started++;
    }
    return 0;
}

void decode_pool_stop(struct decode_pool *pool)
{
    while (pool->idle)
        wake_worker(pool);
}

void decode_pool_join(struct decode_pool *pool)
{
    for (uint32_t i = 0; i < pool->workers_started; i++) {
        pthread_join(pool->workers[i].thread, NULL);
        pthread_cond_destroy(&pool->workers[i].wake);
    }
}

void decode_pool_close(struct loader *loader)
{
    struct decode_pool *pool = &loader->pool;
    for (uint32_t i = 0; pool->workers && i < pool->workers_count; i++) {
        struct load_worker *worker = &pool->workers[i];
        field_pipelines_close(worker);
        if (worker->queue)
            loader->io->ops->queue_close(worker->queue);
        free(worker->pieces);
        free(worker->picture);
        free(worker->labels.data);
        free(worker->numbers.data);
        free(worker->kept_boxes.data);
        str_deinit(&worker->json);
        field_encoders_close(worker);
        substitute_free(&loader->memory, worker->scratch, worker->scratch_bytes);
    }
    free(pool->field_normalizes);
    free(pool->workers);
    mixup_close(pool->mixup);
}
