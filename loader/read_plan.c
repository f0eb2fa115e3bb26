/*
 * read_plan — turns a micro-batch's positions into reads: looks up samples, sorts their pieces
 * in file order and merges neighbors.
 */
#include "loader/state.h"

#include <stdint.h>

static const uint8_t no_bytes[1]; /* data of empty fields */

static bool is_read_before(const struct sorted_piece *a, const struct sorted_piece *b)
{
    if (a->shard != b->shard)
        return a->shard < b->shard;
    return a->offset != b->offset ? a->offset < b->offset : a->piece < b->piece;
}

static void sift_down(struct sorted_piece *list, uint32_t root, uint32_t count)
{
    for (uint64_t child; (child = 2 * (uint64_t)root + 1) < count; root = (uint32_t)child) {
        if (child + 1 < count && is_read_before(&list[child], &list[child + 1]))
            child++;
        if (!is_read_before(&list[root], &list[child]))
            return;
        struct sorted_piece swapped = list[root];
        list[root] = list[child];
        list[child] = swapped;
    }
}

/* Heapsort, because qsort may allocate. */
static void sort_pieces(struct sorted_piece *list, uint32_t count)
{
    for (uint32_t root = count / 2; root-- > 0;)
        sift_down(list, root, count);
    for (uint32_t last = count; last-- > 1;) {
        struct sorted_piece swapped = list[0];
        list[0] = list[last];
        list[last] = swapped;
        sift_down(list, 0, last);
    }
}

/* True if the chunk ending at chunk_end may grow to `end`, the end of the next piece. The
 * chunk's size is limited, except that a small field may join a large one of the same sample. */
static bool fits_chunk(const struct loader *loader, const struct load_slot *slot,
                       const struct load_chunk *chunk, uint64_t chunk_end,
                       const struct load_piece *piece, uint64_t end)
{
    if (end <= chunk_end || end - chunk->request.offset <= loader->reader.chunk_bytes_max)
        return true;
    const struct load_piece *first = &slot->pieces[slot->sorted_pieces[chunk->first_piece].piece];
    return first->item == piece->item && end <= chunk_end + LOADER_MERGE_GAP_BYTES;
}

static void merge_into_chunks(const struct loader *loader, struct load_slot *slot)
{
    struct load_chunk *chunk = NULL;
    uint64_t chunk_shard = 0, chunk_end = 0;
    for (uint32_t i = 0; i < slot->sorted_pieces_count; i++) {
        const struct sorted_piece *order = &slot->sorted_pieces[i];
        struct load_piece *piece = &slot->pieces[order->piece];
        uint64_t begin = order->offset, end = begin + piece->view.read_bytes;
        bool joins = chunk && chunk_shard == order->shard &&
                     begin <= chunk_end + slot->merge_gap_bytes &&
                     fits_chunk(loader, slot, chunk, chunk_end, piece, end);
        if (!joins) {
            chunk = &slot->chunks[slot->chunks_count++];
            *chunk = (struct load_chunk){.slot = slot, .first_piece = i};
            chunk->request = (struct io_request){
                .kind = IO_READ, .offset = begin, .flags = loader->reader.flags, .user = chunk};
            chunk->request.file = slot->load_items[piece->item].shard->file;
            chunk_shard = order->shard;
            chunk_end = begin;
        }
        chunk_end = end > chunk_end ? end : chunk_end;
        chunk->request.bytes = chunk_end - chunk->request.offset;
        chunk->pieces_count++;
        chunk->users++;
        piece->chunk = slot->chunks_count - 1;
    }
    slot->chunks_left = slot->chunks_count;
}

/* Looks up the sample's shard, key and pieces. Marks the sample as bad, or returns a failure
 * that the data did not cause and that ends the run. */
static int plan_item(struct loader *loader, struct load_slot *slot, uint32_t i,
                     enum open_files_fraction share, struct err *err)
{
    struct load_item *load = &slot->load_items[i];
    struct batch_item *item = &slot->items[i];
    const struct view *view = loader_source_of(loader, item->ref)->view;
    load->location = view_locate(view, item->ref.sample);
    item->window = load->location.window;
    int status = shard_cache_get(loader->cache, load->location.shard, share, &load->shard, err);
    if (status) {
        load->shard = NULL;
        return status;
    }
    item->key = shard_index_key(load->shard->index, load->location.member, &item->key_bytes);
    struct load_piece *pieces = &slot->pieces[(size_t)i * loader->pieces_max];
    struct view_piece views[SHARD_FIELDS_MAX];
    uint32_t count;
    status = view_pieces(view, load->shard, load->location, item->ref, views, &count, err);
    if (status)
        return status;
    load->pieces_count = count;
    for (uint32_t k = 0; k < count; k++) {
        pieces[k] = (struct load_piece){.view = views[k], .item = i};
        pieces[k].view.data = no_bytes;
        if (views[k].read_bytes == 0)
            continue;
        load->pieces_left++;
        slot->sorted_pieces[slot->sorted_pieces_count++] =
            (struct sorted_piece){.shard = load->location.shard,
                                  .offset = views[k].read_offset,
                                  .piece = (uint32_t)(i * loader->pieces_max + k)};
    }
    return 0;
}

static int plan_slot_items(struct loader *loader, struct load_slot *slot, uint64_t first,
                           uint64_t stride, enum open_files_fraction share, struct err *err)
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
        int status = plan_item(loader, slot, i, share, &why);
        if (status && item_failure_is_fatal(status)) {
            *err = why;
            return status;
        }
        if (status)
            slot_note_bad(slot, i, &why);
    }
    return 0;
}

int read_plan_slot(struct loader *loader, struct load_slot *slot, uint64_t first, uint64_t stride,
                   enum open_files_fraction share, struct err *err)
{
    int status = plan_slot_items(loader, slot, first, stride, share, err);
    if (status)
        return status;
    sort_pieces(slot->sorted_pieces, slot->sorted_pieces_count);
    merge_into_chunks(loader, slot);
    return 0;
}
