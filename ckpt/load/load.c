/*
 * load — ckpt_reader_load: fills any boxes from any chunks.
 *
 * A wanted box and a chunk that overlaps it form an item. Items are sorted by the first byte that
 * they need. Each block is requested and taken once, in that order. An item walks its runs with two
 * cursors: one plans reads; the other copies, up to BLOCKS_AHEAD_MAX blocks behind.
 *
 *     file     |   block   |   block   |   block   |
 *     items       [a     ][b ][c         ]
 */
#include "base/bytes.h"
#include "ckpt/format/box.h"
#include "ckpt/format/cast.h"
#include "ckpt/load/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENT_BYTES_MAX = 8, CAST_ELEMENTS = 4096 };

/* The part of a wanted box in one chunk. Runs are in bytes of the saved dtype, even with a cast. */
struct load_item {
    const struct ckpt_tensor *tensor;
    enum dtype saved;
    uint32_t file;
    uint64_t chunk_offset;
    uint64_t first_offset;
    struct box_runs runs;
    struct box_runs_cursor plan, copy;
    /* The first bytes of an element that spans two blocks, as in other programs' files. */
    char split_element[ELEMENT_BYTES_MAX];
};

struct load {
    struct ckpt_reader *reader;
    struct device *device;
    struct device_stream *stream;
    struct load_item *items;
    uint64_t items_count;
    uint64_t plan_first, copy_first; /* earlier items are done */
    uint32_t plan_file;
    uint64_t plan_block; /* the next block of plan_file that may be requested */
    char cast[CAST_ELEMENTS * ELEMENT_BYTES_MAX]; /* staging for a device */
    struct err *err;
};

static void shape_text(const uint64_t *shape, uint32_t rank, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "[");
    for (uint32_t d = 0; d < rank && used < bytes; d++)
        used +=
            (size_t)snprintf(text + used, bytes - used, d ? ", %" PRIu64 : "%" PRIu64, shape[d]);
    if (used < bytes)
        snprintf(text + used, bytes - used, "]");
}

static int mismatch_error(const struct load *load, const struct ckpt_tensor *wanted,
                          const struct manifest_tensor *saved)
{
    char expected[ERR_TEXT_BYTES_MAX - 16], found[ERR_TEXT_BYTES_MAX - 16];
    shape_text(wanted->shape, wanted->rank, expected, sizeof expected);
    shape_text(saved->shape, saved->rank, found, sizeof found);
    err_set(load->err, -EINVAL, "tensor \"%.100s\" was saved with a different dtype or shape",
            wanted->name);
    err_at(load->err, load->reader->path, ERR_NO_OFFSET);
    err_expected(load->err, "%s %s", dtype_name(wanted->dtype), expected);
    err_found(load->err, "%s %s", dtype_name(saved->dtype), found);
    err_advise(load->err, "load it into the model that it was saved from");
    return -EINVAL;
}

static bool is_convertible(const struct ckpt_tensor *wanted, enum dtype saved)
{
    return saved == wanted->dtype ||
           (wanted->cast && cast_is_float(saved) && cast_is_float(wanted->dtype));
}

static int check_wanted(const struct load *load, const struct ckpt_tensor *wanted,
                        const struct manifest_tensor *saved)
{
    struct box box = box_make(wanted->start, wanted->extent, wanted->rank);
    if (!saved) {
        err_set(load->err, -ENOENT, "tensor \"%.100s\" is not in the checkpoint", wanted->name);
        err_at(load->err, load->reader->path, ERR_NO_OFFSET);
        err_advise(load->err, "load it into the model that it was saved from");
        return -ENOENT;
    }
    if (!is_convertible(wanted, saved->dtype) || saved->rank != wanted->rank ||
        memcmp(saved->shape, wanted->shape, wanted->rank * sizeof *wanted->shape) != 0)
        return mismatch_error(load, wanted, saved);
    if (box_check(&box, wanted->shape))
        return err_set(load->err, -EINVAL,
                       "tensor \"%.100s\": the requested box is not within its shape",
                       wanted->name);
    return 0;
}

