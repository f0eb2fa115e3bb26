/*
 * consolidated_pages — decides which rank writes each page, and thus where boundary bytes are sent.
 * See consolidated.h.
 */
#include "base/bytes.h"
#include "ckpt/format/manifest.h"
#include "ckpt/save/consolidated.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct page_range {
    uint64_t first, end;
};

/* Pages whose first byte lies in the span. */
static struct page_range span_pages(const struct consolidated_span *span)
{
    uint64_t end = span->offset_bytes + span->size_bytes;
    return (struct page_range){bytes_round_up(span->offset_bytes, IO_ALIGN_BYTES) / IO_ALIGN_BYTES,
                               bytes_round_up(end, IO_ALIGN_BYTES) / IO_ALIGN_BYTES};
}

/* ---- Slices. ---- */

/* Extends the last slice by the pages if they have the same writer and block; else adds slices. */
static void add_pages(struct consolidated *consolidated, struct page_range pages, int writer)
{
    uint64_t at = pages.first * IO_ALIGN_BYTES,
             end = bytes_min(pages.end * IO_ALIGN_BYTES, consolidated->file_bytes);
    while (at < end) {
        uint64_t block_end = (at / CKPT_BLOCK_BYTES + 1) * CKPT_BLOCK_BYTES;
        uint64_t bytes = bytes_min(block_end, end) - at;
        struct consolidated_slice *last =
            consolidated->slices_count > 0 ? &consolidated->slices[consolidated->slices_count - 1]
                                           : NULL;
        if (last && last->writer == writer && at % CKPT_BLOCK_BYTES != 0) {
            last->size_bytes += bytes;
        } else {
            consolidated->slices[consolidated->slices_count++] = (struct consolidated_slice){
                at, bytes, writer, consolidated->slices_per_rank[writer]++};
        }
        at += bytes;
    }
}

/* Splits `count` pages that all ranks hold; returns the rank's first page. */
static uint64_t first_page_of_rank(uint64_t count, int rank, int ranks)
{
    uint64_t r = (uint64_t)rank, n = (uint64_t)ranks;
    return r * (count / n) + bytes_min(r, count % n);
}

static void make_slices(struct consolidated *consolidated, const struct consolidated_span *spans,
                        uint64_t spans_count)
{
    uint64_t common_count = 0, seen_count = 0;
    int writer = 0; /* writer of the next page that all ranks hold */
    for (uint64_t s = 0; s < spans_count; s++)
        if (spans[s].holder == CONSOLIDATED_ALL_RANKS)
            common_count += span_pages(&spans[s]).end - span_pages(&spans[s]).first;
    for (uint64_t s = 0; s < spans_count; s++) {
        struct page_range pages = span_pages(&spans[s]);
        if (spans[s].holder != CONSOLIDATED_ALL_RANKS) {
            add_pages(consolidated, pages, spans[s].holder);
            continue;
        }
        while (pages.first < pages.end) {
            while (seen_count >= first_page_of_rank(common_count, writer + 1, consolidated->ranks))
                writer++;
            uint64_t left =
                first_page_of_rank(common_count, writer + 1, consolidated->ranks) - seen_count;
            uint64_t count = bytes_min(left, pages.end - pages.first);
            add_pages(consolidated, (struct page_range){pages.first, pages.first + count}, writer);
            seen_count += count;
            pages.first += count;
        }
    }
}

/* ---- Segments and boundaries. ---- */

/* The overlap of a slice and a span. */
struct slice_part {
    const struct consolidated_slice *slice;
    const struct consolidated_span *span;
    uint64_t offset_bytes, size_bytes;
};

struct part_walk {
    const struct consolidated *consolidated;
    const struct consolidated_span *spans;
    uint64_t slice, span;
    uint64_t at;
};

/* Parts come in file order; false: no more. */
static bool next_part(struct part_walk *walk, struct slice_part *ret_part)
{
    const struct consolidated *consolidated = walk->consolidated;
    if (walk->slice == consolidated->slices_count)
        return false;
    const struct consolidated_slice *slice = &consolidated->slices[walk->slice];
    const struct consolidated_span *span = &walk->spans[walk->span];
    uint64_t slice_end = slice->offset_bytes + slice->size_bytes,
             span_end = span->offset_bytes + span->size_bytes, end = bytes_min(slice_end, span_end);
    assert(walk->at >= slice->offset_bytes && walk->at >= span->offset_bytes && walk->at < end);
    *ret_part = (struct slice_part){slice, span, walk->at, end - walk->at};
    walk->at = end;
    walk->slice += end == slice_end;
    walk->span += end == span_end;
    return true;
}

static bool is_boundary_part(const struct slice_part *part)
{
    return part->span->holder != CONSOLIDATED_ALL_RANKS &&
           part->span->holder != part->slice->writer;
}

static void count_parts(struct consolidated *consolidated, struct part_walk walk)
{
    struct slice_part part;
    while (next_part(&walk, &part)) {
        bool is_own = part.slice->writer == consolidated->rank,
             is_boundary = is_boundary_part(&part);
        consolidated->segments_count += is_own;
        consolidated->has_boundaries |= is_boundary;
        if (is_boundary && is_own)
            consolidated->received.bytes[part.span->holder] += part.size_bytes;
        if (is_boundary && part.span->holder == consolidated->rank) {
            consolidated->sent.bytes[part.slice->writer] += part.size_bytes;
            consolidated->boundaries_count++;
        }
    }
}

