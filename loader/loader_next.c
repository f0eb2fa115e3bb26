/*
 * loader_next — the consumer's side of loader.h. See loader_open.c for opening and closing.
 */
#include "loader/state.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- Batches. ---- */

static int fail(struct loader *loader, struct err *err)
{
    struct consumer *consumer = &loader->consumer;
    consumer->failure = consumer->failure_err.code;
    if (err)
        *err = consumer->failure_err;
    return consumer->failure;
}

static void advise_repair(struct err *err, const char *dataset)
{
    err_advise(err,
               "repair the data (`millrace verify %.120s --decode` lists all bad samples), or "
               "raise the limit",
               dataset);
}

int loader_check_bad_fraction(const struct loader *loader, double fraction_max, uint64_t bad_count,
                              uint64_t delivered_count, struct err *err)
{
    uint64_t epoch = loader->order.samples,
             base_count = delivered_count > epoch ? delivered_count : epoch;
    uint64_t left_out = loader->stats.left_out_count; /* constant once open */
    double allowed = fraction_max * (double)base_count;
    if (fraction_max >= 1 || (double)bad_count + (double)left_out <= (allowed > 1 ? allowed : 1))
        return 0;
    err_set(err, -EBADMSG, "too many bad samples");
    err_expected(
        err, "at most %g %% of the samples per epoch, or of the samples delivered if that is more",
        fraction_max * 100);
    char tar_text[64] = "";
    if (left_out > 0)
        snprintf(tar_text, sizeof tar_text, ", %" PRIu64 " left out of damaged tars", left_out);
    err_found(err, "%" PRIu64 " bad%s, %" PRIu64 " delivered, %" PRIu64 " per epoch", bad_count,
              tar_text, delivered_count, epoch);
    advise_repair(err, loader->sources_count > 1 ? "DATASET" : loader->sources[0].dataset->path);
    return -EBADMSG;
}

/* Logs number and file as well as the key, because the key is unknown if the index is damaged. */
static void log_bad(const struct loader *loader, const struct load_item *load,
                    const struct batch_item *item)
{
    char path[IO_PATH_BYTES_MAX] = "", instead[64] = "left out";
    shard_cache_path(loader->cache, load->location.shard, path, NULL);
    if (!item->skipped)
        snprintf(instead, sizeof instead, "sample %" PRIu64 " is used instead", load->substitute);
    log_line(loader->options.log, LOG_WARN, "bad sample \"%.*s\" (%" PRIu64 ") in %s: %s; %s",
             (int)bytes_min(item->key_bytes, 300), item->key ? item->key : "", item->ref.sample,
             path, load->reason, instead);
}

/* Lists, logs and counts the batch's bad samples. -EBADMSG: too many. */
static int note_bad_samples(struct loader *loader, const struct load_slot *slot, struct err *err)
{
    struct consumer *consumer = &loader->consumer;
    const struct load_item *last = NULL;
    uint32_t bad = 0, last_item = 0;
    for (uint32_t i = 0; i < slot->batch.items_count; i++) {
        const struct load_item *load = &slot->load_items[i];
        const struct batch_item *item = &slot->items[i];
        if (!load->is_bad)
            continue;
        bad++;
        last = load;
        last_item = i;
        log_bad(loader, load, item);
        if (consumer->quarantine_count == LOADER_QUARANTINE_MAX)
            continue;
        char *reason = consumer->reasons[consumer->quarantine_count];
        memcpy(reason, load->reason, LOADER_REASON_BYTES);
        consumer->quarantine[consumer->quarantine_count++] = (struct loader_bad_sample){
            .ref = item->ref, .substitute = load->substitute, .reason = reason};
    }
    if (!last)
        return 0;
    pthread_mutex_lock(&loader->mutex);
    uint64_t total = loader->stats.bad_samples_count += bad,
             delivered = loader->stats.samples_count;
    pthread_mutex_unlock(&loader->mutex);
    struct err *own = &consumer->failure_err;
    if (!loader_check_bad_fraction(loader, loader->options.bad_fraction_max, total, delivered, own))
        return 0;
    char path[IO_PATH_BYTES_MAX] = "";
    const struct batch_item *item = &slot->items[last_item];
    shard_cache_path(loader->cache, last->location.shard, path, NULL);
    snprintf(own->what, sizeof own->what, "too many bad samples; the last is \"%.*s\": %.120s",
             (int)bytes_min(item->key_bytes, 80), item->key ? item->key : "", last->reason);
    err_at(own, path, last->bad_offset);
    advise_repair(own, loader_source_of(loader, item->ref)->dataset->path);
    return fail(loader, err);
}

