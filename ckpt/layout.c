/*
 * layout — see layout.h.
 */
#include "ckpt/layout.h"

#include "base/bytes.h"
#include "base/json.h"
#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPREAD_BYTES_MIN = 1 << 20 }; /* replicated arrays below it are stored whole */

static int bad(struct err *err, const struct ckpt_tensor *tensor, const char *what)
{
    return err_set(err, -EINVAL, "checkpoint: array \"%.100s\": %s", tensor->name ? tensor->name : "", what);
}

static int check_tensor(const struct layout_options *options, const struct ckpt_tensor *tensor,
                        uint64_t *ret_bytes, struct err *err)
{
    if (!tensor->name || !*tensor->name || strcmp(tensor->name, "__metadata__") == 0)
        return bad(err, tensor, "it has no name of its own");
    if ((unsigned)tensor->dtype >= DTYPE_COUNT || tensor->rank > DTYPE_RANK_MAX)
        return bad(err, tensor, "unknown dtype, or more than 8 dimensions");
    struct box box = box_make(tensor->start, tensor->extent, tensor->rank);
    struct box whole = box_whole(tensor->shape, tensor->rank);
    uint64_t bytes;
    if (box_shape_bytes(tensor->shape, tensor->rank, tensor->dtype, &bytes) || bytes > INT64_MAX)
        return bad(err, tensor, "the shape's product overflows");
    if (box_check(&box, tensor->shape))
        return bad(err, tensor, "its box is not within its shape");
    if (tensor->replicated && memcmp(&box, &whole, sizeof box) != 0)
        return bad(err, tensor, "it is replicated, but its box is not the whole");
    if (tensor->group >= options->groups_count)
        return bad(err, tensor, "its group is beyond the number of groups");
    if (box_shape_bytes(tensor->extent, tensor->rank, tensor->dtype, ret_bytes))
        return bad(err, tensor, "the box's size overflows");
    if (*ret_bytes > 0 && !tensor->data)
        return bad(err, tensor, "it has no data");
    return 0;
}

static int least_loaded(const uint64_t *load, int ranks)
{
    int least = 0;
    for (int r = 1; r < ranks; r++)
        if (load[r] < load[least])
            least = r;
    return least;
}

/* What this rank stores of a replicated array; load has what each rank stores of those before it. */
static struct box share_of(const struct layout_options *options, const struct ckpt_tensor *tensor,
                           uint64_t bytes, uint64_t *load, bool *ret_mine)
{
    struct box box = box_whole(tensor->shape, tensor->rank);
    uint64_t ranks = (uint64_t)options->node_ranks, rank = (uint64_t)options->node_rank;
    if (tensor->rank == 0 || tensor->shape[0] < ranks || bytes < SPREAD_BYTES_MIN) {
        int owner = least_loaded(load, options->node_ranks);
        load[owner] += bytes;
        *ret_mine = owner == options->node_rank;
        return box;
    }
    uint64_t rows = tensor->shape[0], even = rows / ranks, rest = rows % ranks;
    for (uint64_t r = 0; r < ranks; r++)
        load[r] += (even + (r < rest)) * (bytes / rows);
    box.start[0] = rank * even + bytes_min(rank, rest);
    box.extent[0] = even + (rank < rest);
    *ret_mine = true;
    return box;
}

/* The chunks of this rank, in the order of the arrays. */
static int choose(struct layout *layout, const struct layout_options *options, struct err *err)
{
    uint64_t *load = calloc((size_t)options->node_ranks, sizeof *load);
    layout->chunks = calloc(options->tensors_count + 1, sizeof *layout->chunks);
    int status = 0;
    if (!load || !layout->chunks)
        status = err_set(err, -ENOMEM, "out of memory to plan %" PRIu64 " arrays", options->tensors_count);
    for (uint64_t i = 0; i < options->tensors_count && !status; i++) {
        const struct ckpt_tensor *tensor = &options->tensors[i];
        struct box box = box_make(tensor->start, tensor->extent, tensor->rank);
        uint64_t bytes = 0, elements = 0;
        bool mine = true;
        status = check_tensor(options, tensor, &bytes, err);
        if (status)
            break;
        if (tensor->replicated)
            box = share_of(options, tensor, bytes, load, &mine);
        else if (bytes ==
                 0) /* an empty array is written by the first rank, an empty part of another one by nobody */
            mine = box_shape_volume(tensor->shape, tensor->rank, &elements) == 0 && elements == 0 &&
                   options->rank == 0;
        if (mine)
            layout->chunks[layout->chunks_count++] = (struct layout_chunk){.tensor = tensor, .box = box};
    }
    free(load);
    return status;
}

