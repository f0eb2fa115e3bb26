/*
 * source_beton — the source for FFCV's datasets: a .beton file.
 *
 * Memory: 8 bytes per sample, and 16 per value if there are images, whose JPEGs have their sizes
 * only in the list of allocations.
 */
#include "base/bytes.h"
#include "convert/source/beton.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_ALLOCATIONS = 43690, /* 1 MiB */ MODE_JPEG = 0, MODE_PIXELS = 1 };

struct allocation {
    uint64_t offset, bytes;
};

struct beton_source {
    struct array_table *table;
    struct beton beton;
    struct allocation *allocations; /* by offset, except empty ones; NULL without images */
    uint64_t allocations_count;
};

static int compare_allocations(const void *a, const void *b)
{
    const struct allocation *left = a, *right = b;
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

static int damaged(struct err *err, const char *what, uint64_t found)
{
    err_set(err, -EBADMSG, "%s", what);
    err_found(err, "%" PRIu64, found);
    return -EBADMSG;
}

static int locate_image(const struct beton_source *state, const uint8_t *row,
                        struct array_location *location, struct err *err)
{
    struct array_image *image = &location->image;
    location->offset = bytes_get_u64(row + 5);
    location->is_jpeg = row[0] == MODE_JPEG;
    *image = (struct array_image){bytes_get_u16(row + 1), bytes_get_u16(row + 3), 3, false};
    location->bytes = 3 * (uint64_t)image->width * image->height;
    if (row[0] != MODE_JPEG && row[0] != MODE_PIXELS)
        return damaged(err, "an image is neither a JPEG (0) nor pixels (1)", row[0]);
    if (row[0] == MODE_PIXELS)
        return 0;
    const struct allocation *allocation =
        bsearch(&(struct allocation){.offset = location->offset}, state->allocations,
                state->allocations_count, sizeof *allocation, compare_allocations);
    if (!allocation)
        return damaged(err, "no allocation has the offset of a JPEG", location->offset);
    location->bytes = allocation->bytes;
    return 0;
}

static int find_value(const void *context, uint32_t column, const uint8_t *row,
                      struct array_location *ret_location, struct err *err)
{
    const struct beton_source *state = context;
    const struct beton_field *field = &state->beton.fields[column];
    if (field->type == BETON_IMAGE)
        return locate_image(state, row, ret_location, err);
    ret_location->offset = bytes_get_u64(row);
    ret_location->bytes = field->type == BETON_BYTES || field->type == BETON_JSON
                              ? bytes_get_u64(row + 8)
                              : array_type_bytes(&field->array);
    return 0;
}

/* ---- Opening. ---- */

static int add_columns(struct beton_source *state, uint32_t file, const char *path, struct err *err)
{
    static const enum array_form forms[BETON_TYPES_COUNT] = {
        [BETON_IMAGE] = ARRAY_PICTURE, [BETON_BYTES] = ARRAY_BYTES, [BETON_JSON] = ARRAY_JSON_TEXT};
    const struct beton *beton = &state->beton;
    struct array_part *part = calloc(1, sizeof *part);
    uint32_t number;
    int status = part ? 0 : err_set(err, -ENOMEM, "out of memory for a source");
    for (uint32_t i = 0; i < beton->fields_count && !status; i++) {
        const struct beton_field *field = &beton->fields[i];
        status =
            array_table_add_column(state->table, field->name, &field->array, path, &number, err);
        if (status)
            break;
        struct array_column *column = &state->table->columns[number];
        column->form = forms[field->type];
        column->is_elsewhere = field->type != BETON_FLOAT && field->type != BETON_INT;
        column->row_bytes = field->row_bytes;
        part->places[number] =
            (struct array_place){file, beton->rows_at + field->row_at, beton->row_bytes};
    }
    if (!status) {
        part->rows = beton->samples_count;
        status = array_table_add_part(state->table, part, err);
    }
    free(part);
    return status;
}

static int add_allocation(struct beton_source *state, uint64_t number, const char *entry,
                          const char *path, struct err *err)
{
    uint64_t sample = bytes_get_u64(entry), bytes = bytes_get_u64(entry + 16);
    uint32_t *total = sample < state->beton.samples_count ? &state->table->bytes[sample] : NULL;
    if (!total || bytes > SOURCE_ITEM_BYTES_MAX - *total) {
        err_set(err, -EBADMSG, "an allocation of an FFCV dataset is damaged or too large");
        err_at(err, path, (int64_t)(state->beton.allocations_at + number * BETON_ALLOCATION_BYTES));
        err_expected(err, "a sample below %" PRIu64 " with at most %d bytes",
                     state->beton.samples_count, SOURCE_ITEM_BYTES_MAX);
        err_found(err, "sample %" PRIu64 ", another %" PRIu64 " bytes", sample, bytes);
        return -EBADMSG;
    }
    *total += (uint32_t)bytes;
    if (state->allocations && bytes > 0)
        state->allocations[state->allocations_count++] =
            (struct allocation){bytes_get_u64(entry + 8), bytes};
    return 0;
}

static bool has_images(const struct beton *beton)
{
    for (uint32_t i = 0; i < beton->fields_count; i++)
        if (beton->fields[i].type == BETON_IMAGE)
            return true;
    return false;
}

static int read_allocations(struct io *io, struct io_queue *queue, const struct source *source,
                            struct beton_source *state, const struct array_file *file,
                            struct err *err)
{
    const struct beton *beton = &state->beton;
    struct str block = {0};
    int status = 0;
    state->table->bytes = calloc(beton->samples_count + 1, sizeof *state->table->bytes);
    if (has_images(beton))
        state->allocations = calloc(beton->allocations_count + 1, sizeof *state->allocations);
    if (!state->table->bytes || (has_images(beton) && !state->allocations))
        return err_set(err, -ENOMEM, "out of memory for %" PRIu64 " samples", beton->samples_count);
    for (uint64_t at = 0; at < beton->allocations_count && !status; at += BLOCK_ALLOCATIONS) {
        uint64_t count = bytes_min(BLOCK_ALLOCATIONS, beton->allocations_count - at);
        str_clear(&block);
        status = source->options->stop && atomic_load(source->options->stop)
                     ? err_set(err, -EINTR, "stopped while allocations were read")
                     : listed_file_read(&file->file, io, queue, file->path,
                                        beton->allocations_at + at * BETON_ALLOCATION_BYTES,
                                        count * BETON_ALLOCATION_BYTES, &block, err);
        for (uint64_t i = 0; i < count && !status; i++)
            status = add_allocation(state, at + i, block.data + i * BETON_ALLOCATION_BYTES,
                                    file->path, err);
    }
    str_deinit(&block);
    if (!status && state->allocations)
        qsort(state->allocations, state->allocations_count, sizeof *state->allocations,
              compare_allocations);
    return status;
}

static int read_file(struct io *io, struct io_queue *queue, struct source *source,
                     struct beton_source *state, struct err *err)
{
    struct str head = {0};
    uint32_t number;
    int status = array_table_add_file(state->table, io, source->options->source, &number, err);
    if (status)
        return status;
    const struct array_file *file = array_table_file(state->table, number);
    status = listed_file_read(&file->file, io, queue, file->path, 0,
                              bytes_min(file->file.bytes, BETON_HEADERS_BYTES_MAX), &head, err);
    if (!status)
        status = beton_read_headers((const uint8_t *)str_text(&head), head.bytes, file->file.bytes,
                                    file->path, &state->beton, err);
    str_deinit(&head);
    if (!status)
        status = add_columns(state, number, file->path, err);
    return status ? status : read_allocations(io, queue, source, state, file, err);
}

static int beton_open(struct io *io, struct source *source, struct err *err)
{
    struct array_table *table = NULL;
    struct io_queue *queue = NULL;
    int status = array_table_begin(source, &table, err);
    if (status)
        return status;
    struct beton_source *state = calloc(1, sizeof *state);
    if (!state)
        return err_set(err, -ENOMEM, "out of memory for a source");
    state->table = table;
    table->context = state;
    table->find_value = find_value;
    status = io->ops->queue_open(io, 1, &queue, err);
    if (!status)
        status = read_file(io, queue, source, state, err);
    if (queue)
        io->ops->queue_close(queue);
    return status ? status : array_table_finish(io, source, &(struct array_class_names){0}, err);
}

static void beton_close(struct source *source)
{
    struct array_table *table = source->state;
    struct beton_source *state = table ? (void *)(uintptr_t)table->context : NULL;
    if (state)
        free(state->allocations);
    free(state);
    array_table_close(source);
}

static bool is_beton(const struct source_layout *layout)
{
    return layout->file && str_ends_with_nocase(layout->file, ".beton");
}

const struct source_ops source_beton_ops = {
    .name = "beton",
    .has_columns = true,
    .probe = is_beton,
    .open = beton_open,
    .close = beton_close,
    .describe = array_table_describe,
    .read = array_table_read,
    .reader_open = array_table_reader_open,
    .reader_close = array_table_reader_close,
};
