/*
 * array_table — see array_table.h.
 */
#include "convert/source/array_table.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "base/json/jsonx.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_BLOCK_BYTES = 1 << 20 };

struct table_reader {
    struct str row, scratch;
};

/* ---- Opening. ---- */

int array_table_begin(struct source *source, struct array_table **ret_table, struct err *err)
{
    struct array_table *table = source->state = calloc(1, sizeof *table);
    if (table)
        table->parts = calloc(ARRAY_PARTS_MAX, sizeof *table->parts);
    if (!table || !table->parts)
        return err_set(err, -ENOMEM, "out of memory for a source");
    *ret_table = table;
    return 0;
}

void array_table_close(struct source *source)
{
    struct array_table *table = source->state;
    if (!table)
        return;
    free(table->parts);
    free(table->classes);
    free(table->bytes);
    str_deinit(&table->files);
    str_deinit(&table->left_out);
    free(table);
}

int array_table_add_file(struct array_table *table, struct io *io, const char *path,
                         uint32_t *ret_file, struct err *err)
{
    struct array_file file = {.path = ""};
    struct io_stat info;
    int status = io->names->stat(io, path, &info, err);
    if (status)
        return status;
    snprintf(file.path, sizeof file.path, "%s", path);
    listed_file_set(&file.file, &info);
    *ret_file = (uint32_t)(table->files.bytes / sizeof file);
    str_add(&table->files, &file, sizeof file);
    return str_status(&table->files) ? err_set(err, -ENOMEM, "out of memory for a source") : 0;
}

static bool type_is_same(const struct array_type *a, const struct array_type *b)
{
    return a->dtype == b->dtype && a->is_big_endian == b->is_big_endian && a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0;
}

static int reject_type(const struct array_column *column, const struct array_type *type,
                       const char *path, struct err *err)
{
    struct str expected = {0}, found = {0};
    array_type_describe(&column->type, &expected);
    array_type_describe(type, &found);
    err_set(err, -EINVAL, "rows of column \"%.100s\" differ between splits", column->name);
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "%s", str_text(&expected));
    err_found(err, "%s%s", str_text(&found), type->is_big_endian ? ", big-endian" : "");
    str_deinit(&expected);
    str_deinit(&found);
    return -EINVAL;
}

int array_table_add_column(struct array_table *table, const char *name,
                           const struct array_type *type, const char *path, uint32_t *ret_column,
                           struct err *err)
{
    uint64_t bytes = array_type_bytes(type);
    size_t name_bytes = strlen(name);
    for (uint32_t i = 0; i < table->columns_count; i++)
        if (strcmp(table->columns[i].name, name) == 0) {
            *ret_column = i;
            return type_is_same(&table->columns[i].type, type)
                       ? 0
                       : reject_type(&table->columns[i], type, path, err);
        }
    if (bytes == 0 || bytes > SOURCE_ITEM_BYTES_MAX || name_bytes >= COLUMN_NAME_BYTES_MAX ||
        utf8_valid_bytes(name, name_bytes) != name_bytes) {
        err_set(err, -EFBIG, "a column cannot be converted");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "rows of 1 to %d bytes, and a name of at most %d bytes of UTF-8",
                     SOURCE_ITEM_BYTES_MAX, COLUMN_NAME_BYTES_MAX - 1);
        err_found(err, "\"%.100s\" with rows of %" PRIu64 " bytes", name, bytes);
        return -EFBIG;
    }
    if (table->columns_count == ARRAY_COLUMNS_MAX) {
        err_set(err, -E2BIG, "there are too many columns");
        err_at(err, path, ERR_NO_OFFSET);
        err_expected(err, "at most %d", ARRAY_COLUMNS_MAX);
        err_advise(err, "choose some with --column NAME=FIELD, or, if each .npy file is a sample, "
                        "add --fields npy");
        return -E2BIG;
    }
    struct array_column *column = &table->columns[ *ret_column = table->columns_count++];
    column->form = ARRAY_NUMBERS;
    column->type = *type;
    column->row_bytes = bytes;
    strcpy(column->name, name);
    return 0;
}

