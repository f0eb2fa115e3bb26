/*
 * source_table — the source for lists in JSON Lines, CSV or TSV, and for Hugging Face's folders
 * with metadata. A row is an item.
 */
#include "convert/source/class_numbers.h"
#include "convert/source/file_names.h"
#include "convert/source/table_folder.h"
#include "convert/source/table_listing.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table_reader {
    struct table_sampler sampler;
    struct str text;
    struct row_listing *listing;    /* to repeat the listing of bad rows */
    const struct listed_rows *rows; /* those of handle */
    struct io_file *handle;
};

/* Renumbers the rows' classes. */
static int set_classes(struct source *source, struct err *err)
{
    struct table_listing *listing = source->state;
    return class_numbers_set(source, &listing->class_names,
                             (uint32_t *)(void *)listing->classes.data,
                             listing->classes.bytes / sizeof(uint32_t), err);
}

/* relative: the split folder, or "". */
static int add_list(struct io *io, struct source *source, bool is_folder, const char *relative,
                    struct hash_stream *hash, struct err *err)
{
    struct table_listing *listing = source->state;
    const struct convert_options *options = source->options;
    char path[IO_PATH_BYTES_MAX], delimiter = 0;
    struct io_head head = {0};
    int status = is_folder ? table_folder_find(io, options, relative, path, err)
                           : io_join_path("", options->source, path, err);
    if (!status && !table_detect(path, NULL, 0, &delimiter)) {
        status = io_read_head(io, path, SOURCE_HEAD_BYTES, &head, err);
        if (!status)
            table_detect(path, head.data, head.bytes, &delimiter);
        free(head.data);
    }
    struct listed_rows *rows = &listing->lists[listing->lists_count++];
    rows->first_row = source->items_count;
    if (!status)
        status = table_list_init(&rows->list, io, path, delimiter, err);
    if (!status)
        status =
            table_listing_add(listing, io, options, rows, is_folder, hash, &source->bytes, err);
    if (status)
        return status;
    source->items_count += listed_rows_count(rows);
    return is_folder ? table_folder_check(io, source, relative,
                                          (uint64_t *)(void *)listing->path_hashes.data,
                                          listing->path_hashes.bytes / sizeof(uint64_t), err)
                     : 0;
}

static int list_source(struct io *io, struct source *source, struct hash_stream *hash,
                       struct err *err)
{
    struct table_listing *listing = source->state;
    const struct convert_options *options = source->options;
    struct io_stat info;
    bool is_split = source_has_split_folders(options);
    uint32_t lists = is_split ? options->splits_count : 1;
    int status = io->names->stat(io, options->source, &info, err);
    if (!status)
        status = columns_parse(&options->columns, &listing->columns, err);
    listing->lists = calloc(lists, sizeof *listing->lists);
    if (!status && !listing->lists)
        status = err_set(err, -ENOMEM, "out of memory for a list");
    listing->keeps_paths = !status && info.kind == IO_ENTRY_FOLDER;
    for (uint32_t i = 0; i < lists && !status; i++)
        status = add_list(io, source, listing->keeps_paths, is_split ? options->splits[i].name : "",
                          hash, err);
    return status;
}

static int table_open(struct io *io, struct source *source, struct err *err)
{
    struct table_listing *listing = source->state = calloc(1, sizeof *listing);
    struct hash_stream *hash = hash_stream_open();
    int status = listing && hash ? list_source(io, source, hash, err)
                                 : err_set(err, -ENOMEM, "out of memory for a source");
    if (!status)
        status = set_classes(source, err);
    if (!status) {
        columns_hash(&listing->columns, hash);
        source->identity = hash_stream_64(hash);
    }
    hash_stream_close(hash);
    return status;
}

static void table_close(struct source *source)
{
    if (!source->state)
        return;
    table_listing_deinit(source->state);
    free(source->state);
}

static const struct listed_rows *find_rows(const struct table_listing *listing, uint64_t number)
{
    uint32_t list = 0;
    while (number >= listing->lists[list].first_row + listed_rows_count(&listing->lists[list]))
        list++;
    return &listing->lists[list];
}

static const struct listed_row *find_row(const struct listed_rows *rows, uint64_t number)
{
    return (const struct listed_row *)(const void *)rows->rows.data + (number - rows->first_row);
}

static const struct row_file *find_files(const struct table_listing *listing, uint64_t number)
{
    const struct row_file *files = (const struct row_file *)(const void *)listing->files.data;
    return listing->files_per_row ? files + number * listing->files_per_row : NULL;
}

