#include "ckpt/save/layout.h"

#include "base/bytes.h"
#include "base/json/jsonx.h"
#include "ckpt/format/safetensors.h"
#include "ckpt/load/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPREAD_BYTES_MIN = 1 << 20 }; /* smaller replicated arrays are not split */

static int tensor_error(struct err *err, const struct ckpt_tensor *tensor, const char *problem)
{
    return err_set(err, -EINVAL, "checkpoint: array \"%.100s\": %s",
                   tensor->name ? tensor->name : "", problem);
}

int layout_check_tensor(const struct ckpt_tensor *tensor, uint32_t groups_count,
                        uint64_t *ret_bytes, struct err *err)
{
    if (!tensor->name || !*tensor->name || strcmp(tensor->name, "__metadata__") == 0)
        return tensor_error(err, tensor, "its name is empty or reserved");
    if ((unsigned)tensor->dtype >= DTYPE_COUNT || tensor->rank > DTYPE_RANK_MAX)
        return tensor_error(err, tensor, "its dtype is unknown, or it has more than 8 dimensions");
    struct box box = box_make(tensor->start, tensor->extent, tensor->rank);
    struct box whole = box_from_shape(tensor->shape, tensor->rank);
    uint64_t bytes;
    if (box_shape_bytes(tensor->shape, tensor->rank, tensor->dtype, &bytes) || bytes > INT64_MAX)
        return tensor_error(err, tensor, "the shape's product overflows");
    if (box_check(&box, tensor->shape))
        return tensor_error(err, tensor, "its box is not within its shape");
    if (tensor->replicated && !box_equals(&box, &whole))
        return tensor_error(err, tensor, "it is replicated, but its box is not the whole array");
    if (tensor->group >= groups_count)
        return tensor_error(err, tensor, "its group is out of range");
    if (box_shape_bytes(tensor->extent, tensor->rank, tensor->dtype, ret_bytes))
        return tensor_error(err, tensor, "the box's size overflows");
    if (*ret_bytes > 0 && !tensor->data)
        return tensor_error(err, tensor, "it has no data");
    return 0;
}

static int least_loaded(const uint64_t *load, int ranks)
{
    int rank = 0;
    for (int r = 1; r < ranks; r++)
        if (load[r] < load[rank])
            rank = r;
    return rank;
}

/* The part of a replicated array that this rank stores. load: bytes per rank so far. */
static struct box rank_share(const struct layout_options *options, const struct ckpt_tensor *tensor,
                             uint64_t bytes, uint64_t *load, bool *ret_is_stored_here)
{
    struct box box = box_from_shape(tensor->shape, tensor->rank);
    uint64_t ranks = (uint64_t)options->node_ranks, rank = (uint64_t)options->node_rank;
    if (tensor->rank == 0 || tensor->shape[0] < ranks || bytes < SPREAD_BYTES_MIN) {
        int owner = least_loaded(load, options->node_ranks);
        load[owner] += bytes;
        *ret_is_stored_here = owner == options->node_rank;
        return box;
    }
    uint64_t rows = tensor->shape[0], even = rows / ranks, rest = rows % ranks;
    for (uint64_t r = 0; r < ranks; r++)
        load[r] += (even + (r < rest)) * (bytes / rows);
    box.start[0] = rank * even + bytes_min(rank, rest);
    box.extent[0] = even + (rank < rest);
    *ret_is_stored_here = true;
    return box;
}

