/*
 * sample_reader — see sample_reader.h.
 *
 * It is a loader without slots and threads. Each call takes a worker of the loader's decode pool,
 * and a slot of one item, which the caller's batch keeps until its release.
 *
 * Locks, in this order: a worker's; ragged_mutex; the loader's. mutex and keys_mutex are not held
 * together with any of the loader's but those of the shard cache.
 */
#include "loader/sample_reader.h"

#include "base/bytes.h"
#include "base/name_set.h"
#include "base/os/thread_pool.h"
#include "io/file_util.h"
#include "loader/parts/extents.h"
#include "loader/selection.h"
#include "loader/state.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static_assert((int)SAMPLE_KEY_BYTES_MAX == (int)SHARD_KEY_BYTES_MAX, "both limits are the same");

enum {
    WORKERS_DEFAULT_MAX = 16,
    KEPT_BYTES_MAX = 4 << 20, /* of a slot's buffer, for the next sample */
};
#define NO_SAMPLE UINT64_MAX

/* A slot and the stored bytes of its sample. */
struct sample_slot {
    struct load_slot slot; /* first, because a batch is where its slot is */
    uint8_t *data;
    uint64_t data_bytes;
    struct sample_slot *next; /* guarded by the reader's mutex: in the list of free ones */
};

/* Samples with the same key. */
struct key_samples {
    uint64_t first, second; /* second: NO_SAMPLE if the key is unique */
};

struct sample_reader {
    struct loader *loader;
    const char **fields;
    pthread_mutex_t *worker_mutexes;   /* by number of worker: one call at a time uses it */
    atomic_uint_least32_t next_worker; /* to wait for, if all are in use */
    pthread_mutex_t ragged_mutex;      /* guards the parts of loader->ragged of a reader's thread */
    pthread_mutex_t mutex;             /* guards free_slots */
    struct sample_slot *free_slots;
    /* Guards the fields below until has_keys; then they are immutable. */
    pthread_mutex_t keys_mutex;
    atomic_bool has_keys;
    struct name_set keys;
    struct str key_samples; /* struct key_samples by number in keys */
};

static const struct load_source *source_of(const struct sample_reader *reader)
{
    return &reader->loader->sources[0];
}

static uint64_t samples_of(const struct sample_reader *reader)
{
    return view_samples(source_of(reader)->view);
}

/* ---- Life cycle. ---- */

static int check_options(const struct loader_options *options, struct err *err)
{
    const char *what = options->mix_count                       ? "a mix"
                       : !selection_is_all(&options->selection) ? "a selection"
                       : options->decode == LOADER_IMAGE && mixup_is_on(&options->image.mixup)
                           ? "mixup"
                           : NULL;
    if (!what)
        return 0;
    err_set(err, -EINVAL, "single samples cannot be read with %s", what);
    err_advise(err, "open the dataset without it, or use a loader");
    return -EINVAL;
}

static struct loader_options loader_options_of(const struct loader_options *options)
{
    uint64_t cpus = bytes_min(thread_pool_cpu_count(), WORKERS_DEFAULT_MAX);
    struct loader_options own = loader_options_default();
    own.dataset = options->dataset;
    own.io = options->io;
    own.decode = options->decode;
    own.image = options->image;
    own.text = options->text;
    own.fields = options->fields;
    own.fields_count = options->fields_count;
    own.seed = options->seed;
    own.verify = options->verify;
    own.workers = options->workers ? options->workers : (unsigned)cpus;
    own.memory_bytes = options->memory_bytes;
    own.order = ORDER_SEQUENTIAL;
    own.batching = (struct batching){.global = 1, .micro = 1, .ranks = 1};
    own.bad_policy = LOADER_BAD_STOP;
    own.keep = LOADER_KEEP_GROW;
    return own;
}