static int compare_chunks(const void *a, const void *b)
{
    const struct ckpt_tensor *x = ((const struct layout_chunk *)a)->tensor,
                             *y = ((const struct layout_chunk *)b)->tensor;
    struct safetensors_entry ex = {.name = x->name, .dtype = x->dtype},
                             ey = {.name = y->name, .dtype = y->dtype};
    return safetensors_compare(&ex, &ey);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const struct layout *layout, struct err *err)
{
    const char **names = calloc(layout->chunks_count + 1, sizeof *names);
    if (!names)
        return err_set(err, -ENOMEM, "out of memory to plan %" PRIu64 " arrays", layout->chunks_count);
    int status = 0;
    for (uint64_t i = 0; i < layout->chunks_count; i++)
        names[i] = layout->chunks[i].tensor->name;
    qsort(names, layout->chunks_count, sizeof *names, compare_names);
    for (uint64_t i = 1; i < layout->chunks_count && !status; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = err_set(err, -EINVAL, "checkpoint: two arrays are named \"%.100s\"", names[i]);
    free(names);
    return status;
}

/* What can't be read back is never written: names that are no UTF-8 change on the way. */
static int check_header(const struct layout *layout, struct err *err)
{
    struct safetensors file = {0};
    uint64_t length = bytes_get_u64(layout->header.data);
    int status = safetensors_parse(layout->header.data + 8, length, layout->file_bytes, "the planned header",
                                   &file, err);
    for (uint64_t i = 0; i < layout->chunks_count && !status; i++)
        if (!json_get(file.root, layout->chunks[i].tensor->name))
            status = bad(err, layout->chunks[i].tensor, "its name is no UTF-8");
    safetensors_deinit(&file);
    return status;
}

static int encode_header(struct layout *layout, const struct layout_options *options, struct err *err)
{
    char rank[16], ranks[16];
    snprintf(rank, sizeof rank, "%d", options->rank);
    snprintf(ranks, sizeof ranks, "%d", options->ranks);
    const char *const metadata[][2] = {{"format", "millrace"}, {"rank", rank}, {"ranks", ranks}};
    struct safetensors_entry *entries = calloc(layout->chunks_count + 1, sizeof *entries);
    if (!entries)
        return err_set(err, -ENOMEM, "out of memory for a header of %" PRIu64 " arrays",
                       layout->chunks_count);
    for (uint64_t i = 0; i < layout->chunks_count; i++) {
        const struct layout_chunk *chunk = &layout->chunks[i];
        entries[i] = (struct safetensors_entry){
            .name = chunk->tensor->name, .dtype = chunk->tensor->dtype, .rank = chunk->tensor->rank};
        memcpy(entries[i].shape, chunk->box.extent, sizeof entries[i].shape);
    }
    int status =
        safetensors_encode(entries, layout->chunks_count, metadata, sizeof metadata / sizeof metadata[0],
                           SAFETENSORS_ALIGN_BYTES, &layout->header, &layout->file_bytes, err);
    for (uint64_t i = 0; i < layout->chunks_count && !status; i++)
        layout->chunks[i].offset_bytes = entries[i].offset_bytes;
    free(entries);
    return status;
}

/* The first byte of a chunk in this rank's memory: whole rows of what it holds, or all of it. */
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
    assert(!status); /* checked */
    (void)status;
    return bytes;
}

static int make_segments(struct layout *layout, struct err *err)
{
    layout->blocks_count = manifest_blocks_count(layout->file_bytes);
    layout->segments = calloc(layout->chunks_count + 1, sizeof *layout->segments);
    layout->block_segment = calloc(layout->blocks_count, sizeof *layout->block_segment);
    if (!layout->segments || !layout->block_segment)
        return err_set(err, -ENOMEM, "out of memory to plan %" PRIu64 " blocks", layout->blocks_count);
    layout->segments[layout->segments_count++] =
        (struct layout_segment){0, layout->header.bytes, layout->header.data};
    for (uint64_t i = 0; i < layout->chunks_count; i++) {
        const struct layout_chunk *chunk = &layout->chunks[i];
        uint64_t bytes = chunk_bytes(chunk);
        if (bytes > 0)
            layout->segments[layout->segments_count++] =
                (struct layout_segment){chunk->offset_bytes, bytes, chunk_data(chunk)};
    }
    uint64_t s = 0;
    for (uint64_t b = 0; b < layout->blocks_count; b++) {
        while (layout->segments[s].offset_bytes + layout->segments[s].size_bytes <= b * CKPT_BLOCK_BYTES)
            s++;
        layout->block_segment[b] = s;
    }
    return 0;
}

