/*
 * layout_blocks — cuts the image of a layout into segments and blocks, and assigns blocks to
 * groups.
 */
#include "base/bytes.h"
#include "ckpt/format/manifest.h"
#include "ckpt/save/consolidated.h"
#include "ckpt/save/layout.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A chunk consists of whole rows, or of everything that the rank holds. */
static const char *chunk_data(const struct layout_chunk *chunk)
{
    const struct ckpt_tensor *tensor = chunk->tensor;
    if (tensor->rank == 0)
        return tensor->data;
    uint64_t row_bytes = dtype_bytes(tensor->dtype);
    for (uint32_t d = 1; d < tensor->rank; d++)
        row_bytes *= tensor->extent[d];
    return (const char *)tensor->data + (chunk->box.start[0] - tensor->start[0]) * row_bytes;
}

static uint64_t chunk_bytes(const struct layout_chunk *chunk)
{
    uint64_t bytes = 0;
    int status = box_shape_bytes(chunk->box.extent, chunk->box.rank, chunk->tensor->dtype, &bytes);
    assert(!status); /* checked by layout_check_tensor */
    (void)status;
    return bytes;
}

/* Own-file segments precede those of the consolidated file. */
static int make_segments(struct layout *layout, struct err *err)
{
    uint64_t consolidated_count = layout->consolidated ? layout->consolidated->segments_count : 0;
    layout->segments =
        calloc(layout->chunks_count + 1 + consolidated_count, sizeof *layout->segments);
    if (!layout->segments)
        return err_set(err, -ENOMEM, "not enough memory to plan %" PRIu64 " arrays",
                       layout->chunks_count);
    struct layout_segment *next = layout->segments;
    *next++ =
        (struct layout_segment){.size_bytes = layout->header.bytes, .data = layout->header.data};
    for (uint64_t i = 0; i < layout->chunks_count; i++) {
        const struct layout_chunk *chunk = &layout->chunks[i];
        uint64_t bytes = chunk_bytes(chunk);
        if (bytes > 0)
            *next++ = (struct layout_segment){chunk->offset_bytes, bytes, chunk_data(chunk),
                                              LAYOUT_ARRAY, chunk->tensor->group};
    }
    layout->image_bytes = layout->file_bytes;
    for (uint64_t i = 0; i < consolidated_count; i++) {
        *next = layout->consolidated->segments[i];
        next++->offset_bytes += layout->file_bytes;
        layout->image_bytes += layout->consolidated->segments[i].size_bytes;
    }
    layout->segments_count = (uint64_t)(next - layout->segments);
    return 0;
}

static uint64_t consolidated_blocks_count(const struct layout *layout)
{
    return layout->consolidated ? layout->consolidated->slices_per_rank[layout->consolidated->rank]
                                : 0;
}

/* Own-file blocks precede slices of the consolidated file. */
static int make_blocks(struct layout *layout, struct err *err)
{
    uint64_t own_count = manifest_blocks_count(layout->file_bytes), at = layout->file_bytes;
    layout->blocks_count = own_count + consolidated_blocks_count(layout);
    layout->blocks = calloc(layout->blocks_count, sizeof *layout->blocks);
    if (!layout->blocks)
        return err_set(err, -ENOMEM, "not enough memory to plan %" PRIu64 " blocks",
                       layout->blocks_count);
    for (uint64_t b = 0; b < own_count; b++)
        layout->blocks[b] =
            (struct layout_block){.offset_bytes = b * CKPT_BLOCK_BYTES,
                                  .file_offset_bytes = b * CKPT_BLOCK_BYTES,
                                  .size_bytes = manifest_block_bytes(layout->file_bytes, b)};
    for (uint64_t b = own_count, p = 0; b < layout->blocks_count; p++) {
        const struct consolidated_slice *slice = &layout->consolidated->slices[p];
        if (slice->writer != layout->consolidated->rank)
            continue;
        layout->blocks[b++] = (struct layout_block){.offset_bytes = at,
                                                    .file_offset_bytes = slice->offset_bytes,
                                                    .size_bytes = slice->size_bytes,
                                                    .file = LAYOUT_CONSOLIDATED};
        at += slice->size_bytes;
    }
    for (uint64_t b = 0, s = 0; b < layout->blocks_count; b++) {
        while (layout->segments[s].offset_bytes + layout->segments[s].size_bytes <=
               layout->blocks[b].offset_bytes)
            s++;
        layout->blocks[b].segment = s;
    }
    return 0;
}

