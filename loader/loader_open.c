/*
 * loader_open — options, opening and closing of loader.h. See loader_next.c for the rest.
 *
 * Opens in this order: io, device, datasets with shard cache and views (sources.c); order and
 * plan; workers, memory, queue; threads. Closing first joins the threads, then ends reads in
 * flight before freeing their memory.
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/os/thread.h"
#include "image/formats/pixels.h"
#include "loader/selection.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_DEFAULT_BYTES = 1 << 30 };
static_assert((int)LOADER_PIXELS_MAX == (int)PIXELS_MAX, "both limits are the same");

struct loader_options loader_options_default(void)
{
    return (struct loader_options){
        .order = ORDER_SHUFFLE,
        .batching = {.global = 256, .micro = 32, .ranks = 1},
        .decode = LOADER_BYTES,
        .image = {.field = "jpg;jpeg;png;webp;ppm",
                  .width = 224,
                  .height = 224,
                  .crop = crop_options_default(CROP_CENTER),
                  .label_dtype = DTYPE_I32,
                  .mixup = {.probability = 1, .switch_probability = 0.5},
                  .normalize = normalize_options_default()},
        .text = {.field = "npy", .block = 1024},
        .bad_policy = LOADER_BAD_SUBSTITUTE,
        .bad_fraction_max = 0.01,
        .verify = true,
        .memory_bytes = MEMORY_DEFAULT_BYTES,
    };
}

/* ---- Opening. ---- */

static int open_inputs(struct loader *loader, struct err *err)
{
    struct loader_options *options = &loader->options;
    const struct loader_source single_source = {.path = options->dataset, .weight = 1};
    const struct loader_source *list = options->mix_count ? options->mix : &single_source;
    bool is_served = options->io && io_serves(options->io, list[0].path);
    int status = is_served ? 0 : io_open(list[0].path, NULL, &loader->own_io, err);
    loader->io = is_served ? options->io : loader->own_io;
    if (!status && !options->device)
        status = device_cpu_open(&loader->own_device, err);
    loader->device = options->device ? options->device : loader->own_device;
    return status ? status
                  : loader_sources_open(loader, list, options->mix_count ? options->mix_count : 1,
                                        err);
}

static int check_paths(const struct loader_options *options, struct err *err)
{
    bool is_named = options->dataset && options->dataset[0];
    if (is_named && options->mix_count) {
        err_set(err, -EINVAL, "both a dataset and a mix are given");
        err_advise(err, "give only one of them; a mix can include the dataset");
        return -EINVAL;
    }
    for (uint32_t i = 0; i < options->mix_count; i++)
        is_named = (is_named || i == 0) && options->mix[i].path && options->mix[i].path[0];
    if (is_named)
        return 0;
    err_set(err, -EINVAL, "there is no dataset");
    err_advise(err, "give the path of a dataset.json or its folder");
    return -EINVAL;
}

/* Returns the requested field names, or "". */
static const char *requested_fields(const struct loader_options *options)
{
    const char *field = options->decode == LOADER_TOKENS  ? options->text.field
                        : options->decode == LOADER_IMAGE ? options->image.field
                                                          : NULL;
    return field ? field : "";
}

static int check_selection(const struct loader_options *options, struct err *err)
{
    const struct loader_selection *selection = &options->selection;
    bool selects_members = selection->keys || selection->order || selection->weights ||
                           selection->where || selection->balance;
    if (!selection_is_all(selection) && options->mix_count > 1) {
        err_set(err, -EINVAL, "samples of a mix cannot be selected");
        err_advise(err, "select from a single dataset, or set the weights of the mix");
        return -EINVAL;
    }
    if (selects_members && options->decode == LOADER_TOKENS) {
        err_set(err, -EINVAL, "windows of text cannot be selected");
        err_advise(err, "convert only the documents that you want");
        return -EINVAL;
    }
    return selection_check(selection, err);
}

static int check_normalize(const struct loader_options *options, struct err *err)
{
    int status = normalize_options_check(&options->image.normalize, err);
    if (status || !normalize_is_on(&options->image.normalize) ||
        !mixup_is_on(&options->image.mixup))
        return status;
    err_set(err, -EINVAL, "mixup and cutmix mix images of U8 [height, width, 3]");
    err_advise(err, "turn them off, or normalize and mix in the training loop");
    return -EINVAL;
}