static int list_fields(struct sample_reader *reader, struct err *err)
{
    const struct dataset *dataset = source_of(reader)->dataset;
    reader->fields = calloc(dataset->fields_count + 1, sizeof *reader->fields);
    if (!reader->fields)
        return err_set(err, -ENOMEM, "out of memory for a list of fields");
    for (uint32_t i = 0; i < dataset->fields_count; i++)
        reader->fields[i] = dataset->fields[i];
    return 0;
}

static int init_workers(struct sample_reader *reader, struct err *err)
{
    uint32_t count = reader->loader->pool.workers_count;
    reader->worker_mutexes = calloc(count, sizeof *reader->worker_mutexes);
    if (!reader->worker_mutexes)
        return err_set(err, -ENOMEM, "out of memory for %" PRIu32 " workers", count);
    for (uint32_t i = 0; i < count; i++)
        pthread_mutex_init(&reader->worker_mutexes[i], NULL);
    return 0;
}

int sample_reader_open(const struct loader_options *options, struct sample_reader **ret_reader,
                       struct err *err)
{
    int status = check_options(options, err);
    if (status)
        return status;
    struct sample_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return err_set(err, -ENOMEM, "out of memory for a reader of samples");
    pthread_mutex_init(&reader->ragged_mutex, NULL);
    pthread_mutex_init(&reader->mutex, NULL);
    pthread_mutex_init(&reader->keys_mutex, NULL);
    const struct loader_options own = loader_options_of(options);
    status = loader_open_for_samples(&own, &reader->loader, err);
    if (!status)
        status = list_fields(reader, err);
    if (!status)
        status = init_workers(reader, err);
    if (status)
        sample_reader_close(reader);
    else
        *ret_reader = reader;
    return status;
}

static void free_slot(struct sample_slot *slot)
{
    slot_close(&slot->slot);
    free(slot->data);
    free(slot);
}

void sample_reader_close(struct sample_reader *reader)
{
    if (!reader)
        return;
    for (uint32_t i = 0; reader->worker_mutexes && i < reader->loader->pool.workers_count; i++)
        pthread_mutex_destroy(&reader->worker_mutexes[i]);
    while (reader->free_slots) {
        struct sample_slot *slot = reader->free_slots;
        reader->free_slots = slot->next;
        free_slot(slot);
    }
    loader_close(reader->loader);
    name_set_deinit(&reader->keys);
    str_deinit(&reader->key_samples);
    pthread_mutex_destroy(&reader->ragged_mutex);
    pthread_mutex_destroy(&reader->mutex);
    pthread_mutex_destroy(&reader->keys_mutex);
    free(reader->worker_mutexes);
    free(reader->fields);
    free(reader);
}

struct sample_reader_info sample_reader_info(const struct sample_reader *reader)
{
    const struct load_source *source = source_of(reader);
    return (struct sample_reader_info){.samples = samples_of(reader),
                                       .fingerprint = view_fingerprint(source->view),
                                       .path = source->dataset->path,
                                       .schema = &reader->loader->schema,
                                       .fields = reader->fields,
                                       .fields_count = source->dataset->fields_count};
}

/* ---- Keys. ---- */

static int check_sample(const struct sample_reader *reader, uint64_t sample, struct err *err)
{
    uint64_t samples = samples_of(reader);
    if (sample < samples)
        return 0;
    err_set(err, -ERANGE, "the dataset has no sample %" PRIu64, sample);
    err_at(err, source_of(reader)->dataset->path, ERR_NO_OFFSET);
    err_expected(err, "less than %" PRIu64, samples);
    return -ERANGE;
}

int sample_reader_key(struct sample_reader *reader, uint64_t sample, char *key, struct err *err)
{
    struct shard_cache *cache = reader->loader->cache;
    struct shard *shard;
    int status = check_sample(reader, sample, err);
    if (status)
        return status;
    struct sample_location location =
        view_locate(source_of(reader)->view, (struct sample_ref){.sample = sample});
    status = shard_cache_get(cache, location.shard, OPEN_FILES_ALL, &shard, err);
    if (status)
        return status;
    uint32_t bytes;
    const char *stored = shard_index_key(shard->index, location.member, &bytes);
    memcpy(key, stored, bytes);
    key[bytes] = '\0';
    shard_cache_put(cache, location.shard);
    return 0;
}