/* Adds the batch to digests and counts; advances the cursors. */
static void advance_cursors(struct loader *loader, const struct load_slot *slot)
{
    struct consumer *consumer = &loader->consumer;
    const struct plan_micro *micro = &slot->micro;
    for (uint32_t i = 0; i < slot->batch.items_count; i++)
        loader->datasets[slot->items[i].ref.dataset].delivered_count += !slot->items[i].is_padding;
    consumer->set_digest += slot->set_digest;
    consumer->sequence_digest += slot->sequence_digest;
    if (!micro->is_resumable)
        return;
    struct cursor *cursor = &consumer->cursor_in_step;
    cursor->epoch = micro->next_epoch;
    cursor->position = micro->next_position;
    cursor->micros_done = micro->next_micros_done;
    cursor->set_digest = consumer->set_digest;
    cursor->sequence_digest = consumer->sequence_digest;
    if (micro->last_of_step)
        consumer->cursor = *cursor;
}

/* Requires the mutex. Returns the memory beyond the budget (options.keep). */
static uint64_t beyond_bytes(const struct loader *loader)
{
    uint64_t bytes = loader->ragged.beyond_bytes;
    for (uint32_t kind = 0; kind < BATCH_MEMORY_KINDS; kind++) {
        const struct batch_memories *memories = &loader->memories[kind];
        if (memories->count > loader->slots_count)
            bytes += (memories->count - loader->slots_count) * memories->bytes;
    }
    return bytes;
}

/* Logs when memory beyond the budget is first used, and whenever it has doubled. */
static void warn_about_growth(struct loader *loader, uint64_t bytes)
{
    struct consumer *consumer = &loader->consumer;
    if (bytes == 0 || bytes < 2 * consumer->growth_reported)
        return;
    char size[STR_SIZE_BYTES];
    consumer->growth_reported = bytes;
    log_line(loader->options.log, LOG_WARN,
             "the caller keeps so many batches or fields that the loader uses %s beyond its memory "
             "budget",
             str_format_size(bytes, size));
}

/* Requires the mutex. True if the next batch needs the memory of the oldest that is held. */
static bool is_out_of_batches(const struct loader *loader)
{
    return loader->taken - loader->released == loader->slots_count;
}

/* Requires the mutex. */
static int batch_held_error(const struct loader *loader, struct err *err)
{
    if (loader->taken - loader->releases_count == loader->slots_count)
        err_set(err, -ENOBUFS, "the consumer holds all batches of the loader");
    else
        err_set(err, -ENOBUFS, "the consumer still holds the batch before the last %" PRIu32,
                loader->slots_count - 1);
    err_expected(err, "at most %" PRIu32 " at a time", loader->slots_count - 1);
    err_advise(err, "release a batch before requesting the next");
    return -ENOBUFS;
}

int loader_next(struct loader *loader, const struct batch **ret_batch, struct err *err)
{
    struct consumer *consumer = &loader->consumer;
    if (consumer->failure)
        return fail(loader, err);
    pthread_mutex_lock(&loader->mutex);
    if (is_out_of_batches(loader)) {
        int status = batch_held_error(loader, err);
        pthread_mutex_unlock(&loader->mutex);
        return status;
    }
    struct err why = {0};
    int waited = loader_has_next(loader) ? 0 : loader_wait(loader, &why);
    if (waited != -EINTR)
        consumer->wait_begin_ns = 0;
    if (waited) {
        pthread_mutex_unlock(&loader->mutex);
        if (waited == -EINTR || waited == -ENOBUFS) {
            if (err)
                *err = why;
            return waited;
        }
        consumer->failure_err = why;
        return fail(loader, err);
    }
    if (loader->taken == loader->planned) {
        pthread_mutex_unlock(&loader->mutex);
        return LOADER_END;
    }
    struct load_slot *slot = loader_slot(loader, loader->taken);
    bool has_failed = slot->failed_item != UINT32_MAX;
    if (!has_failed) {
        loader->taken++;
        loader->stats.batches_count += slot->batch.items_count > 0;
        if (loader->stats.first_batch_ns == 0)
            loader->stats.first_batch_ns = clock_now_ns() - loader->opened_ns;
        loader->stats.samples_count += slot->batch.items_count;
        reader_unblock(loader);
    }
    uint64_t growth_bytes = beyond_bytes(loader);
    pthread_mutex_unlock(&loader->mutex);
    warn_about_growth(loader, growth_bytes);
    if (has_failed) {
        consumer->failure_err = slot->err;
        return fail(loader, err);
    }
    int status = note_bad_samples(loader, slot, err);
    if (status) {
        loader_release(loader, &slot->batch);
        return status;
    }
    advance_cursors(loader, slot);
    *ret_batch = &slot->batch;
    return LOADER_BATCH;
}