static int add_items(struct load *load, const struct ckpt_tensor *wanted,
                     const struct manifest_tensor *saved, uint64_t *capacity)
{
    struct box target = box_make(wanted->start, wanted->extent, wanted->rank);
    for (uint64_t i = 0; i < saved->chunks_count; i++) {
        const struct manifest_chunk *chunk = &saved->chunks[i];
        struct box source = box_make(chunk->start, chunk->extent, wanted->rank);
        struct load_item item = {.tensor = wanted,
                                 .saved = saved->dtype,
                                 .file = chunk->file,
                                 .chunk_offset = chunk->offset_bytes};
        uint64_t elements;
        if (box_shape_volume(chunk->extent, wanted->rank, &elements) || elements == 0 ||
            !box_runs_init(&item.runs, &source, &target, saved->dtype))
            continue;
        if (load->items_count == *capacity) {
            uint64_t grown = *capacity ? *capacity * 2 : 64;
            struct load_item *items = realloc(load->items, (size_t)grown * sizeof *items);
            if (!items)
                return err_set(load->err, -ENOMEM,
                               "not enough memory to load %" PRIu64 " parts of tensors", grown);
            load->items = items;
            *capacity = grown;
        }
        item.plan = item.copy = box_runs_first(&item.runs);
        item.first_offset = item.chunk_offset + item.runs.source;
        load->items[load->items_count++] = item;
    }
    return 0;
}

static int compare_items(const void *a, const void *b)
{
    const struct load_item *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->first_offset < y->first_offset ? -1 : x->first_offset > y->first_offset;
}

/* Returns the first block at or after `from` that the item needs; UINT64_MAX: none. */
static uint64_t item_next_block(struct load_item *item, uint64_t from)
{
    while (item->plan.left > 0 &&
           item->chunk_offset + item->plan.source + item->runs.run_bytes <= from * CKPT_BLOCK_BYTES)
        box_runs_next(&item->runs, &item->plan);
    if (item->plan.left == 0)
        return UINT64_MAX;
    uint64_t block = (item->chunk_offset + item->plan.source) / CKPT_BLOCK_BYTES;
    return block > from ? block : from;
}

static bool needs_cast(const struct load_item *item)
{
    return item->saved != item->tensor->dtype;
}

/* Returns the block's destination in host memory; NULL: the block spans runs or needs a cast. */
static void *direct_target(const struct load *load, const struct load_item *item, uint64_t block)
{
    const struct manifest_file *file = &load->reader->manifest.files[item->file];
    uint64_t begin = block * CKPT_BLOCK_BYTES,
             end = begin + manifest_block_bytes(file->size_bytes, block);
    uint64_t run = item->chunk_offset + item->plan.source;
    if (load->device || needs_cast(item) || begin < run || end > run + item->runs.run_bytes)
        return NULL;
    return (char *)item->tensor->data + item->plan.target + (begin - run);
}

static bool next_block(void *context, struct block_request *ret_request)
{
    struct load *load = context;
    for (;;) {
        while (load->plan_first < load->items_count && load->items[load->plan_first].plan.left == 0)
            load->plan_first++;
        if (load->plan_first == load->items_count)
            return false;
        uint32_t file = load->items[load->plan_first].file;
        if (file != load->plan_file) {
            load->plan_file = file;
            load->plan_block = 0;
        }
        struct load_item *nearest = NULL;
        uint64_t block = UINT64_MAX;
        for (uint64_t i = load->plan_first; i < load->items_count && load->items[i].file == file &&
                                            load->items[i].first_offset / CKPT_BLOCK_BYTES < block;
             i++) {
            uint64_t candidate = item_next_block(&load->items[i], load->plan_block);
            if (candidate < block) {
                block = candidate;
                nearest = &load->items[i];
            }
        }
        if (!nearest)
            continue;
        *ret_request = (struct block_request){file, block, direct_target(load, nearest, block)};
        load->plan_block = block + 1;
        return true;
    }
}

static int copy_bytes(struct load *load, char *target, const char *source, size_t bytes)
{
    if (target == source)
        return 0; /* read in place */
    if (load->device)
        return load->device->ops->copy(load->device, load->stream, target, source, bytes,
                                       load->err);
    memcpy(target, source, bytes);
    return 0;
}

static int cast_and_store(struct load *load, const struct load_item *item, uint64_t element,
                          const char *source, uint64_t count)
{
    enum dtype dtype = item->tensor->dtype;
    size_t bytes = dtype_bytes(dtype), saved_bytes = dtype_bytes(item->saved);
    char *target = (char *)item->tensor->data + (item->copy.target / saved_bytes + element) * bytes;
    if (!load->device) {
        cast_elements(item->saved, source, dtype, target, count);
        return 0;
    }
    int status = 0;
    for (uint64_t done = 0; done < count && !status; done += CAST_ELEMENTS) {
        uint64_t part = bytes_min(CAST_ELEMENTS, count - done);
        cast_elements(item->saved, source + done * saved_bytes, dtype, load->cast, part);
        status = load->device->ops->copy(load->device, load->stream, target + done * bytes,
                                         load->cast, part * bytes, load->err);
        if (!status) /* before load->cast is reused */
            status = load->device->ops->stream_sync(load->device, load->stream, load->err);
    }
    return status;
}