/* Finds the blocks that a segment overlaps. *from: at or before the first; advanced to it. */
static struct layout_range segment_blocks(const struct layout *layout,
                                          const struct layout_segment *segment, uint64_t *from)
{
    const struct layout_block *blocks = layout->blocks;
    while (blocks[*from].offset_bytes + blocks[*from].size_bytes <= segment->offset_bytes)
        ++*from;
    uint64_t end = *from + 1;
    while (end < layout->blocks_count &&
           blocks[end].offset_bytes < segment->offset_bytes + segment->size_bytes)
        end++;
    return (struct layout_range){*from, end};
}

/* Finds each group's blocks, joining neighbors. */
static int make_ranges(struct layout *layout, uint32_t groups_count, struct err *err)
{
    layout->groups_count = groups_count;
    layout->range_index = calloc((size_t)groups_count + 2, sizeof *layout->range_index);
    layout->ranges = calloc(layout->segments_count, sizeof *layout->ranges);
    uint64_t *used = calloc((size_t)groups_count + 1, sizeof *used);
    int status = 0;
    if (!layout->range_index || !layout->ranges || !used) {
        status =
            err_set(err, -ENOMEM, "not enough memory to plan %" PRIu32 " groups", groups_count);
        goto out;
    }
    for (uint64_t i = 0; i < layout->segments_count; i++)
        if (layout->segments[i].source == LAYOUT_ARRAY)
            layout->range_index[layout->segments[i].group + 1]++;
    for (uint32_t g = 0; g < groups_count; g++)
        layout->range_index[g + 1] += layout->range_index[g];
    for (uint64_t i = 0, from = 0; i < layout->segments_count; i++) {
        const struct layout_segment *segment = &layout->segments[i];
        if (segment->source != LAYOUT_ARRAY)
            continue;
        uint32_t g = segment->group;
        struct layout_range range = segment_blocks(layout, segment, &from);
        struct layout_range *last = layout->ranges + layout->range_index[g] + used[g] - 1;
        if (used[g] > 0 && range.first <= last->end)
            last->end = range.end;
        else
            layout->ranges[layout->range_index[g] + used[g]++] = range;
    }
    uint64_t at = 0;
    for (uint32_t g = 0; g < groups_count; g++) {
        uint64_t from = layout->range_index[g];
        memmove(layout->ranges + at, layout->ranges + from, used[g] * sizeof *layout->ranges);
        layout->range_index[g] = at;
        at += used[g];
    }
    layout->range_index[groups_count] = at;
out:
    free(used);
    return status;
}

/* Orders blocks by their lowest group; blocks without a group come last. */
static int order_blocks(struct layout *layout, struct err *err)
{
    bool *placed = calloc(layout->blocks_count, sizeof *placed);
    layout->update_order = calloc(layout->blocks_count, sizeof *layout->update_order);
    uint64_t count = 0;
    if (!placed || !layout->update_order) {
        free(placed);
        return err_set(err, -ENOMEM, "not enough memory to plan %" PRIu64 " blocks",
                       layout->blocks_count);
    }
    struct layout_range all = {0, layout->blocks_count};
    uint64_t ranges_count = layout->range_index[layout->groups_count];
    for (uint64_t r = 0; r <= ranges_count; r++) {
        const struct layout_range *range = r < ranges_count ? &layout->ranges[r] : &all;
        for (uint64_t b = range->first; b < range->end; b++) {
            if (!placed[b])
                layout->update_order[count++] = b;
            placed[b] = true;
        }
    }
    assert(count == layout->blocks_count);
    free(placed);
    return 0;
}

int layout_build(struct layout *layout, uint32_t groups_count, struct err *err)
{
    int status = make_segments(layout, err);
    if (!status)
        status = make_blocks(layout, err);
    if (!status)
        status = make_ranges(layout, groups_count, err);
    return status ? status : order_blocks(layout, err);
}