void array_table_leave_out(struct array_table *table, const char *name)
{
    str_add_format(&table->left_out, "%s%s", table->left_out.bytes > 0 ? ", " : "", name);
}

int array_table_add_part(struct array_table *table, const struct array_part *part, struct err *err)
{
    if (table->parts_count == ARRAY_PARTS_MAX)
        return err_set(err, -E2BIG, "there are more than %d files or splits", ARRAY_PARTS_MAX);
    struct array_part *added = &table->parts[table->parts_count++];
    *added = *part;
    for (uint32_t i = 0; i + 1 < table->parts_count; i++) {
        added->first_item += table->parts[i].rows;
        if (table->parts[i].split == part->split)
            added->first_row += table->parts[i].rows;
    }
    return 0;
}

/* ---- Classes. ---- */

static const struct array_column *find_class(const struct array_table *table, uint32_t *ret_column)
{
    for (uint32_t i = 0; i < table->columns_count; i++)
        if (table->columns[i].use == ARRAY_CLASS) {
            *ret_column = i;
            return &table->columns[i];
        }
    return NULL;
}

static int reject_label(const struct array_column *column, const char *path, uint64_t offset,
                        uint64_t row, int64_t value, struct err *err)
{
    err_set(err, -EBADMSG, "a label in column \"%.100s\" is not a class number", column->name);
    err_at(err, path, (int64_t)offset);
    err_expected(err, "0 to %d", FILE_LIST_CLASSES_MAX - 1);
    err_found(err, "%" PRId64 " in row %" PRIu64 ", counted from 0", value, row);
    err_advise(err, "renumber the labels, or store numbers with --column '%.60s=%.40s:int'",
               column->name, column->name);
    return -EBADMSG;
}

/* Reads the labels of a part, some rows at a time. */
static int read_part_labels(struct io *io, struct io_queue *queue, const struct source *source,
                            const struct array_part *part, uint32_t number, struct err *err)
{
    struct array_table *table = source->state;
    const struct array_column *column = &table->columns[number];
    const struct array_place *place = &part->places[number];
    const struct array_file *file = array_table_file(table, place->file);
    uint64_t rows_max = bytes_max(1, LABEL_BLOCK_BYTES / place->stride_bytes);
    struct str block = {0};
    int status = 0;
    for (uint64_t row = 0; row < part->rows && !status; row += rows_max) {
        uint64_t rows = bytes_min(rows_max, part->rows - row),
                 at = place->offset + row * place->stride_bytes;
        str_clear(&block);
        status = source->options->stop && atomic_load(source->options->stop)
                     ? err_set(err, -EINTR, "stopped while labels were read")
                     : listed_file_read(&file->file, io, queue, file->path, at,
                                        (rows - 1) * place->stride_bytes + column->row_bytes,
                                        &block, err);
        for (uint64_t i = 0; i < rows && !status; i++) {
            uint8_t *data = (uint8_t *)block.data + i * place->stride_bytes;
            int64_t value;
            array_make_little_endian(&column->type, data);
            if (!array_integer(column->type.dtype, data, 0, &value) || value < 0 ||
                value >= FILE_LIST_CLASSES_MAX)
                status = reject_label(column, file->path, at + i * place->stride_bytes, row + i,
                                      value, err);
            else
                table->classes[part->first_item + row + i] = (uint32_t)value;
        }
    }
    str_deinit(&block);
    return status;
}

/* Names the classes up to the largest label. */
static int name_classes(struct source *source, const struct array_class_names *names,
                        struct err *err)
{
    struct array_table *table = source->state;
    uint64_t count = names->count;
    uint32_t largest = 0;
    for (uint64_t i = 0; i < source->items_count; i++)
        largest = table->classes[i] > largest ? table->classes[i] : largest;
    if (count == 0)
        count = (uint64_t)largest + 1;
    if (largest >= count) {
        err_set(err, -EBADMSG, "a label has no class name");
        err_at(err, source->options->source, ERR_NO_OFFSET);
        err_expected(err, "0 to %" PRIu64, count - 1);
        err_found(err, "%" PRIu32, largest);
        return -EBADMSG;
    }
    source->classes = calloc(count, sizeof *source->classes);
    for (uint64_t i = 0; i < count && source->classes; i++) {
        char digits[24];
        snprintf(digits, sizeof digits, "%" PRIu64, i);
        source->classes[i] = strdup(names->names ? names->names[i] : digits);
        if (!source->classes[i])
            break;
        source->classes_count++;
    }
    return source->classes_count == count ? 0
                                          : err_set(err, -ENOMEM, "out of memory for class names");
}