/* Sets the offset of each rank's bytes and allocates the memory. */
static int place_buffers(struct consolidated_traffic *traffic, int ranks, struct err *err)
{
    size_t at = 0;
    for (int r = 0; r < ranks; r++) {
        traffic->offsets[r] = at;
        at += traffic->bytes[r];
    }
    traffic->memory = malloc(at + 1);
    return traffic->memory ? 0
                           : err_set(err, -ENOMEM, "not enough memory to exchange %zu bytes", at);
}

/* Adds a segment, or extends the last one if they are adjacent in the same array or buffer.
 * Different arrays stay separate even if their addresses are adjacent. */
static void add_segment(struct consolidated *consolidated, struct layout_segment segment,
                        bool is_same_memory)
{
    struct layout_segment *last = consolidated->segments_count > 0
                                      ? &consolidated->segments[consolidated->segments_count - 1]
                                      : NULL;
    segment.offset_bytes = last ? last->offset_bytes + last->size_bytes : 0;
    if (last && is_same_memory && last->data + last->size_bytes == segment.data)
        last->size_bytes += segment.size_bytes;
    else
        consolidated->segments[consolidated->segments_count++] = segment;
}

/* received_next, sent_next: offsets that advance. Both sides visit the parts in the same order. */
static void fill_segments(struct consolidated *consolidated, struct part_walk walk,
                          size_t *received_next, size_t *sent_next)
{
    struct slice_part part;
    /* The span of the last segment's bytes; NULL: received from other ranks. */
    const struct consolidated_span *last = NULL;
    consolidated->segments_count = consolidated->boundaries_count = 0;
    while (next_part(&walk, &part)) {
        const struct consolidated_span *span = part.span;
        int writer = part.slice->writer;
        if (writer == consolidated->rank && is_boundary_part(&part)) {
            add_segment(consolidated,
                        (struct layout_segment){.size_bytes = part.size_bytes,
                                                .data = consolidated->received.memory +
                                                        received_next[span->holder],
                                                .source = LAYOUT_RECEIVED},
                        last == NULL);
            last = NULL;
            received_next[span->holder] += part.size_bytes;
            continue;
        }
        if (writer != consolidated->rank && span->holder != consolidated->rank)
            continue;
        const char *data = span->data + (part.offset_bytes - span->offset_bytes);
        if (writer == consolidated->rank) {
            add_segment(consolidated,
                        (struct layout_segment){.size_bytes = part.size_bytes,
                                                .data = data,
                                                .source = span->source,
                                                .group = span->group},
                        last == span);
            last = span;
        } else {
            consolidated->boundaries[consolidated->boundaries_count++] =
                (struct consolidated_boundary){data, part.size_bytes,
                                               consolidated->sent.memory + sent_next[writer]};
            sent_next[writer] += part.size_bytes;
        }
    }
}

static int out_of_memory(const struct consolidated *consolidated, struct err *err)
{
    return err_set(err, -ENOMEM, "not enough memory to plan a file of %" PRIu64 " bytes",
                   consolidated->file_bytes);
}

static int alloc_offsets(struct consolidated *consolidated, struct err *err)
{
    size_t ranks = (size_t)consolidated->ranks;
    consolidated->received.offsets = calloc(ranks, sizeof *consolidated->received.offsets);
    consolidated->received.bytes = calloc(ranks, sizeof *consolidated->received.bytes);
    consolidated->sent.offsets = calloc(ranks, sizeof *consolidated->sent.offsets);
    consolidated->sent.bytes = calloc(ranks, sizeof *consolidated->sent.bytes);
    return consolidated->received.offsets && consolidated->received.bytes &&
                   consolidated->sent.offsets && consolidated->sent.bytes
               ? 0
               : out_of_memory(consolidated, err);
}

static int make_segments(struct consolidated *consolidated, const struct consolidated_span *spans,
                         struct err *err)
{
    struct part_walk walk = {.consolidated = consolidated, .spans = spans};
    int status = alloc_offsets(consolidated, err);
    if (status)
        return status;
    count_parts(consolidated, walk);
    status = place_buffers(&consolidated->received, consolidated->ranks, err);
    if (!status)
        status = place_buffers(&consolidated->sent, consolidated->ranks, err);
    if (status)
        return status;
    size_t ranks = (size_t)consolidated->ranks, *next = calloc(2 * ranks, sizeof *next);
    consolidated->segments =
        calloc(consolidated->segments_count + 1, sizeof *consolidated->segments);
    consolidated->boundaries =
        calloc(consolidated->boundaries_count + 1, sizeof *consolidated->boundaries);
    if (next && consolidated->segments && consolidated->boundaries) {
        for (size_t r = 0; r < ranks; r++) {
            next[r] = consolidated->received.offsets[r];
            next[ranks + r] = consolidated->sent.offsets[r];
        }
        fill_segments(consolidated, walk, next, next + ranks);
    } else {
        status = out_of_memory(consolidated, err);
    }
    free(next);
    return status;
}

int consolidated_plan_pages(struct consolidated *consolidated,
                            const struct consolidated_span *spans, uint64_t spans_count,
                            struct err *err)
{
    /* a slice ends with its block, its span, or its writer's share */
    uint64_t slices_max = manifest_blocks_count(consolidated->file_bytes) + spans_count +
                          (uint64_t)consolidated->ranks;
    consolidated->slices = calloc(slices_max, sizeof *consolidated->slices);
    consolidated->slices_per_rank =
        calloc((size_t)consolidated->ranks, sizeof *consolidated->slices_per_rank);
    if (!consolidated->slices || !consolidated->slices_per_rank)
        return out_of_memory(consolidated, err);
    make_slices(consolidated, spans, spans_count);
    return make_segments(consolidated, spans, err);
}
