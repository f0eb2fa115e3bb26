/*
 * read_plan — turns a micro-batch's positions into reads: looks up samples and merges
 * neighboring pieces.
 */
#include "loader/state.h"

#include "base/bytes.h"

#include <stdint.h>

static const uint8_t no_bytes[1]; /* data of empty fields */

int read_plan_item(struct loader *loader, struct load_slot *slot, uint32_t i,
                   enum open_files_fraction share, struct err *err)
{
    struct load_item *load = &slot->load_items[i];
    struct batch_item *item = &slot->items[i];
    const struct view *view = loader_source_of(loader, item->ref)->view;
    load->location = view_locate(view, item->ref);
    item->window = load->location.window;
    int status = shard_cache_get(loader->cache, load->location.shard, share, &load->shard, err);
    if (status) {
        load->shard = NULL;
        return status;
    }
    item->key = shard_index_key(load->shard->index, load->location.member, &item->key_bytes);
    struct load_piece *pieces = loader_pieces(loader, slot, i);
    struct view_piece views[SHARD_FIELDS_MAX];
    uint32_t count;
    status = view_pieces(view, load->shard, load->location, item->ref, views, &count, err);
    if (status)
        return status;
    load->pieces_count = count;
    for (uint32_t k = 0; k < count; k++) {
        pieces[k] = (struct load_piece){.view = views[k], .slot = slot, .item = i};
        pieces[k].view.data = no_bytes;
        load->pieces_left += views[k].read_bytes > 0;
    }
    slot->pieces_left += load->pieces_left;
    return 0;
}

int read_plan_items(struct loader *loader, struct load_slot *slot, uint64_t first, uint64_t stride,
                    enum open_files_fraction share, struct err *err)
{
    uint32_t epoch = slot->micro.epoch;
    uint64_t samples = loader->order.samples;
    for (uint32_t i = 0; i < slot->batch.items_count; i++) {
        struct batch_item *item = &slot->items[i];
        item->position = first + i * stride;
        item->is_padding = item->position >= samples;
        item->ref = sampler_at(loader->reader.sampler, epoch, item->position % samples);
        if (!item->is_padding) {
            slot->set_digest += digest_set_term(item->ref);
            slot->sequence_digest += digest_sequence_term(epoch, item->position, item->ref);
        }
        struct err why = {0};
        int status = read_plan_item(loader, slot, i, share, &why);
        if (status && item_failure_is_fatal(status)) {
            *err = why;
            return status;
        }
        if (status)
            slot_note_bad(slot, i, &why);
    }
    return 0;
}

static void list_extents(struct loader *loader, const struct load_slot *slot)
{
    struct reader *reader = &loader->reader;
    reader->extents_count = 0;
    for (uint32_t i = 0; i < slot->batch.items_count; i++) {
        const struct load_item *load = &slot->load_items[i];
        struct load_piece *pieces = loader_pieces(loader, slot, i);
        for (uint32_t k = 0; k < load->pieces_count; k++) {
            const struct view_piece *view = &pieces[k].view;
            if (view->read_bytes > 0 && !pieces[k].chunk)
                reader->extents[reader->extents_count++] =
                    (struct extent){.shard = load->location.shard,
                                    .begin = view->read_offset,
                                    .end = view->read_offset + view->read_bytes,
                                    .sample = i,
                                    .user = &pieces[k]};
        }
    }
}

void read_plan_chunks(struct loader *loader, struct load_slot *slot, uint64_t gap_bytes_max)
{
    struct reader *reader = &loader->reader;
    struct extent_limits limits = {.bytes_max = reader->chunk_bytes_max,
                                   .same_sample_gap_bytes = LOADER_SAMPLE_GAP_BYTES};
    list_extents(loader, slot);
    extents_sort(reader->extents, reader->extents_count);
    for (uint32_t i = 0, count; i < reader->extents_count; i += count) {
        const struct extent *extents = &reader->extents[i];
        const struct load_piece *first = extents[0].user;
        const struct load_source *source = loader_source_of(loader, slot->items[first->item].ref);
        uint64_t end;
        limits.gap_bytes = bytes_min(gap_bytes_max, source->gap_bytes_max);
        count = extents_merge(extents, reader->extents_count - i, &limits, &end);
        struct load_chunk *chunk = chunk_plan(reader, slot->load_items[first->item].shard,
                                              extents[0].shard, extents[0].begin, end);
        for (uint32_t k = 0; k < count; k++)
            chunk_join(chunk, extents[k].user);
    }
}