static void table_describe(const struct source *source, uint64_t number, struct source_item *item)
{
    const struct table_listing *listing = source->state;
    const struct listed_rows *rows = find_rows(listing, number);
    const struct listed_row *row = find_row(rows, number);
    const struct row_file *files = find_files(listing, number);
    uint64_t within = number - rows->first_row;
    if (name_set_count(&rows->keys) > 0 && !row->is_bad)
        snprintf(item->key, sizeof item->key, "%s", name_set_at(&rows->keys, within));
    else
        snprintf(item->key, sizeof item->key, "%08" PRIu64, within);
    item->split = source_has_split_folders(source->options)
                      ? (uint32_t)(rows - listing->lists)
                      : source_choose_split(source->options, item->key);
    if (source->classes_count > 0)
        item->class_number = ((const uint32_t *)(const void *)listing->classes.data)[number];
    item->bytes = row->bytes;
    for (uint32_t i = 0; i < listing->files_per_row; i++)
        item->bytes += files[i].bytes;
}

static int table_reader_open(struct source_reader *reader, struct err *err)
{
    const struct table_listing *listing = reader->source->state;
    struct table_reader *state = reader->state = calloc(1, sizeof *state);
    if (!state)
        return err_set(err, -ENOMEM, "out of memory for a list");
    state->sampler = (struct table_sampler){.columns = &listing->columns, .io = reader->io};
    state->listing = calloc(1, sizeof *state->listing);
    return state->listing ? 0 : err_set(err, -ENOMEM, "out of memory for a list");
}

static void table_reader_close(struct source_reader *reader)
{
    struct table_reader *state = reader->state;
    if (!state)
        return;
    if (state->handle)
        reader->io->ops->file_close(state->handle);
    table_sampler_deinit(&state->sampler);
    str_deinit(&state->text);
    free(state->listing);
    free(state);
}

static int open_list(struct source_reader *reader, const struct listed_rows *rows, struct err *err)
{
    struct table_reader *state = reader->state;
    if (state->rows == rows)
        return 0;
    if (state->handle)
        reader->io->ops->file_close(state->handle);
    state->rows = NULL;
    state->handle = NULL;
    int status = reader->io->ops->file_open(reader->io, rows->list.path, &state->handle, err);
    if (!status)
        state->rows = rows;
    return status;
}

/* Reads the text of a row into state->text. */
static int read_row(struct source_reader *reader, const struct listed_rows *rows,
                    const struct listed_row *row, struct err *err)
{
    struct table_reader *state = reader->state;
    const struct table_list *list = &rows->list;
    str_clear(&state->text);
    int status = open_list(reader, rows, err);
    if (!status && str_reserve(&state->text, row->bytes))
        status = err_set(err, -ENOMEM, "out of memory for a row of %" PRIu32 " bytes", row->bytes);
    if (!status)
        status = io_read_exact(reader->queue, reader->io, state->handle, list->path, row->offset,
                               state->text.data, row->bytes, err);
    return status ? status
                  : listed_file_check(&list->file, reader->io, state->handle, list->path, err);
}

static int table_read(struct source_reader *reader, const struct source_item *item,
                      struct source_sample *sample, struct err *err)
{
    const struct table_listing *listing = reader->source->state;
    struct table_reader *state = reader->state;
    const struct listed_rows *rows = find_rows(listing, item->number);
    const struct listed_row *row = find_row(rows, item->number);
    const struct table_row_at at = {row->offset, row->bytes, row->line};
    struct err detail = {0};
    int status = read_row(reader, rows, row, err);
    if (status)
        return status;
    if (!row->is_bad) {
        status =
            table_sample_read(&state->sampler, &rows->list, &at, state->text.data,
                              find_files(listing, item->number), reader->queue, sample, &detail);
    } else {
        status = table_sample_list(&state->sampler, &rows->list, &at, state->text.data,
                                   state->listing, &detail);
        if (!status) {
            status = err_set(&detail, -ESTALE, "a file of the row changed after it was listed");
            table_list_locate(&rows->list, &at, &detail);
        }
    }
    if (status && err)
        *err = detail;
    return status;
}

static bool is_table(const struct source_layout *layout)
{
    char delimiter;
    if (!layout->file)
        return layout->has_metadata && !layout->has_tokenizer;
    return table_detect(layout->file, layout->head, layout->head_bytes, &delimiter);
}

const struct source_ops source_table_ops = {
    .name = "table",
    .has_columns = true,
    .probe = is_table,
    .open = table_open,
    .close = table_close,
    .describe = table_describe,
    .read = table_read,
    .reader_open = table_reader_open,
    .reader_close = table_reader_close,
};
