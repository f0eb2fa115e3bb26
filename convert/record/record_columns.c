/*
 * record_columns — see record_columns.h.
 */
#include "convert/record/record_columns.h"

#include "base/json/jsonx_writer.h"
#include "convert/record/record_row.h"
#include "image/formats/pixels.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_image(const struct record *record, const struct record_value *value)
{
    size_t bytes;
    if (value->kind != RECORD_STRINGS || value->count == 0)
        return false;
    const char *data = record_string(record, value, 0, &bytes);
    return image_kind_of(data, bytes) != IMAGE_UNKNOWN;
}

static bool is_class(const struct record *record, const struct record_value *value)
{
    const char *name = record_name(record, value);
    int64_t number = 0;
    if ((value->is_list && value->count != 1) || value->rank > (value->is_list ? 1 : 0))
        return false;
    if (value->kind == RECORD_NUMBERS && value->dtype == DTYPE_I64)
        memcpy(&number, record_numbers(record, value), sizeof number);
    return (column_name_is_class(name) || strcmp(name, "image/class/label") == 0) &&
           value->kind != RECORD_JSON && number >= 0 &&
           (value->kind != RECORD_NUMBERS ||
            (value->dtype != DTYPE_F16 && value->dtype != DTYPE_F32 && value->dtype != DTYPE_F64));
}

struct found {
    const struct record_value *values[RECORD_VALUES_MAX];
    uint32_t count;
};

static void add_found(struct found *found, const struct record_value *value)
{
    found->values[found->count++] = value;
}

static int add_mapping(struct columns *columns, const char *name, const char *field,
                       enum column_kind kind, struct err *err)
{
    if (columns->count == SHARD_FIELDS_MAX - 2) {
        err_set(err, -EINVAL, "a record has more columns with bytes and arrays than fields");
        err_expected(err, "at most %d", SHARD_FIELDS_MAX - 2);
        err_advise(err, "choose some with --column NAME=FIELD");
        return -EINVAL;
    }
    int status = kind == COLUMN_JSON ? 0 : columns_check_name(name, err); /* JSON: * itself */
    if (status)
        return status;
    struct column *column = &columns->items[columns->count++];
    *column = (struct column){.kind = kind};
    snprintf(column->name, sizeof column->name, "%s", name);
    snprintf(column->field, sizeof column->field, "%s", field);
    return 0;
}

/* Maps a column to the field NAME + end: in lowercase, with _ for characters that fields lack. */
static int add_named(struct columns *columns, const char *name, const char *end, struct err *err)
{
    char field[SHARD_EXTENSION_BYTES_MAX];
    size_t bytes = strlen(name);
    if (bytes + strlen(end) >= sizeof field) {
        err_set(err, -EINVAL, "the name of a column is too long for a field");
        err_found(err, "\"%.200s\"", name);
        err_advise(err, "name the field with --column NAME=FIELD");
        return -EINVAL;
    }
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)name[i];
        bool is_other = c <= 0x20 || c == '/' || c == '.' || c == 0x7f;
        field[i] = is_other ? '_' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : (char)c;
    }
    strcpy(field + bytes, end);
    return add_mapping(columns, name, field, COLUMN_FILE, err);
}

static int reject_images(const struct record *record, const struct found *images, struct err *err)
{
    struct str found = {0}, advice = {0};
    for (uint32_t i = 0; i < images->count && i < 8; i++) {
        const char *name = record_name(record, images->values[i]);
        str_add_format(&found, "%s%.60s", i > 0 ? ", " : "", name);
        if (i < 3)
            str_add_format(&advice, " --column '%.40s=%s:image'", name,
                           i == 0   ? ""
                           : i == 1 ? "second."
                                    : "third.");
    }
    err_set(err, -EINVAL, "several columns hold images");
    err_at(err, record->path, (int64_t)record->offset);
    err_found(err, "%s", str_text(&found));
    err_advise(err, "map the columns, for example with%s --column '*=json'", str_text(&advice));
    str_deinit(&found);
    str_deinit(&advice);
    return -EINVAL;
}

int record_columns_choose(const struct record *record, struct columns *ret_columns, struct err *err)
{
    struct found images = {.count = 0}, texts = {.count = 0}, classes = {.count = 0};
    int status = 0;
    ret_columns->count = 0;
    for (uint32_t i = 0; i < record->count && !status; i++) {
        const struct record_value *value = &record->values[i];
        const char *name = record_name(record, value);
        bool is_strings = value->kind == RECORD_STRINGS;
        if (is_image(record, value))
            add_found(&images, value);
        else if (is_strings && (value->is_bytes || !record_is_text(record, value)))
            status = add_named(ret_columns, name, ".bin", err);
        else if (value->kind == RECORD_NUMBERS && value->rank > 0 && !value->is_list)
            status = add_named(ret_columns, name, ".npy", err);
        else if (is_strings && column_name_is_text(name) && (!value->is_list || value->count == 1))
            add_found(&texts, value);
        else if (is_class(record, value))
            add_found(&classes, value);
    }
    if (!status && images.count > 1)
        status = reject_images(record, &images, err);
    if (!status && images.count == 1)
        status = add_mapping(ret_columns, record_name(record, images.values[0]),
                             images.values[0]->is_numbered ? "image." : "", COLUMN_IMAGE, err);
    if (!status && texts.count == 1)
        status =
            add_mapping(ret_columns, record_name(record, texts.values[0]), "txt", COLUMN_TEXT, err);
    if (!status && classes.count == 1)
        status =
            add_mapping(ret_columns, record_name(record, classes.values[0]), "", COLUMN_CLASS, err);
    if (!status)
        status = add_mapping(ret_columns, "*", "json", COLUMN_JSON, err);
    if (status && err && !err->path[0])
        err_at(err, record->path, (int64_t)record->offset);
    return status;
}

const struct column *record_columns_missing(const struct columns *columns,
                                            const struct record *record)
{
    for (uint32_t i = 0; i < columns->count; i++) {
        const char *name = columns->items[i].name;
        bool is_name = strcmp(name, "*") != 0 && strcmp(name, "#") != 0 && name[0] != '$';
        if (is_name && !record_find(record, name))
            return &columns->items[i];
    }
    return NULL;
}

void record_list_names(const struct record *record, struct str *out)
{
    for (uint32_t i = 0; i < record->count; i++)
        str_add_format(out, "%s%s", i > 0 ? ", " : "", record_name(record, &record->values[i]));
}

int record_columns_describe(const struct columns *columns, const struct record *record,
                            struct str *out, struct err *err)
{
    const struct table_format format = {0};
    struct table_row row = {.format = &format};
    struct str text = {0};
    struct jsonx_writer json = {.out = &text};
    jsonx_begin_object(&json, NULL);
    for (uint32_t i = 0; i < record->count; i++)
        jsonx_write_null(&json, record_name(record, &record->values[i]));
    jsonx_end_object(&json);
    int status = str_status(&text)
                     ? err_set(err, -ENOMEM, "out of memory for a record")
                     : table_row_parse(&row, text.data, text.bytes, TABLE_ROW_TREE, err);
    if (!status)
        columns_describe(columns, &row, out);
    table_row_deinit(&row);
    str_deinit(&text);
    return status;
}
