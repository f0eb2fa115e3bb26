/*
 * loader — see loader.h: the consumer's side.
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/workers.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_DEFAULT_BYTES = 1 << 30 };

struct loader_options loader_options_default(void)
{
    return (struct loader_options){
        .order = ORDER_SHUFFLE,
        .batching = {.global = 256, .micro = 32, .ranks = 1},
        .decode = LOADER_BYTES,
        .image = {.field = "jpg", .width = 224, .height = 224, .crop = crop_options_default(CROP_CENTER)},
        .text = {.field = "npy", .block = 1024},
        .bad_policy = LOADER_BAD_SUBSTITUTE,
        .bad_fraction_max = 0.01,
        .verify = true,
        .memory_bytes = MEMORY_DEFAULT_BYTES,
    };
}

/* ---- Opening. ---- */

static int open_foundation(struct loader *loader, struct err *err)
{
    struct loader_options *options = &loader->options;
    int status = 0;
    if (!options->io)
        status = io_open(options->dataset, NULL, &loader->own_io, err);
    loader->io = options->io ? options->io : loader->own_io;
    if (!status && !options->device)
        status = device_cpu_open(&loader->own_device, err);
    loader->device = options->device ? options->device : loader->own_device;
    if (!status)
        status = dataset_open(loader->io, options->dataset, &loader->dataset, err);
    if (!status)
        status = shard_cache_open(loader->io, loader->dataset, &loader->cache, err);
    if (!status)
        status = view_open(options, loader->dataset, loader->cache, &loader->view, err);
    return status;
}

static int check_options(const struct loader_options *options, struct err *err)
{
    if (!options->dataset || !options->dataset[0]) {
        err_set(err, -EINVAL, "no dataset was named");
        err_advise(err, "give the path of a dataset.json or of its folder");
        return -EINVAL;
    }
    if (options->batching.micro > LOADER_MICRO_MAX) {
        err_set(err, -EINVAL, "the micro-batch is too large");
        err_expected(err, "at most %d samples", LOADER_MICRO_MAX);
        err_found(err, "%" PRIu64, options->batching.micro);
        err_advise(err, "use a smaller micro-batch");
        return -EINVAL;
    }
    return batching_check(&options->batching, err);
}

static int open_order(struct loader *loader, struct err *err)
{
    const struct loader_options *options = &loader->options;
    loader->order = (struct order_params){.kind = options->order,
                                          .samples = view_samples(loader->view),
                                          .seed = options->seed,
                                          .lanes = options->lanes,
                                          .window = options->window,
                                          .run = options->run};
    order_params_resolve(&loader->order, view_mean_bytes(loader->view));
    int status = sampler_open(&loader->order, &loader->sampler, err);
    if (status)
        return status;
    struct plan_options plan = {.batching = options->batching,
                                .samples = loader->order.samples,
                                .drop_tail = options->drop_tail,
                                .epoch = options->epoch,
                                .position = options->position,
                                .positions_max = options->positions_max,
                                .epochs_max = options->epochs_max};
    status = plan_init(&loader->plan, &plan, err);
    loader->once = options->once;
    loader->order_digest = options->order_digest;
    loader->cursor = (struct cursor){.fingerprint = loader->dataset->fingerprint,
                                     .seed = options->seed,
                                     .epoch = options->epoch,
                                     .position = options->position,
                                     .once = options->once,
                                     .order = options->order_digest,
                                     .params = loader->order,
                                     .order_version = ORDER_VERSION};
    return status;
}

static int init_worker(struct loader *loader, struct load_worker *worker, struct err *err)
{
    const struct loader_options *options = &loader->options;
    worker->loader = loader;
    worker->pieces = calloc(loader->pieces_max, sizeof *worker->pieces);
    if (!worker->pieces)
        return err_set(err, -ENOMEM, "out of memory for a worker");
    if (options->decode != LOADER_IMAGE)
        return 0;
    struct image_options image = {
        .width = options->image.width, .height = options->image.height, .crop = options->image.crop};
    return image_pipeline_open(&image, &worker->pipeline, err);
}