static int add_key(struct sample_reader *reader, const char *key, uint32_t bytes, uint64_t sample,
                   struct err *err)
{
    const struct key_samples first = {sample, NO_SAMPLE};
    uint32_t number;
    bool is_new;
    int status = name_set_add(&reader->keys, key, bytes, &number, &is_new, err);
    if (status)
        return status;
    if (is_new) {
        str_add(&reader->key_samples, &first, sizeof first);
        return str_status(&reader->key_samples)
                   ? err_set(err, -ENOMEM, "out of memory for the keys of a dataset")
                   : 0;
    }
    struct key_samples *samples = (struct key_samples *)(void *)reader->key_samples.data + number;
    if (samples->second == NO_SAMPLE)
        samples->second = sample;
    return 0;
}

static int add_keys(struct sample_reader *reader, uint64_t number, struct err *err)
{
    struct shard_cache *cache = reader->loader->cache;
    uint64_t first = source_of(reader)->dataset->shards[number].first_sample;
    struct shard *shard;
    int status = shard_cache_get(cache, number, OPEN_FILES_ALL, &shard, err);
    if (status)
        return status;
    for (uint64_t i = 0; !status && i < shard_index_samples(shard->index); i++) {
        uint32_t bytes;
        const char *key = shard_index_key(shard->index, i, &bytes);
        status = add_key(reader, key, bytes, first + i, err);
    }
    shard_cache_put(cache, number);
    return status;
}

static int list_keys(struct sample_reader *reader, struct err *err)
{
    int status = 0;
    if (atomic_load(&reader->has_keys))
        return 0;
    pthread_mutex_lock(&reader->keys_mutex);
    if (!atomic_load(&reader->has_keys)) {
        for (uint64_t i = 0; !status && i < source_of(reader)->dataset->shards_count; i++)
            status = add_keys(reader, i, err);
        if (status) {
            name_set_deinit(&reader->keys);
            str_deinit(&reader->key_samples);
            reader->keys = (struct name_set){0};
            reader->key_samples = (struct str){0};
        }
        atomic_store(&reader->has_keys, !status);
    }
    pthread_mutex_unlock(&reader->keys_mutex);
    return status;
}

int sample_reader_find(struct sample_reader *reader, const char *key, size_t bytes,
                       uint64_t *ret_sample, struct err *err)
{
    const char *path = source_of(reader)->dataset->path;
    uint32_t number;
    if (reader->loader->options.decode == LOADER_TOKENS) {
        err_set(err, -EINVAL, "windows of text have no keys of their own");
        err_at(err, path, ERR_NO_OFFSET);
        err_advise(err, "use their numbers");
        return -EINVAL;
    }
    int status = list_keys(reader, err);
    if (status)
        return status;
    if (!name_set_find(&reader->keys, key, bytes, &number))
        return 0;
    const struct key_samples *samples =
        (const struct key_samples *)(const void *)reader->key_samples.data + number;
    if (samples->second == NO_SAMPLE) {
        *ret_sample = samples->first;
        return 1;
    }
    err_set(err, -EINVAL, "several samples have the key \"%.*s\"", (int)bytes_min(bytes, 80), key);
    err_at(err, path, ERR_NO_OFFSET);
    err_found(err, "samples %" PRIu64 " and %" PRIu64, samples->first, samples->second);
    err_advise(err, "use their numbers");
    return -EINVAL;
}

/* ---- Samples. ---- */

/* Waits if all workers are in use. */
static uint32_t acquire_worker(struct sample_reader *reader)
{
    uint32_t count = reader->loader->pool.workers_count;
    for (uint32_t i = 0; i < count; i++)
        if (!pthread_mutex_trylock(&reader->worker_mutexes[i]))
            return i;
    uint32_t number = atomic_fetch_add(&reader->next_worker, 1) % count;
    pthread_mutex_lock(&reader->worker_mutexes[number]);
    return number;
}