static int check_options(const struct loader_options *options, struct err *err)
{
    int status = check_paths(options, err);
    if (status)
        return status;
    if (options->batching.micro > LOADER_MICRO_MAX) {
        err_set(err, -EINVAL, "the micro-batch is too large");
        err_expected(err, "at most %d samples", LOADER_MICRO_MAX);
        err_found(err, "%" PRIu64, options->batching.micro);
        err_advise(err, "use a smaller micro-batch");
        return -EINVAL;
    }
    if (options->image.label_dtype != DTYPE_I32 && options->image.label_dtype != DTYPE_I64) {
        err_set(err, -EINVAL, "labels cannot have that type");
        err_expected(err, "DTYPE_I32 or DTYPE_I64");
        err_found(err, "%s", dtype_name(options->image.label_dtype));
        err_advise(err, "set image.label_dtype");
        return -EINVAL;
    }
    status = options->decode == LOADER_IMAGE ? check_normalize(options, err) : 0;
    if (status)
        return status;
    if (options->drop_last && options->pad_last) {
        err_set(err, -EINVAL, "the last step of an epoch cannot be both dropped and padded");
        err_advise(err, "set drop_last or pad_last");
        return -EINVAL;
    }
    status = check_selection(options, err);
    if (status)
        return status;
    const char *field = requested_fields(options);
    if (strlen(field) >= LOADER_FROM_BYTES_MAX) {
        err_set(err, -EINVAL, "the list of fields is too long");
        err_expected(err, "at most %d bytes", LOADER_FROM_BYTES_MAX - 1);
        err_found(err, "%zu, \"%.80s...\"", strlen(field), field);
        err_advise(err, "use fewer fields");
        return -EINVAL;
    }
    status = fields_check(options, err);
    return status ? status : batching_check(&options->batching, err);
}

/* Returns the order of a mix: of all samples; window and run as requested. */
static struct order_params mix_order(const struct loader *loader)
{
    const struct loader_options *options = &loader->options;
    struct order_params mix = {
        .kind = options->order, .seed = options->seed, .lanes = options->lanes};
    for (uint32_t i = 0; i < loader->sources_count; i++)
        mix.samples += loader->datasets[i].order.samples;
    order_params_resolve(&mix, 0, loader_default_lanes(loader));
    mix.window = options->window;
    mix.run = options->run;
    return mix;
}

static int open_sampler(struct loader *loader, struct err *err)
{
    struct sampler_source sources[MIX_DATASETS_MAX];
    for (uint32_t i = 0; i < loader->sources_count; i++)
        sources[i] = (struct sampler_source){.order = loader->datasets[i].order,
                                             .weight = loader->datasets[i].weight};
    loader->order = loader->sources_count == 1 ? sources[0].order : mix_order(loader);
    return sampler_open_mix(sources, loader->sources_count, loader->order.lanes,
                            &loader->reader.sampler, err);
}

static int open_order(struct loader *loader, struct err *err)
{
    struct consumer *consumer = &loader->consumer;
    const struct loader_options *options = &loader->options;
    int status = open_sampler(loader, err);
    if (status)
        return status;
    struct plan_options plan = {.batching = options->batching,
                                .order = options->order,
                                .samples = loader->order.samples,
                                .drop_last = options->drop_last,
                                .pad_last = options->pad_last,
                                .epoch = options->epoch,
                                .position = options->position,
                                .micros_done = options->micros_done,
                                .positions_max = options->positions_max,
                                .epochs_max = options->epochs_max};
    status = plan_init(&loader->reader.plan, &plan, err);
    loader->steps = status ? 0 : plan_steps(&loader->reader.plan);
    consumer->set_digest = options->set_digest;
    consumer->sequence_digest = options->sequence_digest;
    consumer->cursor = (struct cursor){.fingerprint = loader_sources_fingerprint(loader),
                                       .seed = options->seed,
                                       .epoch = options->epoch,
                                       .position = options->position,
                                       .micros_done = options->micros_done,
                                       .set_digest = options->set_digest,
                                       .sequence_digest = options->sequence_digest,
                                       .params = loader->order,
                                       .order_version = ORDER_VERSION};
    consumer->cursor_in_step = consumer->cursor;
    return status;
}

/* Whether the loader has no threads and delivers nothing. */
static bool is_reading_disabled(const struct loader *loader)
{
    return loader->options.order_only || loader->options.memory_only || loader->is_for_samples;
}

static int open_stages(struct loader *loader, struct err *err)
{
    for (uint32_t i = 0; i < loader->sources_count; i++) {
        uint32_t pieces = view_pieces_max(loader->sources[i].view);
        loader->pieces_max = pieces > loader->pieces_max ? pieces : loader->pieces_max;
    }
    int status = field_maps_open(loader, err);
    if (!status)
        status = field_tokens_open(loader, err);
    if (!status)
        status = loader_check_field_tokens(loader, err);
    if (!status)
        status = decode_pool_open(loader, err);
    if (!status)
        status = loader->is_for_samples ? loader_budget_init_for_samples(loader, err)
                                        : loader_budget_init(loader, err);
    if (status || is_reading_disabled(loader))
        return status;
    status = decode_pool_start(loader, err);
    return status ? status : reader_open(loader, err);
}

static int copy_options(struct loader *loader, const struct loader_options *options,
                        struct err *err)
{
    loader->options = *options;
    if (options->memory_bytes == 0)
        loader->options.memory_bytes = MEMORY_DEFAULT_BYTES;
    if (selection_has_order(&options->selection))
        loader->options.order = ORDER_SEQUENTIAL;
    if (options->image.pixels_max == 0)
        loader->options.image.pixels_max = LOADER_PIXELS_DEFAULT;
    strcpy(loader->field, requested_fields(options)); /* length checked by check_options */
    loader->options.image.field = loader->options.text.field = loader->field;
    return fields_copy(options, &loader->options.fields, &loader->fields_memory)
               ? err_set(err, -ENOMEM, "out of memory for a list of fields")
               : 0;
}