static int start_threads(struct loader *loader, struct err *err)
{
    for (uint32_t i = 0; i < loader->workers_count; i++) {
        struct load_worker *worker = &loader->workers[i];
        pthread_cond_init(&worker->wake, NULL);
        int failed = pthread_create(&worker->thread, NULL, decode_stage_main, worker);
        if (failed) {
            pthread_cond_destroy(&worker->wake);
            return err_errno(err, -failed, "could not start decoding thread %" PRIu32, i);
        }
        loader->workers_started++;
    }
    int failed = pthread_create(&loader->reader, NULL, read_stage_main, loader);
    if (failed)
        return err_errno(err, -failed, "could not start the reading thread");
    loader->reader_started = true;
    return 0;
}

static int open_stages(struct loader *loader, struct err *err)
{
    unsigned workers = loader->options.workers ? loader->options.workers : workers_cpu_count();
    loader->workers_count = (uint32_t)bytes_min(workers, LOADER_WORKERS_MAX);
    loader->pieces_max = view_pieces_max(loader->view);
    loader->group_items = loader->options.decode == LOADER_IMAGE ? 1 : LOADER_GROUP_ITEMS;
    loader->workers = calloc(loader->workers_count, sizeof loader->workers[0]);
    if (!loader->workers)
        return err_set(err, -ENOMEM, "out of memory for %" PRIu32 " workers", loader->workers_count);
    int status = 0;
    for (uint32_t i = 0; !status && i < loader->workers_count; i++)
        status = init_worker(loader, &loader->workers[i], err);
    if (!status)
        status = loader_budget_init(loader, err);
    if (!status)
        status = loader->io->ops->queue_open(loader->io, LOADER_QUEUE_DEPTH, &loader->queue, err);
    return status ? status : start_threads(loader, err);
}

static void copy_options(struct loader *loader, const struct loader_options *options)
{
    loader->options = *options;
    if (options->memory_bytes == 0)
        loader->options.memory_bytes = MEMORY_DEFAULT_BYTES;
    const char *field = options->decode == LOADER_TOKENS ? options->text.field : options->image.field;
    strncpy(loader->field, field ? field : "", sizeof loader->field - 1);
    loader->options.image.field = loader->options.text.field = loader->field;
}

int loader_open(const struct loader_options *options, struct loader **ret_loader, struct err *err)
{
    int status = check_options(options, err);
    if (status)
        return status;
    struct loader *loader = calloc(1, sizeof *loader);
    if (!loader)
        return err_set(err, -ENOMEM, "out of memory for a loader");
    copy_options(loader, options);
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->reader_wake, NULL);
    pthread_cond_init(&loader->consumer_wake, NULL);
    status = open_foundation(loader, err);
    if (!status)
        status = open_order(loader, err);
    if (!status)
        status = open_stages(loader, err);
    loader->options.dataset = NULL; /* the caller's; dataset->path says it */
    if (status)
        loader_close(loader);
    else
        *ret_loader = loader;
    return status;
}

/* ---- Closing. ---- */

static void join_threads(struct loader *loader)
{
    pthread_mutex_lock(&loader->mutex);
    loader->stop = true;
    read_stage_wake(loader);
    for (struct load_worker *worker = loader->idle; worker; worker = worker->next_idle) {
        worker->is_asleep = false;
        pthread_cond_signal(&worker->wake);
    }
    loader->idle = NULL;
    pthread_mutex_unlock(&loader->mutex);
    if (loader->reader_started)
        pthread_join(loader->reader, NULL);
    for (uint32_t i = 0; i < loader->workers_started; i++) {
        pthread_join(loader->workers[i].thread, NULL);
        pthread_cond_destroy(&loader->workers[i].wake);
    }
}

static void close_workers(struct loader *loader)
{
    for (uint32_t i = 0; loader->workers && i < loader->workers_count; i++) {
        struct load_worker *worker = &loader->workers[i];
        image_pipeline_close(worker->pipeline);
        if (worker->queue)
            loader->io->ops->queue_close(worker->queue);
        free(worker->pieces);
        free(worker->scratch);
    }
    free(loader->workers);
}