static int acquire_slot(struct sample_reader *reader, struct sample_slot **ret_slot,
                        struct err *err)
{
    pthread_mutex_lock(&reader->mutex);
    struct sample_slot *slot = reader->free_slots;
    if (slot)
        reader->free_slots = slot->next;
    pthread_mutex_unlock(&reader->mutex);
    int status = 0;
    if (!slot) {
        slot = calloc(1, sizeof *slot);
        status = slot ? slot_open(reader->loader, &slot->slot, err)
                      : err_set(err, -ENOMEM, "out of memory for a sample");
    }
    if (!status)
        *ret_slot = slot;
    else if (slot)
        free_slot(slot);
    return status;
}

static int reserve_data(struct sample_slot *slot, uint64_t bytes, struct err *err)
{
    if (bytes <= slot->data_bytes)
        return 0;
    free(slot->data);
    slot->data = malloc(bytes);
    slot->data_bytes = slot->data ? bytes : 0;
    return slot->data
               ? 0
               : err_set(err, -ENOMEM, "out of memory for a sample of %" PRIu64 " bytes", bytes);
}

/* Lists what the pieces need in reads of neighbors. Returns the bytes of all reads. */
static uint64_t plan_reads(const struct loader *loader, struct load_slot *slot,
                           struct extent *extents, uint32_t *ret_count)
{
    const struct extent_limits limits = {.gap_bytes = LOADER_SAMPLE_GAP_BYTES,
                                         .bytes_max = UINT64_MAX,
                                         .same_sample_gap_bytes = LOADER_SAMPLE_GAP_BYTES};
    struct load_piece *pieces = loader_pieces(loader, slot, 0);
    uint64_t bytes = 0;
    uint32_t count = 0;
    for (uint32_t k = 0; k < slot->load_items[0].pieces_count; k++) {
        const struct view_piece *view = &pieces[k].view;
        if (view->read_bytes > 0)
            extents[count++] = (struct extent){.begin = view->read_offset,
                                               .end = view->read_offset + view->read_bytes};
    }
    extents_sort(extents, count);
    uint32_t reads = 0;
    for (uint32_t i = 0, merged; i < count; i += merged) {
        struct extent read = extents[i];
        merged = extents_merge(&extents[i], count - i, &limits, &read.end);
        bytes += read.end - read.begin;
        extents[reads++] = read;
    }
    *ret_count = reads;
    return bytes;
}

/* Points the pieces that lie in a read to its data. */
static void set_pieces(const struct loader *loader, struct load_slot *slot,
                       const struct extent *read, const uint8_t *data)
{
    struct load_piece *pieces = loader_pieces(loader, slot, 0);
    for (uint32_t k = 0; k < slot->load_items[0].pieces_count; k++) {
        struct view_piece *view = &pieces[k].view;
        if (view->read_bytes > 0 && view->read_offset >= read->begin &&
            view->read_offset + view->read_bytes <= read->end)
            view->data = data + (view->read_offset - read->begin);
    }
}

static int read_pieces(struct load_worker *worker, struct sample_slot *sample, struct err *err)
{
    struct loader *loader = worker->loader;
    const struct shard *shard = sample->slot.load_items[0].shard;
    struct extent extents[2 + LOADER_FIELDS_MAX + SHARD_FIELDS_MAX];
    uint32_t count;
    uint64_t bytes = plan_reads(loader, &sample->slot, extents, &count);
    int status = reserve_data(sample, bytes, err);
    if (!status && !worker->queue)
        status = loader->io->ops->queue_open(loader->io, 1, &worker->queue, err);
    uint8_t *data = sample->data;
    for (uint32_t i = 0; !status && i < count; i++) {
        uint64_t read_bytes = extents[i].end - extents[i].begin;
        status = io_read_exact(worker->queue, loader->io, shard->file, shard->path,
                               extents[i].begin, data, read_bytes, err);
        set_pieces(loader, &sample->slot, &extents[i], data);
        data += read_bytes;
    }
    return status;
}