static int open_loader(const struct loader_options *options, bool is_for_samples,
                       struct loader **ret_loader, struct err *err)
{
    int status = check_options(options, err);
    if (status)
        return status;
    struct loader *loader = calloc(1, sizeof *loader);
    struct consumer *consumer = &loader->consumer;
    if (!loader)
        return err_set(err, -ENOMEM, "out of memory for a loader");
    loader->is_for_samples = is_for_samples;
    loader->opened_ns = clock_now_ns();
    loader->reader.emfile_releases = loader->reader.ragged_releases = UINT64_MAX;
    status = copy_options(loader, options, err);
    if (!status && loader_geometries(loader) > 0)
        image_library_versions(loader->pixels_libraries);
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_mutex_init(&loader->memory.mutex, NULL);
    pthread_cond_init(&loader->reader.wake, NULL);
    thread_cond_init(&consumer->wake);
    if (!status)
        status = open_inputs(loader, err);
    if (!status)
        status = open_order(loader, err);
    if (!status && loader->stats.left_out_count > 0)
        status = loader_check_bad_fraction(loader, options->bad_fraction_max, 0, 0, err);
    if (!status && !options->order_only)
        status = open_stages(loader, err);
    if (!status && options->batching.rank == 0 && !is_reading_disabled(loader))
        long_reads_warn_about_lanes(loader);
    if (is_reading_disabled(loader))
        consumer->failure = err_set(&consumer->failure_err, -EINVAL,
                                    "the loader was opened only for its order or memory plan");
    /* borrowed from the caller */
    loader->options.dataset = NULL;
    loader->options.mix = NULL;
    loader->options.reference = NULL;
    loader->options.image.label.from = loader->options.image.label.map = NULL;
    loader->options.selection = (struct loader_selection){0};
    if (status)
        loader_close(loader);
    else
        *ret_loader = loader;
    return status;
}

int loader_open(const struct loader_options *options, struct loader **ret_loader, struct err *err)
{
    return open_loader(options, false, ret_loader, err);
}

int loader_open_for_samples(const struct loader_options *options, struct loader **ret_loader,
                            struct err *err)
{
    return open_loader(options, true, ret_loader, err);
}

/* ---- Closing. ---- */

static void join_threads(struct loader *loader)
{
    struct reader *reader = &loader->reader;
    pthread_mutex_lock(&loader->mutex);
    loader->stop = true;
    reader_wake(reader);
    decode_pool_stop(&loader->pool);
    pthread_mutex_unlock(&loader->mutex);
    if (reader->is_started)
        pthread_join(reader->thread, NULL);
    decode_pool_join(&loader->pool);
}

/* What batches need as long as one is held. */
static void free_contents(struct loader *loader)
{
    loader_budget_deinit(loader);
    loader_sources_close(loader);
    io_close(loader->seekable_io);
    io_close(loader->own_io);
}

/* What fields need as long as one is held. */
static void free_shell(struct loader *loader)
{
    device_close(loader->own_device);
    field_maps_close(loader);
    field_tokens_close(loader);
    free(loader->fields_memory);
    pthread_mutex_destroy(&loader->memory.mutex);
    pthread_mutex_destroy(&loader->mutex);
    free(loader);
}

void loader_unlock_after_release(struct loader *loader)
{
    bool holds_batches = loader->taken > loader->releases_count, holds_fields = true;
    if (loader->is_closed) {
        batch_memories_free(loader);
        ragged_free_unused(loader);
        holds_fields = loader->memories[BATCH_MEMORY_LARGE].count > 0 ||
                       loader->memories[BATCH_MEMORY_SMALL].count > 0 ||
                       loader->ragged.used_count > 0;
        if (!holds_batches && !loader->is_emptied)
            free_contents(loader);
        loader->is_emptied = !holds_batches;
    }
    pthread_mutex_unlock(&loader->mutex);
    if (!holds_batches && !holds_fields)
        free_shell(loader);
}

void loader_close(struct loader *loader)
{
    if (!loader)
        return;
    join_threads(loader);
    reader_close(loader);
    for (uint64_t i = loader->taken; i < loader->planned; i++) {
        slot_clear(loader, loader_slot(loader, i));
        pthread_mutex_lock(&loader->mutex);
        slot_release_memory(loader_slot(loader, i));
        pthread_mutex_unlock(&loader->mutex);
    }
    decode_pool_close(loader);
    if (loader->options.decode != LOADER_BYTES) /* batches do not point to what was read */
        loader_budget_free_reads(loader);
    pthread_cond_destroy(&loader->consumer.wake);
    pthread_mutex_lock(&loader->mutex);
    loader->is_closed = true;
    loader_unlock_after_release(loader);
}