bool loader_ready(struct loader *loader)
{
    pthread_mutex_lock(&loader->mutex);
    bool is_ready = loader->consumer.failure || loader_has_next(loader);
    if (!is_ready)
        loader_note_underrun(loader);
    pthread_mutex_unlock(&loader->mutex);
    return is_ready;
}

void loader_note_release(struct loader *loader)
{
    loader->reader.lacks_memory = false;
    loader->ragged.releases_count++;
    if (loader->reader.state == READER_NO_SPACE)
        loader->reader.state = READER_RUNNING;
    reader_unblock(loader);
    stats_update_consumer_stall(loader);
    reader_wake(&loader->reader);
}

static struct load_slot *slot_of(const struct batch *batch)
{
    static_assert(offsetof(struct load_slot, batch) == 0, "a batch is where its slot is");
    return (struct load_slot *)batch;
}

void loader_retain(struct loader *loader, const struct batch *batch)
{
    (void)loader;
    atomic_fetch_add(&slot_of(batch)->references, 1);
}

void loader_release(struct loader *loader, const struct batch *batch)
{
    struct load_slot *slot = slot_of(batch);
    uint32_t items_count = batch->items_count, before = atomic_fetch_sub(&slot->references, 1);
    assert(before > 0);
    if (before > 1)
        return;
    slot_clear(loader, slot);
    pthread_mutex_lock(&loader->mutex);
    if (loader->options.decode == LOADER_BYTES)
        for (uint32_t i = 0; i < items_count; i++)
            slot_release_chunks(loader, slot, i);
    slot_release_memory(slot);
    slot->is_released = true;
    loader->releases_count++;
    while (loader->released < loader->taken && loader_slot(loader, loader->released)->is_released)
        loader_slot(loader, loader->released++)->is_released = false;
    loader_note_release(loader);
    loader_unlock_after_release(loader);
}

/* ---- Queries. ---- */

const struct batch_field *batch_field_named(const struct batch *batch, const char *name)
{
    for (uint32_t i = 0; i < batch->fields_count; i++)
        if (strcmp(batch->fields[i].name, name) == 0)
            return &batch->fields[i];
    return NULL;
}

struct cursor loader_cursor(const struct loader *loader)
{
    return loader->consumer.cursor;
}

struct cursor loader_cursor_in_step(const struct loader *loader)
{
    return loader->consumer.cursor_in_step;
}

struct loader_shape loader_shape(const struct loader *loader)
{
    return (struct loader_shape){.order = loader->order,
                                 .fingerprint = loader->consumer.cursor.fingerprint,
                                 .samples = loader->order.samples,
                                 .steps = loader->steps,
                                 .classes_count = loader->classes_count,
                                 .vocabulary = loader->schema.vocabulary,
                                 .document_end = loader->schema.document_end,
                                 .memory_bytes = loader->memory.allocated_bytes,
                                 .pixels_version =
                                     loader_geometries(loader) > 0 ? IMAGE_PIPELINE_VERSION : 0,
                                 .pixels_libraries = loader->pixels_libraries,
                                 .engine = loader->io->ops->name,
                                 .workers = loader->pool.workers_count};
}

const struct loader_schema *loader_schema(const struct loader *loader)
{
    return &loader->schema;
}

uint64_t loader_quarantine(const struct loader *loader, const struct loader_bad_sample **ret_list)
{
    const struct consumer *consumer = &loader->consumer;
    *ret_list = consumer->quarantine;
    return consumer->quarantine_count;
}
