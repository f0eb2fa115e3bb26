/*
 * read_ahead — decides how far the reader runs ahead of the consumer, and begins micro-batches.
 */
#include "loader/state.h"

#include "base/clock.h"

#include <errno.h>

/* Micro-batches for which memory beyond the budget is allocated: the next one, and one ahead. */
enum { GROW_AHEAD = 2 };

/* Requires the mutex. True if nothing is read ahead and the consumer will release nothing while
 * it waits. */
static bool has_nothing_to_release(const struct loader *loader)
{
    return loader->taken == loader->planned &&
           (loader->consumer.is_waiting || loader->released == loader->planned);
}

/* Requires the mutex. Returns the share of the process's open files that the next micro-batch may
 * use: most if the consumer is out of micro-batches, otherwise half. */
static enum open_files_fraction next_files_share(const struct loader *loader)
{
    return loader->taken == loader->planned ? OPEN_FILES_SEVEN_EIGHTHS : OPEN_FILES_HALF;
}

/* Requires the mutex. True if the next micro-batch ran out of files and would do so again. */
static bool lacks_files(const struct loader *loader)
{
    const struct reader *reader = &loader->reader;
    return reader->emfile_releases == loader->releases_count &&
           next_files_share(loader) <= reader->emfile_share && !has_nothing_to_release(loader);
}

/* Requires the mutex. True if no micro-batch is ahead of the consumer. */
static bool is_starved(const struct loader *loader)
{
    return loader->taken == loader->planned;
}

bool reader_may_grow(const struct loader *loader)
{
    return loader->options.keep == LOADER_KEEP_GROW && !loader->reader.lacks_memory &&
           loader->planned - loader->taken < GROW_AHEAD;
}

/* Requires the mutex. True if the caller keeps ragged fields of released batches. */
static bool keeps_ragged_fields(const struct loader *loader)
{
    uint64_t batches = loader->planned - loader->releases_count;
    return loader->ragged.used_count > batches * loader->ragged.fields_count;
}

/* Requires the mutex. True if ragged fields of the next micro-batch may use memory beyond the
 * budget. Fields of batches that the caller holds are no reason, unless it releases none of them
 * and waits. */
static bool may_grow_ragged(const struct loader *loader)
{
    return reader_may_grow(loader) &&
           (keeps_ragged_fields(loader) || (is_starved(loader) && loader->consumer.is_waiting));
}

/* Requires the mutex. True if the next micro-batch found no memory for its ragged fields and would
 * not find any now. */
static bool lacks_ragged_memory(const struct loader *loader)
{
    const struct reader *reader = &loader->reader;
    return reader->ragged_releases == loader->ragged.releases_count &&
           is_starved(loader) <= reader->ragged_was_starved &&
           may_grow_ragged(loader) <= reader->ragged_could_grow;
}

bool reader_can_begin_slot(const struct loader *loader)
{
    const struct reader *reader = &loader->reader;
    return (batch_memories_are_available(loader) || reader_may_grow(loader)) &&
           loader->planned - loader->released < loader->slots_count && !lacks_files(loader) &&
           !lacks_ragged_memory(loader) &&
           loader->planned - loader->taken <
               (inline_decode_is_steady(reader) ? reader->inline_ahead_max : reader->ahead_max);
}

void reader_unblock(struct loader *loader)
{
    struct reader *reader = &loader->reader;
    if (reader->state != READER_NO_SLOT || !reader_can_begin_slot(loader))
        return;
    reader->state = READER_RUNNING;
    stats_update_consumer_stall(loader);
    reader_wake(reader);
}

void reader_note_idle_worker(struct loader *loader)
{
    struct reader *reader = &loader->reader;
    if (reader->state == READER_NO_SLOT && !inline_decode_is_steady(reader) &&
        !lacks_files(loader) && loader->planned - loader->released < loader->slots_count)
        reader->has_idled_worker = true;
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
    if (slot->pieces_left == 0)
        slot->read_done_ns = clock_now_ns();
    for (uint32_t i = 0; i < slot->batch.items_count; i++)
        if (slot->load_items[i].pieces_left == 0)
            decode_pool_add(&loader->pool, slot, i);
    if (slot->batch.items_count > 0)
        return;
    slot_acquire_memory(loader, slot);
    struct err err;
    if (ragged_finish(loader, slot, &err)) /* allocates nothing without items */
        slot_fail(slot, 0, &err);
    slot_set_ready(loader, slot);
}

/* State before a micro-batch is begun. The plan is restored if it runs out of files or memory. */
struct plan_snapshot {
    struct plan plan;
    uint64_t releases_count, ragged_releases;
    uint64_t gap_bytes_max;
    enum open_files_fraction share;
    bool is_starved, may_grow; /* for ragged fields */
};

/* Postpones a micro-batch that ran out of files until an earlier one is released or its share
 * grows. False: neither can happen. */
static bool defer_slot(struct loader *loader, struct load_slot *slot,
                       const struct plan_snapshot *before)
{
    struct reader *reader = &loader->reader;
    pthread_mutex_lock(&loader->mutex);
    bool may_succeed_now = loader->releases_count != before->releases_count ||
                           next_files_share(loader) > before->share;
    bool waits = may_succeed_now || !has_nothing_to_release(loader);
    if (waits) {
        reader->emfile_releases = before->releases_count;
        reader->emfile_share = before->share;
        reader->state = reader_can_begin_slot(loader) ? READER_RUNNING : READER_NO_SLOT;
        stats_update_consumer_stall(loader);
    }
    pthread_mutex_unlock(&loader->mutex);
    if (!waits)
        return false;
    slot_clear(loader, slot);
    reader->plan = before->plan;
    return true;
}

