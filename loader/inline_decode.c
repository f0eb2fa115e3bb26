/*
 * inline_decode — verifies samples that need no decoding on the reader's thread, as long as reads
 * complete at submission (from the page cache).
 *
 * The kernel copies the bytes during submission, so most of the remaining work is the CRC, which
 * costs less than waking a worker. The reader computes it per SLICE_BYTES, while the bytes are in
 * its CPU's cache. It stays within inline_ahead_max micro-batches, because copying into cached
 * memory costs half as much. It merges reads only across gaps of up to GAP_BYTES.
 *
 * This mode starts after STEADY_BYTES have completed at submission and ends with the first read
 * that does not. A worker replaces samples that fail verification.
 */
#include "loader/state.h"

enum {
    STEADY_BYTES = 8 << 20,
    GAP_BYTES = 8 << 10, /* copying this much costs as much as one request */
    /* fits in a core's L2 cache together with its source */
    SLICE_BYTES = 256 << 10,
};

bool reader_is_cached(const struct reader *reader)
{
    return reader->inline_bytes >= STEADY_BYTES;
}

bool inline_decode_is_steady(const struct reader *reader)
{
    return reader->decodes_inline && reader_is_cached(reader);
}

uint64_t inline_decode_slice_bytes(const struct reader *reader)
{
    return inline_decode_is_steady(reader) ? SLICE_BYTES : UINT64_MAX;
}

uint64_t inline_decode_gap_bytes_max(const struct reader *reader)
{
    return inline_decode_is_steady(reader) ? GAP_BYTES : UINT64_MAX;
}

void inline_decode_note(struct reader *reader, uint64_t bytes, bool all_completed)
{
    reader->inline_bytes = all_completed ? reader->inline_bytes + bytes : 0;
}

/* False if the item is bad and a worker must handle it. */
static bool decode_item(const struct loader *loader, const struct load_work *work)
{
    struct load_slot *slot = work->slot;
    const struct load_item *load = &slot->load_items[work->item];
    const struct load_piece *pieces = loader_pieces(loader, slot, work->item);
    struct view_piece views[SHARD_FIELDS_MAX];
    struct err err;
    if (load->is_bad || load->has_failed)
        return load->has_failed;
    for (uint32_t i = 0; i < load->pieces_count; i++)
        views[i] = pieces[i].view;
    if (!item_decode_bytes(loader, slot, work->item, load->shard, views, load->pieces_count, &err))
        return true;
    slot_note_bad(slot, work->item, &err);
    return false;
}

/* Requires the mutex; unlocks it while decoding and before waking the consumer. */
static void decode_group(struct loader *loader)
{
    struct load_work group[LOADER_GROUP_ITEMS_MAX];
    bool is_done[LOADER_GROUP_ITEMS_MAX];
    uint32_t count = decode_pool_take(loader, group);
    pthread_mutex_unlock(&loader->mutex);
    for (uint32_t i = 0; i < count; i++)
        is_done[i] = decode_item(loader, &group[i]);
    pthread_mutex_lock(&loader->mutex);
    for (uint32_t i = 0; i < count; i++) {
        if (is_done[i])
            decode_pool_finish(loader, &group[i]);
        else
            decode_pool_requeue(&loader->pool, &group[i]);
    }
    if (group[0].slot->items_left > 0 || !slot_note_ready(loader, group[0].slot))
        return;
    pthread_mutex_unlock(&loader->mutex);
    pthread_cond_signal(&loader->consumer.wake);
    pthread_mutex_lock(&loader->mutex);
}

void inline_decode_run(struct loader *loader)
{
    struct decode_pool *pool = &loader->pool;
    pthread_mutex_lock(&loader->mutex);
    uint64_t end = pool->work_next; /* excludes items requeued below */
    while (!loader->stop && pool->work_first < end)
        decode_group(loader);
    pthread_mutex_unlock(&loader->mutex);
}