static int read_classes(struct io *io, struct source *source, const struct array_class_names *names,
                        struct err *err)
{
    struct array_table *table = source->state;
    struct io_queue *queue;
    uint32_t number;
    const struct array_column *column = find_class(table, &number);
    if (!column)
        return 0;
    table->classes = calloc(source->items_count, sizeof *table->classes);
    if (!table->classes)
        return err_set(err, -ENOMEM, "out of memory for %" PRIu64 " labels", source->items_count);
    int status = io->ops->queue_open(io, 1, &queue, err);
    if (status)
        return status;
    for (uint32_t i = 0; i < table->parts_count && !status; i++)
        status = read_part_labels(io, queue, source, &table->parts[i], number, err);
    io->ops->queue_close(queue);
    while (names->column && strcmp(names->column, column->name) != 0)
        names++;
    return status ? status : name_classes(source, names, err);
}

static int identify(struct source *source, struct err *err)
{
    const struct array_table *table = source->state;
    struct hash_stream *hash = hash_stream_open();
    if (!hash)
        return err_set(err, -ENOMEM, "out of memory for a source");
    for (uint32_t i = 0; i < table->files.bytes / sizeof(struct array_file); i++) {
        const struct array_file *file = array_table_file(table, i);
        const char *slash = strrchr(file->path, '/'), *base = slash ? slash + 1 : file->path;
        hash_stream_update(hash, base, strlen(base) + 1);
        hash_stream_update(hash, &file->file.bytes, sizeof file->file.bytes);
        source->bytes += file->file.bytes;
    }
    for (uint32_t i = 0; i < table->columns_count; i++) {
        const struct array_column *column = &table->columns[i];
        hash_stream_update(hash, column->name, strlen(column->name) + 1);
        hash_stream_update(hash, &column->use, sizeof column->use);
        hash_stream_update(hash, column->field, strlen(column->field) + 1);
    }
    if (table->classes)
        hash_stream_update(hash, table->classes, source->items_count * sizeof *table->classes);
    for (uint64_t i = 0; i < source->classes_count; i++)
        hash_stream_update(hash, source->classes[i], strlen(source->classes[i]) + 1);
    hash_stream_update(hash, table->rest, strlen(table->rest) + 1);
    source->identity = hash_stream_64(hash);
    hash_stream_close(hash);
    return 0;
}

/* Every part needs every column, and every split a row. */
static int check_parts(const struct source *source, struct err *err)
{
    const struct array_table *table = source->state;
    uint64_t rows[CONVERT_SPLITS_MAX] = {0};
    for (uint32_t i = 0; i < table->parts_count; i++)
        rows[table->parts[i].split] += table->parts[i].rows;
    for (uint32_t i = 0; i < table->parts_count * table->columns_count; i++) {
        const struct array_part *part = &table->parts[i / table->columns_count];
        const struct array_column *column = &table->columns[i % table->columns_count];
        if (part->places[i % table->columns_count].stride_bytes > 0)
            continue;
        err_set(err, -EINVAL, "split %s has no column \"%.100s\", which another split has",
                source->options->splits[part->split].name, column->name);
        err_at(err, source->options->source, ERR_NO_OFFSET);
        err_advise(err, "choose the common columns with --column NAME=FIELD");
        return -EINVAL;
    }
    for (uint32_t i = 0;
         source_has_split_folders(source->options) && i < source->options->splits_count; i++)
        if (rows[i] == 0) {
            err_set(err, -ENODATA, "split %s has no rows", source->options->splits[i].name);
            err_at(err, source->options->source, ERR_NO_OFFSET);
            err_advise(err, "leave out its files with --ignore GLOB");
            return -ENODATA;
        }
    return 0;
}