void loader_close(struct loader *loader)
{
    if (!loader)
        return;
    join_threads(loader);
    if (loader->queue)
        loader->io->ops->queue_close(loader->queue); /* cancels what is under way: the ring is still there */
    for (uint64_t i = loader->released; i < loader->planned; i++)
        slot_clear(loader, loader_slot(loader, i));
    close_workers(loader);
    loader_budget_deinit(loader);
    sampler_close(loader->sampler);
    view_close(loader->view);
    shard_cache_close(loader->cache);
    dataset_close(loader->dataset);
    device_close(loader->own_device);
    io_close(loader->own_io);
    pthread_cond_destroy(&loader->consumer_wake);
    pthread_cond_destroy(&loader->reader_wake);
    pthread_mutex_destroy(&loader->mutex);
    free(loader);
}

/* ---- Batches. ---- */

/* With mutex. */
static bool has_next(struct loader *loader)
{
    return loader->taken < loader->planned ? loader_slot(loader, loader->taken)->is_ready
                                           : loader->plan_ended;
}

/* With mutex. */
static void wait_for_next(struct loader *loader)
{
    uint64_t begin_ns = clock_now_ns();
    loader->consumer_waits = true;
    stats_update_full(loader);
    read_stage_wake(loader); /* it may be what can't go on unless a batch is released */
    while (!has_next(loader))
        pthread_cond_wait(&loader->consumer_wake, &loader->mutex);
    loader->consumer_waits = false;
    bool is_end = loader->taken == loader->planned;
    stats_add_wait(loader, is_end ? NULL : loader_slot(loader, loader->taken), begin_ns, clock_now_ns());
}

static int fail(struct loader *loader, struct err *err)
{
    loader->failure = loader->failure_err.code;
    if (err)
        *err = loader->failure_err;
    return loader->failure;
}

/* Lists, logs and counts the batch's bad samples; -EBADMSG where they are too many. */
static int note_bad_samples(struct loader *loader, const struct load_slot *slot, struct err *err)
{
    const struct load_item *last = NULL;
    uint32_t bad = 0, last_item = 0;
    for (uint32_t i = 0; i < slot->batch.items_count; i++) {
        const struct load_item *load = &slot->loads[i];
        const struct batch_item *item = &slot->items[i];
        if (!load->is_bad)
            continue;
        bad++;
        last = load;
        last_item = i;
        log_line(loader->options.log, LOG_WARN,
                 "bad sample \"%.*s\" (%" PRIu64 "): %s; sample %" PRIu64 " takes its place",
                 (int)item->key_bytes, item->key ? item->key : "", item->ref.sample, load->reason,
                 load->substitute);
        if (loader->quarantine_count == LOADER_QUARANTINE_MAX)
            continue;
        char *reason = loader->reasons[loader->quarantine_count];
        memcpy(reason, load->reason, LOADER_REASON_BYTES);
        loader->quarantine[loader->quarantine_count++] =
            (struct loader_bad_sample){.ref = item->ref, .substitute = load->substitute, .reason = reason};
    }
    if (!last)
        return 0;
    pthread_mutex_lock(&loader->mutex);
    uint64_t total = loader->stats.bad_samples_count += bad, delivered = loader->stats.samples_count;
    pthread_mutex_unlock(&loader->mutex);
    double allowed = loader->options.bad_fraction_max * (double)delivered;
    if ((double)total <= (allowed > 1 ? allowed : 1))
        return 0;
    char path[IO_PATH_BYTES_MAX] = "";
    struct err *own = &loader->failure_err;
    const struct batch_item *item = &slot->items[last_item];
    dataset_shard_path(loader->dataset, last->place.shard, path, NULL);
    err_set(own, -EBADMSG, "too many bad samples; the last is \"%.*s\": %s",
            (int)bytes_min(item->key_bytes, 80), item->key ? item->key : "", last->reason);
    err_at(own, path, last->bad_offset);
    err_expected(own, "at most %g %% of those delivered", loader->options.bad_fraction_max * 100);
    err_found(own, "%" PRIu64 " of %" PRIu64, total, delivered);
    err_advise(own, "repair the dataset (`millrace verify %.120s` names all that is bad), or raise the limit",
               loader->dataset->path);
    return fail(loader, err);
}