static struct layout_range chunk_blocks(const struct layout_chunk *chunk)
{
    uint64_t bytes = chunk_bytes(chunk);
    return (struct layout_range){chunk->offset_bytes / CKPT_BLOCK_BYTES,
                                 bytes ? (chunk->offset_bytes + bytes - 1) / CKPT_BLOCK_BYTES + 1 : 0};
}

/* For each group the blocks that hold something of it: first counted, then stored, neighbours joined. */
static int make_ranges(struct layout *layout, uint32_t groups_count, struct err *err)
{
    layout->groups_count = groups_count;
    layout->range_index = calloc((size_t)groups_count + 2, sizeof *layout->range_index);
    layout->ranges = calloc(layout->chunks_count + 1, sizeof *layout->ranges);
    uint64_t *used = calloc((size_t)groups_count + 1, sizeof *used);
    int status = 0;
    if (!layout->range_index || !layout->ranges || !used) {
        status = err_set(err, -ENOMEM, "out of memory to plan %" PRIu32 " groups", groups_count);
        goto out;
    }
    for (uint64_t i = 0; i < layout->chunks_count; i++)
        layout->range_index[layout->chunks[i].tensor->group + 1]++;
    for (uint32_t g = 0; g < groups_count; g++)
        layout->range_index[g + 1] += layout->range_index[g];
    for (uint64_t i = 0; i < layout->chunks_count; i++) {
        uint32_t g = layout->chunks[i].tensor->group;
        struct layout_range range = chunk_blocks(&layout->chunks[i]);
        struct layout_range *last = layout->ranges + layout->range_index[g] + used[g] - 1;
        if (range.end == 0)
            continue;
        if (used[g] > 0 && range.first <= last->end)
            last->end = range.end;
        else
            layout->ranges[layout->range_index[g] + used[g]++] = range;
    }
    uint64_t at = 0; /* close the gaps */
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

/* Blocks by the first group that has some of each, the lowest in front; last those of the header alone. */
static int make_order(struct layout *layout, struct err *err)
{
    bool *placed = calloc(layout->blocks_count, sizeof *placed);
    layout->order = calloc(layout->blocks_count, sizeof *layout->order);
    uint64_t count = 0;
    if (!placed || !layout->order) {
        free(placed);
        return err_set(err, -ENOMEM, "out of memory to plan %" PRIu64 " blocks", layout->blocks_count);
    }
    struct layout_range all = {0, layout->blocks_count};
    uint64_t ranges_count = layout->range_index[layout->groups_count];
    for (uint64_t r = 0; r <= ranges_count; r++) {
        const struct layout_range *range = r < ranges_count ? &layout->ranges[r] : &all;
        for (uint64_t b = range->first; b < range->end; b++) {
            if (!placed[b])
                layout->order[count++] = b;
            placed[b] = true;
        }
    }
    assert(count == layout->blocks_count);
    free(placed);
    return 0;
}

int layout_init(struct layout *layout, const struct layout_options *options, struct err *err)
{
    *layout = (struct layout){0};
    int status = choose(layout, options, err);
    if (!status) {
        qsort(layout->chunks, layout->chunks_count, sizeof *layout->chunks, compare_chunks);
        status = check_names(layout, err);
    }
    if (!status)
        status = encode_header(layout, options, err);
    if (!status)
        status = check_header(layout, err);
    if (!status)
        status = make_segments(layout, err);
    if (!status)
        status = make_ranges(layout, options->groups_count, err);
    if (!status)
        status = make_order(layout, err);
    if (status)
        layout_deinit(layout);
    return status;
}

void layout_deinit(struct layout *layout)
{
    str_deinit(&layout->header);
    free(layout->segments);
    free(layout->chunks);
    free(layout->block_segment);
    free(layout->ranges);
    free(layout->range_index);
    free(layout->order);
    *layout = (struct layout){0};
}