static int acquire_memory(struct sample_reader *reader, struct load_slot *slot, struct err *err)
{
    struct loader *loader = reader->loader;
    bool is_acquired = false;
    int status = 0;
    while (!status && !is_acquired) {
        status = batch_memories_grow(loader, err);
        pthread_mutex_lock(&loader->mutex);
        is_acquired = !status && batch_memories_are_available(loader);
        if (is_acquired) {
            batch_memories_reserve(loader);
            slot_acquire_memory(loader, slot);
        }
        pthread_mutex_unlock(&loader->mutex);
    }
    if (status || reader->loader->ragged.fields_count == 0)
        return status;
    pthread_mutex_lock(&reader->ragged_mutex);
    status = ragged_alloc(loader, slot, true, true, err);
    pthread_mutex_unlock(&reader->ragged_mutex);
    return status;
}

static int load_sample(struct sample_reader *reader, struct load_worker *worker,
                       struct sample_slot *sample, struct err *err)
{
    struct loader *loader = reader->loader;
    struct load_slot *slot = &sample->slot;
    struct load_item *load = &slot->load_items[0];
    int status = read_plan_item(loader, slot, 0, OPEN_FILES_ALL, err);
    if (!status)
        status = read_pieces(worker, sample, err);
    if (!status)
        status = acquire_memory(reader, slot, err);
    if (status)
        return status;
    for (uint32_t k = 0; k < load->pieces_count; k++)
        worker->pieces[k] = loader_pieces(loader, slot, 0)[k].view;
    status = item_decode(worker, slot, 0, load->shard, slot->items[0].ref, worker->pieces,
                         load->pieces_count, err);
    return status ? status : ragged_finish(loader, slot, err);
}

int sample_reader_read(struct sample_reader *reader, uint32_t epoch, uint64_t sample,
                       const struct batch **ret_batch, struct err *err)
{
    struct loader *loader = reader->loader;
    struct sample_slot *slot;
    struct err why = {0};
    int status = check_sample(reader, sample, err);
    if (!status)
        status = acquire_slot(reader, &slot, err);
    if (status)
        return status;
    slot_begin(&slot->slot, &(struct plan_micro){.epoch = epoch, .last_of_step = true}, 1);
    slot->slot.items[0].position = sample;
    slot->slot.items[0].ref = (struct sample_ref){.epoch = epoch, .sample = sample};
    uint32_t worker = acquire_worker(reader);
    status = load_sample(reader, &loader->pool.workers[worker], slot, &why);
    pthread_mutex_unlock(&reader->worker_mutexes[worker]);
    if (!status) {
        *ret_batch = &slot->slot.batch;
        return 0;
    }
    if (!item_failure_is_fatal(status)) {
        slot_note_bad(&slot->slot, 0, &why);
        err_clear(&why);
        item_describe_bad(loader, &slot->slot, 0, &why);
        status = -EBADMSG;
    }
    if (err)
        *err = why;
    sample_reader_release(reader, &slot->slot.batch);
    return status;
}

void sample_reader_release(struct sample_reader *reader, const struct batch *batch)
{
    struct loader *loader = reader->loader;
    static_assert(offsetof(struct sample_slot, slot) == 0 && offsetof(struct load_slot, batch) == 0,
                  "a batch is where its slot is");
    struct sample_slot *slot = (struct sample_slot *)(uintptr_t)batch;
    slot_clear(loader, &slot->slot);
    pthread_mutex_lock(&loader->mutex);
    slot_release_memory(&slot->slot);
    pthread_mutex_unlock(&loader->mutex);
    if (slot->data_bytes > KEPT_BYTES_MAX) {
        free(slot->data);
        slot->data = NULL;
        slot->data_bytes = 0;
    }
    pthread_mutex_lock(&reader->mutex);
    slot->next = reader->free_slots;
    reader->free_slots = slot;
    pthread_mutex_unlock(&reader->mutex);
}