/* The digests cover the batch; the cursor moves when the step is whole. */
static void advance_cursor(struct loader *loader, const struct load_slot *slot)
{
    loader->once += slot->once;
    loader->order_digest += slot->order;
    if (!slot->batch.last_of_step)
        return;
    loader->cursor.epoch = slot->micro.next_epoch;
    loader->cursor.position = slot->micro.next_position;
    loader->cursor.once = loader->once;
    loader->cursor.order = loader->order_digest;
}

static int all_held(const struct loader *loader, struct err *err)
{
    err_set(err, -ENOBUFS, "all of the loader's batches are held by its consumer");
    err_expected(err, "at most %" PRIu32 " at a time", loader->slots_count - 1);
    err_advise(err, "release a batch before asking for the next");
    return -ENOBUFS;
}

int loader_next(struct loader *loader, const struct batch **ret_batch, struct err *err)
{
    if (loader->failure)
        return fail(loader, err);
    if (loader->taken - loader->released == loader->slots_count)
        return all_held(loader, err);
    pthread_mutex_lock(&loader->mutex);
    if (!has_next(loader))
        wait_for_next(loader);
    if (loader->taken == loader->planned) {
        pthread_mutex_unlock(&loader->mutex);
        return LOADER_END;
    }
    struct load_slot *slot = loader_slot(loader, loader->taken);
    bool has_failed = slot->failed_item != UINT32_MAX;
    if (!has_failed) {
        loader->taken++;
        loader->stats.batches_count++;
        loader->stats.samples_count += slot->batch.items_count;
    }
    pthread_mutex_unlock(&loader->mutex);
    if (has_failed) {
        loader->failure_err = slot->err;
        return fail(loader, err);
    }
    int status = note_bad_samples(loader, slot, err);
    if (status)
        return status;
    advance_cursor(loader, slot);
    *ret_batch = &slot->batch;
    return LOADER_BATCH;
}

bool loader_ready(struct loader *loader)
{
    pthread_mutex_lock(&loader->mutex);
    bool is_ready = loader->failure || has_next(loader);
    pthread_mutex_unlock(&loader->mutex);
    return is_ready;
}

void loader_release(struct loader *loader, const struct batch *batch)
{
    struct load_slot *slot = loader_slot(loader, loader->released);
    assert(loader->released < loader->taken && batch == &slot->batch);
    (void)batch;
    slot_clear(loader, slot);
    pthread_mutex_lock(&loader->mutex);
    if (loader->options.decode == LOADER_BYTES)
        for (uint32_t i = 0; i < slot->chunks_issued; i++)
            ring_free(&loader->ring, slot->chunks[i].ring_entry);
    loader->released++;
    if (loader->reader_block == LOAD_NO_SLOT || loader->reader_block == LOAD_NO_RING)
        loader->reader_block = LOAD_RUNS;
    stats_update_full(loader);
    read_stage_wake(loader);
    pthread_mutex_unlock(&loader->mutex);
}

/* ---- Questions. ---- */

struct cursor loader_cursor(const struct loader *loader)
{
    return loader->cursor;
}

struct loader_shape loader_shape(const struct loader *loader)
{
    return (struct loader_shape){.order = loader->order,
                                 .fingerprint = loader->dataset->fingerprint,
                                 .samples = loader->order.samples,
                                 .steps = plan_steps(&loader->plan),
                                 .classes_count = loader->dataset->classes_count,
                                 .vocabulary = loader->dataset->text.vocabulary,
                                 .memory_bytes = loader->memory_bytes,
                                 .engine = loader->io->ops->name};
}

uint64_t loader_quarantine(const struct loader *loader, const struct loader_bad_sample **ret_list)
{
    *ret_list = loader->quarantine;
    return loader->quarantine_count;
}
