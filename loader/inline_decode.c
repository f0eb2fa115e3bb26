/*
 * inline_decode — samples that nobody decodes, out of the page cache: reads that are complete as
 * soon as they are asked for.
 *
 * Such a read is a copy that the kernel makes while it takes the request, and of the work that is
 * left the CRC is most. So the reader does the workers' part too, a slice of SLICE_BYTES after the
 * other: what it has just copied lies in its own CPU's cache, out of which a worker on another
 * would have to fetch it, and waking that costs more than the CRC. And since there is nothing to
 * wait for, it begins no more than ahead_inline before they are wanted, for a copy into memory
 * that is in the cache costs half of one into memory that is not. Nor does it copy what nobody
 * wants between two pieces, for one request instead of two.
 *
 * That holds once STEADY_BYTES have come so, and until a read has to be waited for: then all goes
 * as in decode_stage.c. A sample that does not verify is left to a worker, which looks for a
 * substitute.
 */
#include "loader/state.h"

#include "base/bytes.h"

enum {
    STEADY_BYTES = 8 << 20,
    GAP_BYTES = 8 << 10, /* copied in the time that one more request takes */
    SLICE_BYTES =
        256 << 10, /* with what it is copied from, well within the second-level cache of a core */
};

bool inline_decode_is_steady(const struct loader *loader)
{
    return loader->inline_decode_bytes >= STEADY_BYTES;
}

uint64_t inline_decode_slice_bytes(const struct loader *loader)
{
    return inline_decode_is_steady(loader) ? SLICE_BYTES : UINT64_MAX;
}

uint64_t inline_decode_gap_bytes(const struct loader *loader)
{
    return inline_decode_is_steady(loader) ? bytes_min(GAP_BYTES, loader->merge_gap_bytes)
                                           : loader->merge_gap_bytes;
}

void inline_decode_note(struct loader *loader, uint64_t bytes, bool all_came)
{
    loader->inline_decode_bytes = all_came ? loader->inline_decode_bytes + bytes : 0;
}

/* True where nothing is left to do for the item; false: it is bad. */
static bool decode_item(const struct loader *loader, const struct load_work *work)
{
    struct load_slot *slot = work->slot;
    const struct load_item *load = &slot->loads[work->item];
    const struct load_piece *pieces = &slot->pieces[(size_t)work->item * loader->pieces_max];
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

/* With mutex, which it lets go while it works, and before it wakes the consumer. */
static void decode_group(struct loader *loader)
{
    struct load_work group[LOADER_GROUP_ITEMS];
    bool is_done[LOADER_GROUP_ITEMS];
    uint32_t count = decode_stage_take(loader, group);
    pthread_mutex_unlock(&loader->mutex);
    for (uint32_t i = 0; i < count; i++)
        is_done[i] = decode_item(loader, &group[i]);
    pthread_mutex_lock(&loader->mutex);
    for (uint32_t i = 0; i < count; i++) {
        if (is_done[i])
            decode_stage_finish(loader, &group[i]);
        else
            decode_stage_give_back(loader, &group[i]);
    }
    if (group[0].slot->items_left > 0 || !slot_note_ready(loader, group[0].slot))
        return;
    pthread_mutex_unlock(&loader->mutex);
    pthread_cond_signal(&loader->consumer_wake);
    pthread_mutex_lock(&loader->mutex);
}

void inline_decode_decode(struct loader *loader)
{
    pthread_mutex_lock(&loader->mutex);
    uint64_t end = loader->work_next; /* behind it stands what was given back */
    while (!loader->stop && loader->work_first < end)
        decode_group(loader);
    pthread_mutex_unlock(&loader->mutex);
}
