/*
 * read_ahead — decides how far the reader runs ahead of the consumer, and begins micro-batches.
 */
#include "loader/state.h"

#include "base/clock.h"

/* Requires the mutex. True if nothing is read ahead and the consumer will release nothing while
 * it waits. */
static bool is_only_progress(const struct loader *loader)
{
    return loader->taken == loader->planned &&
           (loader->consumer.waits || loader->released == loader->planned);
}

/* Requires the mutex. Returns the share of the process's open files that the next micro-batch may
 * use: most if the consumer is out of micro-batches, otherwise half. */
static enum open_files_share share_of(const struct loader *loader)
{
    return loader->taken == loader->planned ? OPEN_FILES_MOST : OPEN_FILES_HALF;
}

/* Requires the mutex. True if the next micro-batch ran out of files and would do so again. */
static bool lacks_files(const struct loader *loader)
{
    const struct reader *reader = &loader->reader;
    return reader->released_short == loader->released && share_of(loader) <= reader->share_short &&
           !is_only_progress(loader);
}

bool reader_may_begin(const struct loader *loader)
{
    const struct reader *reader = &loader->reader;
    return loader->planned - loader->released < loader->slots_count && !lacks_files(loader) &&
           loader->planned - loader->taken <
               (inline_decode_is_steady(reader) ? reader->ahead_inline : reader->ahead_max);
}

void reader_note_slots(struct loader *loader)
{
    struct reader *reader = &loader->reader;
    if (reader->block != LOAD_NO_SLOT || !reader_may_begin(loader))
        return;
    reader->block = LOAD_RUNNING;
    stats_update_full(loader);
    reader_wake(reader);
}

void reader_note_idle(struct loader *loader)
{
    struct reader *reader = &loader->reader;
    if (reader->block == LOAD_NO_SLOT && !inline_decode_is_steady(reader) && !lacks_files(loader) &&
        loader->planned - loader->released < loader->slots_count)
        reader->is_starved = true;
}

void reader_end_run(struct loader *loader, struct load_slot *slot, const struct err *why)
{
    slot_fail(slot, 0, why);
    loader->reader.plan_ended = true;
    slot_set_ready(loader, slot);
}

/* ---- Beginning a micro-batch. ---- */

/* Requires the mutex. Queues items that need no reading. */
static void add_complete_items(struct loader *loader, struct load_slot *slot)
{
    if (slot->chunks_left == 0)
        slot->read_done_ns = clock_now_ns();
    for (uint32_t i = 0; i < slot->batch.items_count; i++)
        if (slot->loads[i].pending == 0)
            decode_pool_add(&loader->pool, slot, i);
    if (slot->batch.items_count > 0)
        return;
    slot_acquire_memory(loader, slot);
    slot_set_ready(loader, slot);
}

/* State before a micro-batch is begun, restored if it runs out of files. */
struct attempt {
    struct plan plan;
    uint64_t released;
    enum open_files_share share;
};

/* Postpones a micro-batch that ran out of files until an earlier one is released or its share
 * grows. False: neither can happen. */
static bool defer_slot(struct loader *loader, struct load_slot *slot, const struct attempt *before)
{
    struct reader *reader = &loader->reader;
    pthread_mutex_lock(&loader->mutex);
    bool can_have_more = loader->released != before->released || share_of(loader) > before->share;
    bool waits = can_have_more || !is_only_progress(loader);
    if (waits) {
        reader->released_short = before->released;
        reader->share_short = before->share;
        reader->block = reader_may_begin(loader) ? LOAD_RUNNING : LOAD_NO_SLOT;
        stats_update_full(loader);
    }
    pthread_mutex_unlock(&loader->mutex);
    if (!waits)
        return false;
    slot_clear(loader, slot);
    reader->plan = before->plan;
    return true;
}

struct load_slot *reader_begin_slot(struct loader *loader)
{
    struct reader *reader = &loader->reader;
    pthread_mutex_lock(&loader->mutex);
    reader->block = reader->plan_ended         ? LOAD_DONE
                    : reader_may_begin(loader) ? LOAD_RUNNING
                                               : LOAD_NO_SLOT;
    enum load_block block = reader->block;
    if (loader->pool.idle)
        reader_note_idle(loader);
    stats_update_full(loader);
    const struct attempt before = {
        .plan = reader->plan, .released = loader->released, .share = share_of(loader)};
    uint64_t merge_gap_bytes = inline_decode_gap_bytes(reader);
    pthread_mutex_unlock(&loader->mutex);
    if (block != LOAD_RUNNING)
        return NULL;
    struct plan_micro micro;
    if (!plan_next(&reader->plan, &micro)) {
        pthread_mutex_lock(&loader->mutex);
        reader->plan_ended = true;
        reader->block = LOAD_DONE;
        if (loader->consumer.waits)
            pthread_cond_signal(&loader->consumer.wake);
        pthread_mutex_unlock(&loader->mutex);
        return NULL;
    }
    struct load_slot *slot = loader_slot(loader, loader->planned);
    uint64_t first, stride;
    uint32_t items = plan_items(&reader->plan, &micro, &first, &stride);
    slot_begin(slot, &micro, items);
    slot->merge_gap_bytes = merge_gap_bytes;
    struct err err;
    uint64_t began_ns = trace_begin(reader->track);
    int status = read_plan_slot(loader, slot, first, stride, before.share, &err);
    trace_end_with(reader->track, "plan", began_ns, "items", items);
    if (shard_cache_is_short_of_files(status) && defer_slot(loader, slot, &before))
        return NULL;
    pthread_mutex_lock(&loader->mutex);
    loader->planned++;
    if (status)
        reader_end_run(loader, slot, &err);
    else
        add_complete_items(loader, slot);
    pthread_mutex_unlock(&loader->mutex);
    return status ? NULL : slot;
}
