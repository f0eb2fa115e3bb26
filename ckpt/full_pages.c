/*
 * full_pages — who writes which pages of the common file, what of them is whose, and so what is
 * lent to whom. See full.h.
 */
#include "base/bytes.h"
#include "ckpt/full.h"
#include "ckpt/manifest.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct pages {
    uint64_t first, end;
};

/* Those whose first byte lies in the span. */
static struct pages pages_of(const struct full_span *span)
{
    uint64_t end = span->offset_bytes + span->size_bytes;
    return (struct pages){bytes_round_up(span->offset_bytes, IO_ALIGN_BYTES) / IO_ALIGN_BYTES,
                          bytes_round_up(end, IO_ALIGN_BYTES) / IO_ALIGN_BYTES};
}

/* ---- Pieces. ---- */

/* Joined to the piece before where that is the same writer's and of the same block. */
static void add_pages(struct full *full, struct pages pages, int writer)
{
    uint64_t at = pages.first * IO_ALIGN_BYTES,
             end = bytes_min(pages.end * IO_ALIGN_BYTES, full->file_bytes);
    while (at < end) {
        uint64_t block_end = (at / CKPT_BLOCK_BYTES + 1) * CKPT_BLOCK_BYTES;
        uint64_t bytes = bytes_min(block_end, end) - at;
        struct full_piece *last =
            full->pieces_count > 0 ? &full->pieces[full->pieces_count - 1] : NULL;
        if (last && last->writer == writer && at % CKPT_BLOCK_BYTES != 0) {
            last->size_bytes += bytes;
        } else {
            full->pieces[full->pieces_count++] =
                (struct full_piece){at, bytes, writer, full->pieces_of[writer]++};
        }
        at += bytes;
    }
}

/* The first of `count` pages that a rank writes, of those that all hold. */
static uint64_t share_begin(uint64_t count, int rank, int ranks)
{
    uint64_t r = (uint64_t)rank, n = (uint64_t)ranks;
    return r * (count / n) + bytes_min(r, count % n);
}

static void make_pieces(struct full *full, const struct full_span *spans, uint64_t spans_count)
{
    uint64_t common_count = 0, seen_count = 0;
    int writer = 0; /* of the next page that all hold */
    for (uint64_t s = 0; s < spans_count; s++)
        if (spans[s].holder == FULL_ALL)
            common_count += pages_of(&spans[s]).end - pages_of(&spans[s]).first;
    for (uint64_t s = 0; s < spans_count; s++) {
        struct pages pages = pages_of(&spans[s]);
        if (spans[s].holder != FULL_ALL) {
            add_pages(full, pages, spans[s].holder);
            continue;
        }
        while (pages.first < pages.end) {
            while (seen_count >= share_begin(common_count, writer + 1, full->ranks))
                writer++;
            uint64_t left = share_begin(common_count, writer + 1, full->ranks) - seen_count;
            uint64_t count = bytes_min(left, pages.end - pages.first);
            add_pages(full, (struct pages){pages.first, pages.first + count}, writer);
            seen_count += count;
            pages.first += count;
        }
    }
}

/* ---- What they are made of. ---- */

/* Bytes of a piece that lie in one span. */
struct part {
    const struct full_piece *piece;
    const struct full_span *span;
    uint64_t offset_bytes, size_bytes;
};

struct walk {
    const struct full *full;
    const struct full_span *spans;
    uint64_t piece, span; /* of the next part */
    uint64_t at;
};

/* All parts, in the order of the file. */
static bool next_part(struct walk *walk, struct part *ret_part)
{
    const struct full *full = walk->full;
    if (walk->piece == full->pieces_count)
        return false;
    const struct full_piece *piece = &full->pieces[walk->piece];
    const struct full_span *span = &walk->spans[walk->span];
    uint64_t piece_end = piece->offset_bytes + piece->size_bytes,
             span_end = span->offset_bytes + span->size_bytes, end = bytes_min(piece_end, span_end);
    assert(walk->at >= piece->offset_bytes && walk->at >= span->offset_bytes && walk->at < end);
    *ret_part = (struct part){piece, span, walk->at, end - walk->at};
    walk->at = end;
    walk->piece += end == piece_end;
    walk->span += end == span_end;
    return true;
}

static bool is_lent(const struct part *part)
{
    return part->span->holder != FULL_ALL && part->span->holder != part->piece->writer;
}

/* How much there is of all. */
static void count(struct full *full, struct walk walk)
{
    struct part part;
    while (next_part(&walk, &part)) {
        bool is_own = part.piece->writer == full->rank, is_loan = is_lent(&part);
        full->segments_count += is_own;
        full->has_loans |= is_loan;
        if (is_loan && is_own)
            full->in.bytes[part.span->holder] += part.size_bytes;
        if (is_loan && part.span->holder == full->rank) {
            full->out.bytes[part.piece->writer] += part.size_bytes;
            full->loans_count++;
        }
    }
}

