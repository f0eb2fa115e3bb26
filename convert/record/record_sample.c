/*
 * record_sample — see record_sample.h.
 */
#include "convert/record/record_sample.h"

#include "convert/record/record_row.h"
#include "image/formats/pixels.h"
#include "shards/format/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void record_sampler_deinit(struct record_sampler *sampler)
{
    table_row_deinit(&sampler->row);
    str_deinit(&sampler->text);
}

static int reject_file(const struct column *column, const char *what, const char *advice,
                       struct err *err)
{
    err_set(err, -EBADMSG, "column \"%.100s\" %s", column->name, what);
    err_advise(err, "%s", advice);
    return -EBADMSG;
}

static bool is_prefix(const char *field)
{
    size_t bytes = strlen(field);
    return bytes == 0 || field[bytes - 1] == '.';
}

/* The field of an element: that of the mapping, if it is complete. Else its prefix, the number of
 * the element, and the type. */
static int element_field(const struct column *column, const struct record_value *value,
                         uint64_t index, const char *type, char field[SHARD_EXTENSION_BYTES_MAX],
                         struct err *err)
{
    int bytes = 0;
    if (!is_prefix(column->field))
        strcpy(field, column->field);
    else if (value->is_numbered)
        bytes = snprintf(field, SHARD_EXTENSION_BYTES_MAX, "%s%" PRIu64 ".%s", column->field, index,
                         type);
    else
        bytes = snprintf(field, SHARD_EXTENSION_BYTES_MAX, "%s%s", column->field, type);
    return bytes < SHARD_EXTENSION_BYTES_MAX
               ? 0
               : reject_file(column, "gives a field that is too long", "name a shorter one", err);
}

static int add_strings(const struct column *column, const struct record *record,
                       const struct record_value *value, const char *name,
                       struct source_sample *sample, struct err *err)
{
    bool is_many = value->is_numbered && is_prefix(column->field);
    int status = 0;
    if (value->count == 0 && !is_many)
        return reject_file(column, "has no value", "skip such records with --on-error skip", err);
    if (value->count > 1 && !is_many)
        return reject_file(column, "has several values",
                           value->is_numbered ? "end the field with a dot, as in image.:image"
                                              : "store one value in each column",
                           err);
    for (uint64_t i = 0; i < value->count && !status; i++) {
        char field[SHARD_EXTENSION_BYTES_MAX];
        size_t bytes, start = sample->data.bytes;
        const char *data = record_string(record, value, i, &bytes);
        if (column->kind == COLUMN_IMAGE && image_kind_of(data, bytes) == IMAGE_UNKNOWN)
            return reject_file(column, "is not an image: expected JPEG, PNG, WebP or PPM",
                               "store other bytes with the kind file", err);
        status = element_field(
            column, value, i,
            value->kind == RECORD_JSON ? "json" : table_image_extension(data, bytes), field, err);
        if (!status && sample->fields_count == SHARD_FIELDS_MAX - 1) /* and the class */
            status = reject_file(column, "has too many values for one sample",
                                 "leave it out, or split the record", err);
        if (!status) {
            str_add(&sample->data, data, bytes);
            status = table_end_field(sample, column, field, start, name, err);
        }
    }
    return status;
}

static int add_array(const struct column *column, const struct record *record,
                     const struct record_value *value, const char *name,
                     struct source_sample *sample, struct err *err)
{
    uint8_t header[NPY_ARRAY_HEADER_BYTES];
    char field[SHARD_EXTENSION_BYTES_MAX];
    size_t start = sample->data.bytes, length;
    int status = element_field(column, value, 0, "npy", field, err);
    length = status ? 0 : strlen(field);
    if (!status && strcmp(field, "npy") != 0 &&
        (length < 5 || strcmp(field + length - 4, ".npy") != 0))
        status = reject_file(column, "holds numbers, not a file",
                             "use the field npy or x.npy, or a kind such as :int or :json", err);
    if (status)
        return status;
    npy_encode_array_header(value->dtype, value->rank, value->shape, header);
    str_add(&sample->data, header, sizeof header);
    str_add(&sample->data, record_numbers(record, value), value->count * dtype_bytes(value->dtype));
    return table_end_field(sample, column, field, start, name, err);
}

static int add_column(struct record_sampler *sampler, const struct columns *columns,
                      const struct column *column, const struct record *record, const char *name,
                      struct source_sample *sample, struct err *err)
{
    size_t start = sample->data.bytes;
    bool is_absent = false;
    if (column->kind == COLUMN_KEY || column->kind == COLUMN_CLASS)
        return 0;
    if (!column_is_file(column)) {
        int status =
            column_store_value(columns, column, &sampler->row, &sample->data, &is_absent, err);
        return status || is_absent
                   ? status
                   : table_end_field(sample, column, column->field, start, name, err);
    }
    const struct record_value *value = record_find(record, column->name);
    if (!value)
        return reject_file(column, "has no value", "skip such records with --on-error skip", err);
    return value->kind == RECORD_NUMBERS ? add_array(column, record, value, name, sample, err)
                                         : add_strings(column, record, value, name, sample, err);
}

/* Makes the row of a record. */
static int parse_row(struct record_sampler *sampler, const struct columns *columns,
                     const struct record *record, struct err *err)
{
    static const struct table_format format = {0};
    bool needs_tree = false;
    str_clear(&sampler->text);
    int status = record_write_row(record, columns, &sampler->text, err);
    for (uint32_t i = 0; i < columns->count; i++)
        needs_tree |= columns->items[i].name[0] == '$';
    sampler->row.format = &format;
    return status ? status
                  : table_row_parse(&sampler->row, sampler->text.data, sampler->text.bytes,
                                    needs_tree ? TABLE_ROW_TREE : TABLE_ROW_KNOWN, err);
}

static int locate(const struct record *record, int status, struct err *err)
{
    if (status && err && !err->path[0])
        err_at(err, record->path, (int64_t)record->offset);
    return status;
}

int record_sample_read(struct record_sampler *sampler, const struct columns *columns,
                       const struct record *record, const char *name, struct source_sample *sample,
                       struct err *err)
{
    int status = parse_row(sampler, columns, record, err);
    for (uint32_t i = 0; i < columns->count && !status; i++)
        status = add_column(sampler, columns, &columns->items[i], record, name, sample, err);
    if (sampler->row.status || (!status && str_status(&sample->data)))
        return err_set(err, -ENOMEM, "out of memory for a sample");
    return locate(record, status, err);
}

int record_sample_text(struct record_sampler *sampler, const struct column *column,
                       const struct record *record, char text[COLUMN_TEXT_BYTES_MAX],
                       struct err *err)
{
    struct columns columns = {.items = {*column}, .count = 1};
    int status = parse_row(sampler, &columns, record, err);
    if (!status)
        status = column_text(column, &sampler->row, text, err);
    if (!status && sampler->row.status)
        status = err_set(err, -ENOMEM, "out of memory for a record");
    return locate(record, status, err);
}