/* Casts bytes at..at+bytes of a run, in order. */
static int cast_bytes(struct load *load, struct load_item *item, uint64_t at, const char *source,
                      uint64_t bytes)
{
    uint64_t saved_bytes = dtype_bytes(item->saved), begun_bytes = at % saved_bytes;
    int status = 0;
    if (begun_bytes > 0) {
        uint64_t rest = bytes_min(saved_bytes - begun_bytes, bytes);
        memcpy(item->split_element + begun_bytes, source, rest);
        if (begun_bytes + rest < saved_bytes)
            return 0;
        status = cast_and_store(load, item, at / saved_bytes, item->split_element, 1);
        at += rest;
        source += rest;
        bytes -= rest;
    }
    uint64_t count = bytes / saved_bytes;
    if (!status && count > 0)
        status = cast_and_store(load, item, at / saved_bytes, source, count);
    memcpy(item->split_element, source + count * saved_bytes, bytes % saved_bytes);
    return status;
}

static int copy_item(struct load *load, struct load_item *item, const struct block_result *result)
{
    uint64_t begin = result->block * CKPT_BLOCK_BYTES, end = begin + result->bytes;
    while (item->copy.left > 0) {
        uint64_t run = item->chunk_offset + item->copy.source, run_end = run + item->runs.run_bytes;
        uint64_t from = run > begin ? run : begin, to = bytes_min(run_end, end);
        if (from < to) {
            const char *source = result->data + (from - begin);
            int status =
                needs_cast(item)
                    ? cast_bytes(load, item, from - run, source, to - from)
                    : copy_bytes(load,
                                 (char *)item->tensor->data + item->copy.target + (from - run),
                                 source, to - from);
            if (status)
                return status;
        }
        if (run_end > end)
            break;
        box_runs_next(&item->runs, &item->copy);
    }
    return 0;
}

/* Names the first wanted tensor in the block. */
static int block_error(struct load *load, const struct block_result *result,
                       const struct load_item *item)
{
    if (load->err) {
        *load->err = *result->detail;
        snprintf(load->err->what, sizeof load->err->what, "tensor \"%.100s\": %.100s",
                 item->tensor->name, result->detail->what);
    }
    return result->status;
}

static int take_block(void *context, const struct block_result *result)
{
    struct load *load = context;
    uint64_t end = result->block * CKPT_BLOCK_BYTES + result->bytes;
    while (load->items[load->copy_first].file < result->file ||
           load->items[load->copy_first].copy.left == 0)
        load->copy_first++;
    if (result->status)
        return block_error(load, result, &load->items[load->copy_first]);
    int status = 0;
    for (uint64_t i = load->copy_first;
         i < load->items_count && load->items[i].file == result->file &&
         load->items[i].first_offset < end && !status;
         i++)
        status = copy_item(load, &load->items[i], result);
    /* before the block is overwritten */
    if (load->device && !status)
        status = load->device->ops->stream_sync(load->device, load->stream, load->err);
    return status;
}

static int collect_items(struct load *load, const struct ckpt_tensor *wanted, uint64_t wanted_count)
{
    uint64_t capacity = 0;
    for (uint64_t i = 0; i < wanted_count; i++) {
        const struct manifest_tensor *saved =
            manifest_find_tensor(&load->reader->manifest, wanted[i].name);
        int status = check_wanted(load, &wanted[i], saved);
        if (!status)
            status = add_items(load, &wanted[i], saved, &capacity);
        if (status)
            return status;
    }
    if (load->items_count > 0)
        qsort(load->items, load->items_count, sizeof *load->items, compare_items);
    return 0;
}

int ckpt_reader_load(struct ckpt_reader *reader, const struct ckpt_tensor *wanted,
                     uint64_t wanted_count, struct device *device, struct err *err)
{
    if (device && device->ops->is_host)
        device = NULL;
    struct load load = {.reader = reader, .device = device, .err = err};
    struct blocks_visitor visitor = {next_block, take_block, &load};
    int status = collect_items(&load, wanted, wanted_count);
    if (!status && device)
        status = device->ops->stream_open(device, &load.stream, err);
    if (!status)
        status = blocks_walk(reader->blocks, &visitor);
    if (load.stream)
        device->ops->stream_close(device, load.stream);
    free(load.items);
    return status;
}