/* Where what goes to each rank, or comes from it, begins; the memory for all. */
static int place_traffic(struct full_traffic *traffic, int ranks, struct err *err)
{
    size_t at = 0;
    for (int r = 0; r < ranks; r++) {
        traffic->offsets[r] = at;
        at += traffic->bytes[r];
    }
    traffic->memory = malloc(at + 1);
    return traffic->memory ? 0 : err_set(err, -ENOMEM, "out of memory to exchange %zu bytes", at);
}

/* Behind the last one, or a part of it where they lie together in one memory: two arrays whose
 * addresses touch are copied one by one. */
static void add_segment(struct full *full, struct layout_segment segment, bool is_same_memory)
{
    struct layout_segment *last =
        full->segments_count > 0 ? &full->segments[full->segments_count - 1] : NULL;
    segment.offset_bytes = last ? last->offset_bytes + last->size_bytes : 0;
    if (last && is_same_memory && last->data + last->size_bytes == segment.data)
        last->size_bytes += segment.size_bytes;
    else
        full->segments[full->segments_count++] = segment;
}

/* in_next, out_next: offsets that move on. Both sides see the parts in one order. */
static void fill(struct full *full, struct walk walk, size_t *in_next, size_t *out_next)
{
    struct part part;
    const struct full_span *last =
        NULL; /* whose bytes the last segment is of; NULL: of what arrives */
    full->segments_count = full->loans_count = 0;
    while (next_part(&walk, &part)) {
        const struct full_span *span = part.span;
        int writer = part.piece->writer;
        if (writer == full->rank && is_lent(&part)) {
            add_segment(full,
                        (struct layout_segment){.size_bytes = part.size_bytes,
                                                .data = full->in.memory + in_next[span->holder],
                                                .source = LAYOUT_ARRIVING},
                        last == NULL);
            last = NULL;
            in_next[span->holder] += part.size_bytes;
            continue;
        }
        if (writer != full->rank && span->holder != full->rank)
            continue;
        const char *data = span->data + (part.offset_bytes - span->offset_bytes);
        if (writer == full->rank) {
            add_segment(full,
                        (struct layout_segment){.size_bytes = part.size_bytes,
                                                .data = data,
                                                .source = span->source,
                                                .group = span->group},
                        last == span);
            last = span;
        } else {
            full->loans[full->loans_count++] =
                (struct full_loan){data, part.size_bytes, full->out.memory + out_next[writer]};
            out_next[writer] += part.size_bytes;
        }
    }
}

static int out_of_memory(const struct full *full, struct err *err)
{
    return err_set(err, -ENOMEM, "out of memory to plan a file of %" PRIu64 " bytes",
                   full->file_bytes);
}

static int alloc_traffic(struct full *full, struct err *err)
{
    size_t ranks = (size_t)full->ranks;
    full->in.offsets = calloc(ranks, sizeof *full->in.offsets);
    full->in.bytes = calloc(ranks, sizeof *full->in.bytes);
    full->out.offsets = calloc(ranks, sizeof *full->out.offsets);
    full->out.bytes = calloc(ranks, sizeof *full->out.bytes);
    return full->in.offsets && full->in.bytes && full->out.offsets && full->out.bytes
               ? 0
               : out_of_memory(full, err);
}

static int make_segments(struct full *full, const struct full_span *spans, struct err *err)
{
    struct walk walk = {.full = full, .spans = spans};
    int status = alloc_traffic(full, err);
    if (status)
        return status;
    count(full, walk);
    status = place_traffic(&full->in, full->ranks, err);
    if (!status)
        status = place_traffic(&full->out, full->ranks, err);
    if (status)
        return status;
    size_t ranks = (size_t)full->ranks, *next = calloc(2 * ranks, sizeof *next);
    full->segments = calloc(full->segments_count + 1, sizeof *full->segments);
    full->loans = calloc(full->loans_count + 1, sizeof *full->loans);
    if (next && full->segments && full->loans) {
        for (size_t r = 0; r < ranks; r++) {
            next[r] = full->in.offsets[r];
            next[ranks + r] = full->out.offsets[r];
        }
        fill(full, walk, next, next + ranks);
    } else {
        status = out_of_memory(full, err);
    }
    free(next);
    return status;
}

int full_cut(struct full *full, const struct full_span *spans, uint64_t spans_count,
             struct err *err)
{
    /* a piece ends with its block, its span, or its writer's share of what all hold */
    uint64_t pieces_max =
        manifest_blocks_count(full->file_bytes) + spans_count + (uint64_t)full->ranks;
    full->pieces = calloc(pieces_max, sizeof *full->pieces);
    full->pieces_of = calloc((size_t)full->ranks, sizeof *full->pieces_of);
    if (!full->pieces || !full->pieces_of)
        return out_of_memory(full, err);
    make_pieces(full, spans, spans_count);
    return make_segments(full, spans, err);
}