static int select_chunks(struct layout *layout, const struct layout_options *options,
                         struct err *err)
{
    uint64_t *load = calloc((size_t)options->node_ranks, sizeof *load);
    layout->chunks = calloc(options->tensors_count + 1, sizeof *layout->chunks);
    int status = 0;
    if (!load || !layout->chunks)
        status = err_set(err, -ENOMEM, "not enough memory to plan %" PRIu64 " arrays",
                         options->tensors_count);
    for (uint64_t i = 0; i < options->tensors_count && !status; i++) {
        const struct ckpt_tensor *tensor = &options->tensors[i];
        struct box box = box_make(tensor->start, tensor->extent, tensor->rank);
        uint64_t bytes = 0, elements = 0;
        bool is_stored_here = true;
        status = layout_check_tensor(tensor, options->groups_count, &bytes, err);
        if (status)
            break;
        if (options->consolidated && !hash_is_optimizer(tensor->name))
            continue;
        if (tensor->replicated)
            box = rank_share(options, tensor, bytes, load, &is_stored_here);
        else if (bytes == 0) /* the first rank stores empty arrays; no rank stores an empty part */
            is_stored_here = box_shape_volume(tensor->shape, tensor->rank, &elements) == 0 &&
                             elements == 0 && options->rank == 0;
        if (is_stored_here)
            layout->chunks[layout->chunks_count++] =
                (struct layout_chunk){.tensor = tensor, .box = box};
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

int layout_check_names(const struct layout_chunk *chunks, uint64_t count, struct err *err)
{
    const char **names = calloc(count + 1, sizeof *names);
    if (!names)
        return err_set(err, -ENOMEM, "not enough memory to plan %" PRIu64 " arrays", count);
    int status = 0;
    for (uint64_t i = 0; i < count; i++)
        names[i] = chunks[i].tensor->name;
    qsort(names, count, sizeof *names, compare_names);
    for (uint64_t i = 1; i < count && !status; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = err_set(err, -EINVAL, "checkpoint: two arrays are named \"%.100s\"", names[i]);
    free(names);
    return status;
}

int layout_check_header(const struct str *header, uint64_t file_bytes,
                        const struct safetensors_entry *entries, uint64_t count, struct err *err)
{
    struct safetensors file = {0};
    uint64_t length = bytes_get_u64(header->data);
    int status =
        safetensors_parse(header->data + 8, length, file_bytes, "the planned header", &file, err);
    for (uint64_t i = 0; i < count && !status; i++)
        if (!jsonx_get(file.root, entries[i].name))
            status = err_set(err, -EINVAL, "checkpoint: array \"%.100s\": its name is not UTF-8",
                             entries[i].name);
    safetensors_deinit(&file);
    return status;
}

static int encode_header(struct layout *layout, const struct layout_options *options,
                         struct err *err)
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
        entries[i] = (struct safetensors_entry){.name = chunk->tensor->name,
                                                .dtype = chunk->tensor->dtype,
                                                .rank = chunk->tensor->rank};
        memcpy(entries[i].shape, chunk->box.extent, sizeof entries[i].shape);
    }
    int status = safetensors_encode(entries, layout->chunks_count, metadata,
                                    sizeof metadata / sizeof metadata[0], SAFETENSORS_ALIGN_BYTES,
                                    &layout->header, &layout->file_bytes, err);
    if (!status)
        status = layout_check_header(&layout->header, layout->file_bytes, entries,
                                     layout->chunks_count, err);
    for (uint64_t i = 0; i < layout->chunks_count && !status; i++)
        layout->chunks[i].offset_bytes = entries[i].offset_bytes;
    free(entries);
    return status;
}

int layout_init(struct layout *layout, const struct layout_options *options, struct err *err)
{
    *layout = (struct layout){.consolidated = options->consolidated};
    int status = select_chunks(layout, options, err);
    if (!status) {
        qsort(layout->chunks, layout->chunks_count, sizeof *layout->chunks, compare_chunks);
        status = layout_check_names(layout->chunks, layout->chunks_count, err);
    }
    if (!status)
        status = encode_header(layout, options, err);
    if (!status)
        status = layout_build(layout, options->groups_count, err);
    if (status)
        layout_deinit(layout);
    return status;
}

void layout_deinit(struct layout *layout)
{
    str_deinit(&layout->header);
    free(layout->segments);
    free(layout->chunks);
    free(layout->blocks);
    free(layout->ranges);
    free(layout->range_index);
    free(layout->update_order);
    *layout = (struct layout){0};
}