/* Postpones a micro-batch without memory for its ragged fields until an earlier one is released,
 * until none is ahead of the consumer, or until it may grow the loader. */
static void defer_without_memory(struct loader *loader, struct load_slot *slot,
                                 const struct plan_snapshot *before, const struct err *why)
{
    struct reader *reader = &loader->reader;
    slot_clear(loader, slot);
    reader->plan = before->plan;
    pthread_mutex_lock(&loader->mutex);
    reader->ragged_releases = before->ragged_releases;
    reader->ragged_was_starved = before->is_starved;
    reader->ragged_could_grow = before->may_grow;
    reader->state = reader_can_begin_slot(loader) ? READER_RUNNING : READER_NO_SLOT;
    if (reader->state == READER_NO_SLOT && is_starved(loader) &&
        loader->options.keep == LOADER_KEEP_ERROR) {
        reader->lacks_memory = true;
        reader->lacks_memory_err = *why;
        pthread_cond_signal(&loader->consumer.wake);
    }
    stats_update_consumer_stall(loader);
    pthread_mutex_unlock(&loader->mutex);
}

/* Allocates memory for a micro-batch beyond the budget. False: out of memory, which loader_next
 * reports. */
static bool grow(struct loader *loader)
{
    struct reader *reader = &loader->reader;
    struct err err = {0};
    int status = batch_memories_grow(loader, &err);
    pthread_mutex_lock(&loader->mutex);
    if (status) {
        reader->lacks_memory = true;
        reader->lacks_memory_err = err;
        reader->state = READER_NO_SLOT;
        pthread_cond_signal(&loader->consumer.wake);
    }
    pthread_mutex_unlock(&loader->mutex);
    return !status;
}

static void end_plan(struct loader *loader)
{
    struct reader *reader = &loader->reader;
    pthread_mutex_lock(&loader->mutex);
    reader->plan_ended = true;
    reader->state = READER_DONE;
    if (loader->consumer.is_waiting)
        pthread_cond_signal(&loader->consumer.wake);
    pthread_mutex_unlock(&loader->mutex);
}

/* Plans a micro-batch's items, memory and reads. *ret_is_deferred: plan it again later. */
static int plan_slot(struct loader *loader, struct load_slot *slot, const struct plan_micro *micro,
                     const struct plan_snapshot *before, bool *ret_is_deferred, struct err *err)
{
    struct reader *reader = &loader->reader;
    uint64_t first, stride;
    uint32_t items = plan_item_positions(&reader->plan, micro, &first, &stride);
    slot_begin(slot, micro, items);
    uint64_t began_ns = trace_begin(reader->track);
    int status = read_plan_items(loader, slot, first, stride, before->share, err);
    *ret_is_deferred = shard_cache_is_short_of_files(status) && defer_slot(loader, slot, before);
    if (!status) {
        status = ragged_alloc(loader, slot, before->is_starved, before->may_grow, err);
        *ret_is_deferred = status == -EAGAIN;
        if (status == -EAGAIN)
            defer_without_memory(loader, slot, before, err);
    }
    if (!status) {
        long_reads_plan(loader, slot);
        read_plan_chunks(loader, slot, before->gap_bytes_max);
    }
    trace_end_with_value(reader->track, "plan", began_ns, "items", items);
    return status;
}

bool reader_begin_slot(struct loader *loader)
{
    struct reader *reader = &loader->reader;
    pthread_mutex_lock(&loader->mutex);
    reader->state = reader->plan_ended              ? READER_DONE
                    : reader_can_begin_slot(loader) ? READER_RUNNING
                                                    : READER_NO_SLOT;
    enum reader_state state = reader->state;
    if (loader->pool.idle)
        reader_note_idle_worker(loader);
    stats_update_consumer_stall(loader);
    const struct plan_snapshot before = {.plan = reader->plan,
                                         .releases_count = loader->releases_count,
                                         .ragged_releases = loader->ragged.releases_count,
                                         .gap_bytes_max = inline_decode_gap_bytes_max(reader),
                                         .share = next_files_share(loader),
                                         .is_starved = is_starved(loader),
                                         .may_grow = may_grow_ragged(loader)};
    bool grows = !batch_memories_are_available(loader);
    chunk_pool_reclaim(&reader->chunks);
    pthread_mutex_unlock(&loader->mutex);
    if (state != READER_RUNNING || (grows && !grow(loader)))
        return false;
    struct plan_micro micro;
    if (!plan_next(&reader->plan, &micro)) {
        end_plan(loader);
        return false;
    }
    struct load_slot *slot = loader_slot(loader, loader->planned);
    struct err err;
    bool is_deferred;
    int status = plan_slot(loader, slot, &micro, &before, &is_deferred, &err);
    if (is_deferred)
        return false;
    struct plan rest = reader->plan;
    bool is_last = !plan_next(&rest, &micro);
    pthread_mutex_lock(&loader->mutex);
    loader->planned++;
    reader->plan_ended = reader->plan_ended || is_last;
    batch_memories_reserve(loader);
    if (status) {
        reader_end_run(loader, slot, &err);
    } else {
        add_complete_items(loader, slot);
        long_reads_commit(loader, slot);
    }
    bool decodes = inline_decode_is_steady(reader);
    pthread_mutex_unlock(&loader->mutex);
    if (decodes)
        inline_decode_run(loader);
    return !status;
}