int array_table_finish(struct io *io, struct source *source, const struct array_class_names *names,
                       struct err *err)
{
    struct array_table *table = source->state;
    struct columns *mappings = calloc(1, sizeof *mappings);
    struct str text = {0};
    int status = mappings ? columns_parse(&source->options->columns, mappings, err)
                          : err_set(err, -ENOMEM, "out of memory for columns");
    if (!status)
        status = array_columns_choose(table, mappings, source->options->source, err);
    free(mappings);
    for (uint32_t i = 0; i < table->parts_count; i++)
        source->items_count += table->parts[i].rows;
    if (status || source->items_count == 0)
        return status;
    array_columns_describe(table, &text);
    log_line(source->options->log, LOG_INFO, "%s: %s", source->options->source, str_text(&text));
    str_deinit(&text);
    status = check_parts(source, err);
    if (!status)
        status = read_classes(io, source, names, err);
    return status ? status : identify(source, err);
}

/* ---- Reading. ---- */

static const struct array_part *find_part(const struct array_table *table, uint64_t item)
{
    const struct array_part *part = table->parts;
    while (item >= part->first_item + part->rows)
        part++;
    return part;
}

static bool is_field(const struct array_column *column)
{
    return column->use != ARRAY_LEFT_OUT && column->use != ARRAY_CLASS &&
           column->use != ARRAY_MEMBER;
}

void array_table_describe(const struct source *source, uint64_t number, struct source_item *item)
{
    const struct array_table *table = source->state;
    const struct array_part *part = find_part(table, number);
    snprintf(item->key, sizeof item->key, "%08" PRIu64,
             number - part->first_item + part->first_row);
    item->split = source_has_split_folders(source->options)
                      ? part->split
                      : source_choose_split(source->options, item->key);
    if (table->classes)
        item->class_number = table->classes[number];
    item->bytes = table->bytes ? table->bytes[number] : 0;
    for (uint32_t i = 0; i < table->columns_count; i++)
        if (is_field(&table->columns[i]) || table->columns[i].use == ARRAY_MEMBER)
            item->bytes += table->columns[i].row_bytes;
}

int array_table_reader_open(struct source_reader *reader, struct err *err)
{
    reader->state = calloc(1, sizeof(struct table_reader));
    return reader->state ? 0 : err_set(err, -ENOMEM, "out of memory for a row");
}

void array_table_reader_close(struct source_reader *reader)
{
    struct table_reader *state = reader->state;
    if (!state)
        return;
    str_deinit(&state->row);
    str_deinit(&state->scratch);
    free(state);
}

/* Moves an error of a value to its place. */
static void locate(const struct array_file *file, uint64_t offset, struct err *err)
{
    err_at(err, file->path, (int64_t)offset);
    err_advise(err, "leave out the column, or store it with --column NAME=NAME.npy");
}

static int write_json_text(struct str *row, const char *key, struct jsonx_writer *json,
                           struct err *err)
{
    struct json_t *root = NULL;
    size_t bytes =
        row->bytes > 0 && row->data[row->bytes - 1] == '\0' ? row->bytes - 1 : row->bytes;
    int status = jsonx_parse_value(str_text(row), bytes, "", 0, &root, err);
    jsonx_free(root);
    if (!status)
        jsonx_write_raw(json, key, row->data, bytes);
    return status;
}

/* Stores a value: state->row. */
static int store_value(struct table_reader *state, const struct array_column *column,
                       const struct array_location *location, const char *path, struct str *out,
                       struct jsonx_writer *json, struct err *err)
{
    uint8_t *data = (uint8_t *)state->row.data;
    const char *key = column->use == ARRAY_MEMBER ? column->name : NULL;
    if (column->form == ARRAY_NUMBERS)
        array_make_little_endian(&column->type, data);
    if (column->use == ARRAY_FILE || (column->use == ARRAY_IMAGE && location->is_jpeg))
        str_add(out, data, state->row.bytes);
    else if (column->use == ARRAY_IMAGE)
        return array_store_image(&location->image, data, path, &state->scratch, out, err);
    else if (column->use == ARRAY_NPY)
        array_store_npy(&column->type, data, out);
    else if (column->form == ARRAY_JSON_TEXT)
        return write_json_text(&state->row, key, json, err);
    else
        return array_write_json(&column->type, data, key, json, err);
    return 0;
}

/* Reads a row, or the value that it locates, into state->row. */
static int read_value(struct source_reader *reader, const struct array_table *table,
                      uint32_t number, const struct array_file *file, uint64_t offset,
                      struct array_location *location, struct err *err)
{
    struct table_reader *state = reader->state;
    const struct array_column *column = &table->columns[number];
    str_clear(&state->row);
    int status = listed_file_read(&file->file, reader->io, reader->queue, file->path, offset,
                                  column->row_bytes, &state->row, err);
    if (status || !column->is_elsewhere)
        return status;
    status =
        table->find_value(table->context, number, (const uint8_t *)state->row.data, location, err);
    if (!status &&
        (location->offset > file->file.bytes ||
         location->bytes > bytes_min(file->file.bytes - location->offset, SOURCE_ITEM_BYTES_MAX))) {
        status = err_set(err, -EBADMSG, "a value lies outside the file");
        err_found(err, "%" PRIu64 " bytes at %" PRIu64, location->bytes, location->offset);
    }
    if (status) {
        err_at(err, file->path, (int64_t)offset);
        return status;
    }
    str_clear(&state->row);
    return listed_file_read(&file->file, reader->io, reader->queue, file->path, location->offset,
                            location->bytes, &state->row, err);
}

/* Stores a column's row. json: the object of the members. */
static int store_row(struct source_reader *reader, const struct array_part *part, uint32_t number,
                     uint64_t row, struct source_sample *sample, struct jsonx_writer *json,
                     struct err *err)
{
    const struct array_table *table = reader->source->state;
    const struct array_column *column = &table->columns[number];
    const struct array_place *place = &part->places[number];
    const struct array_file *file = array_table_file(table, place->file);
    uint64_t offset = place->offset + row * place->stride_bytes;
    size_t start = sample->data.bytes;
    struct array_location location = {.offset = offset, .image = column->image};
    int status = read_value(reader, table, number, file, offset, &location, err);
    if (status)
        return status;
    status = store_value(reader->state, column, &location, file->path, &sample->data, json, err);
    if (status == -EBADMSG)
        locate(file, location.offset, err);
    if (status || !is_field(column))
        return status;
    char field[SHARD_EXTENSION_BYTES_MAX];
    snprintf(field, sizeof field, "%s%s", column->field,
             column->form != ARRAY_PICTURE ? ""
             : location.is_jpeg            ? "jpg"
                                           : "png");
    source_end_field(sample, field, start, file->path);
    return 0;
}

int array_table_read(struct source_reader *reader, const struct source_item *item,
                     struct source_sample *sample, struct err *err)
{
    const struct array_table *table = reader->source->state;
    const struct array_part *part = find_part(table, item->number);
    uint64_t row = item->number - part->first_item;
    int status = 0;
    for (uint32_t i = 0; i < table->columns_count && !status; i++)
        if (is_field(&table->columns[i]))
            status = store_row(reader, part, i, row, sample,
                               &(struct jsonx_writer){.out = &sample->data}, err);
    if (status || !table->rest[0])
        return status;
    size_t start = sample->data.bytes;
    struct jsonx_writer json = {.out = &sample->data};
    jsonx_begin_object(&json, NULL);
    for (uint32_t i = 0; i < table->columns_count && !status; i++)
        if (table->columns[i].use == ARRAY_MEMBER)
            status = store_row(reader, part, i, row, sample, &json, err);
    jsonx_end_object(&json);
    if (!status)
        source_end_field(sample, table->rest, start, reader->source->options->source);
    return status;
}
