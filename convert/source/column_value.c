/*
 * column_value — see column_value.h.
 */
#include "convert/source/column_value.h"

#include "base/json/jsonx_format.h"
#include "base/json/jsonx_scan.h"
#include "base/json/jsonx_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const json_types[] = {
    [JSON_KIND_NULL] = "null",       [JSON_KIND_BOOL] = "a truth value",
    [JSON_KIND_INT] = "an integer",  [JSON_KIND_REAL] = "a number",
    [JSON_KIND_STRING] = "a string", [JSON_KIND_ARRAY] = "an array",
    [JSON_KIND_OBJECT] = "an object"};

static int reject(const struct column *column, const struct table_value *value,
                  const char *expected, struct err *err)
{
    err_set(err, -EBADMSG, "column \"%.100s\" has another type", column->name);
    err_expected(err, "%s", expected);
    if (value->text)
        err_found(err, "%s\"%.*s\"", value->node ? "the string " : "",
                  value->bytes < 100 ? (int)value->bytes : 100, value->text);
    else
        err_found(err, "%s", json_types[jsonx_kind(value->node)]);
    return -EBADMSG;
}

/* A cell's text without spaces around it, for numbers and truth values. Returns false if it is too
 * long for one. */
static bool trim(const struct table_value *value, char text[64])
{
    size_t begin = 0, end = value->bytes;
    while (begin < end && value->text[begin] == ' ')
        begin++;
    while (end > begin && value->text[end - 1] == ' ')
        end--;
    if (end - begin >= 64)
        return false;
    memcpy(text, value->text + begin, end - begin);
    text[end - begin] = '\0';
    return true;
}

static int store_int(const struct column *column, const struct table_value *value, struct str *out,
                     struct err *err)
{
    int64_t integer = 0;
    char text[64], *end = text;
    bool is_int = false;
    if (value->node) {
        is_int = jsonx_i64(value->node, &integer) == 0;
    } else if (trim(value, text)) {
        errno = 0;
        integer = strtoll(text, &end, 10);
        is_int = end != text && !*end && errno == 0 && !strchr(" \t\n\v\f\r", text[0]);
    }
    if (!is_int)
        return reject(column, value, "an integer within int64", err);
    str_add_format(out, "%" PRId64, integer);
    return 0;
}

static int store_float(const struct column *column, const struct table_value *value,
                       struct str *out, struct err *err)
{
    double number = 0;
    char text[64], *end = text;
    bool is_number = false;
    if (value->node) {
        is_number = jsonx_f64(value->node, &number) == 0;
    } else if (trim(value, text) && strspn(text, "0123456789+-.eE") == strlen(text)) {
        number = strtod(text, &end);
        is_number = end != text && !*end && isfinite(number);
    }
    if (!is_number)
        return reject(column, value, "a finite number", err);
    jsonx_write_f64(&(struct jsonx_writer){.out = out}, NULL, number);
    return 0;
}

static int store_bool(const struct column *column, const struct table_value *value, struct str *out,
                      struct err *err)
{
    bool flag = false, is_bool = false;
    char text[64];
    if (value->node) {
        is_bool = jsonx_bool(value->node, &flag) == 0;
    } else if (trim(value, text)) {
        flag = strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0;
        is_bool = flag || strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0;
    }
    if (!is_bool)
        return reject(column, value, value->node ? "true or false" : "true, false, 1 or 0", err);
    str_add_text(out, flag ? "true" : "false");
    return 0;
}

static int base64_digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+' || c == '-' ? 62
           : c == '/' || c == '_' ? 63
                                  : -1;
}

/* RFC 4648, both alphabets; padding may be missing. */
static int store_base64(const struct column *column, const struct table_value *value,
                        struct str *out, struct err *err)
{
    size_t count = value->text ? value->bytes : 0;
    uint32_t bits = 0;
    bool is_valid = value->text;
    if (count > 0 && count % 4 == 0 && value->text[count - 1] == '=')
        count -= value->text[count - 2] == '=' ? 2 : 1;
    if (str_reserve(out, count / 4 * 3 + 3))
        return err_set(err, -ENOMEM, "out of memory for a field");
    for (size_t i = 0; i < count && is_valid; i++) {
        int digit = base64_digit(value->text[i]);
        is_valid = digit >= 0;
        bits = bits << 6 | (uint32_t)(digit & 63);
        if (i % 4 == 3)
            str_add(out, (char[]){(char)(bits >> 16), (char)(bits >> 8), (char)bits}, 3);
    }
    if (!is_valid || count % 4 == 1)
        return reject(column, value, "bytes in base64, without a prefix or line ends", err);
    if (count % 4 == 2)
        str_add(out, (char[]){(char)(bits >> 4)}, 1);
    if (count % 4 == 3)
        str_add(out, (char[]){(char)(bits >> 10), (char)(bits >> 2)}, 2);
    return 0;
}

static int store_json(const struct column *column, const struct table_row *row,
                      const struct table_value *value, struct str *out, struct err *err)
{
    struct jsonx_span span;
    struct json_t *root = NULL;
    struct err detail = {0};
    if (value->node && column->name[0] != '$' &&
        jsonx_scan_member(row->text, row->bytes, column->name, &span)) {
        str_add(out, row->text + span.begin, span.end - span.begin); /* as written */
        return 0;
    }
    if (value->node) {
        jsonx_copy(&(struct jsonx_writer){.out = out}, NULL, value->node);
        return 0;
    }
    int status = jsonx_parse_value(value->text, value->bytes, "", 0, &root, &detail);
    jsonx_free(root);
    if (status == -ENOMEM)
        return err_set(err, -ENOMEM, "out of memory for a JSON value");
    if (status) {
        reject(column, value, "JSON", err);
        err_advise(err, "store the text with --column '%.60s=txt'", column->name);
        return status;
    }
    str_add(out, value->text, value->bytes);
    return 0;
}

struct rest_writer {
    const struct columns *columns;
    struct jsonx_writer json;
};

static int write_other_cell(void *context, const char *name, const struct table_value *value)
{
    struct rest_writer *writer = context;
    if (!columns_have(writer->columns, name))
        jsonx_write_text(&writer->json, name, value->text, value->bytes);
    return 0;
}

/* Whether a key, with its quotes, is that of a mapped column. */
static int key_is_mapped(const struct columns *columns, const char *key, size_t bytes,
                         struct str *scratch, bool *ret_is_mapped, struct err *err)
{
    struct json_t *root = NULL;
    const char *name;
    int status = 0;
    str_clear(scratch);
    if (memchr(key, '\\', bytes)) {
        status = jsonx_parse_value(key, bytes, "", 0, &root, err);
        if (!status && jsonx_text(root, &name) == 0)
            str_add_text(scratch, name);
    } else {
        str_add(scratch, key + 1, bytes - 2);
    }
    *ret_is_mapped = columns_have(columns, str_text(scratch));
    jsonx_free(root);
    return status;
}

/* Copies the members of a row that are not mapped, as written. */
static int store_other_members(const struct columns *columns, const struct table_row *row,
                               struct str *out, struct err *err)
{
    struct str scratch = {0};
    bool is_mapped, needs_comma = false;
    int status = 0;
    str_add(out, "{", 1);
    for (size_t i = 0; i < table_row_members_count(row) && !status; i++) {
        const struct table_member *member = &table_row_members(row)[i];
        const char *key = row->text + member->key.begin;
        size_t key_bytes = member->key.end - member->key.begin;
        status = key_is_mapped(columns, key, key_bytes, &scratch, &is_mapped, err);
        if (status || is_mapped)
            continue;
        if (needs_comma)
            str_add(out, ",", 1);
        needs_comma = true;
        str_add(out, key, key_bytes);
        str_add(out, ":", 1);
        str_add(out, row->text + member->value.begin, member->value.end - member->value.begin);
    }
    str_add(out, "}", 1);
    str_merge_status(out, &scratch);
    str_deinit(&scratch);
    return status;
}

static int find_other(void *context, const char *name, const struct table_value *value)
{
    (void)value;
    return !columns_have(context, name);
}

int column_find_others(const struct columns *columns, const struct table_row *row,
                       bool *ret_has_others, struct err *err)
{
    struct str scratch = {0};
    bool is_mapped = true;
    int status = 0;
    for (size_t i = 0; i < table_row_members_count(row) && is_mapped && !status; i++) {
        const struct table_member *member = &table_row_members(row)[i];
        status = key_is_mapped(columns, row->text + member->key.begin,
                               member->key.end - member->key.begin, &scratch, &is_mapped, err);
    }
    if (row->root || row->format->delimiter)
        is_mapped = !table_row_each(row, find_other, (void *)(uintptr_t)columns);
    *ret_has_others = !is_mapped;
    str_deinit(&scratch);
    return status;
}

static int store_rest(const struct columns *columns, struct table_row *row, struct str *out,
                      bool *ret_is_absent, struct err *err)
{
    struct rest_writer writer = {columns, {.out = out}};
    size_t start = out->bytes;
    int status = 0;
    if (row->format->delimiter) {
        jsonx_begin_object(&writer.json, NULL);
        status = table_row_each(row, write_other_cell, &writer);
        jsonx_end_object(&writer.json);
    } else {
        status = table_row_scan(row, err);
        if (!status)
            status = store_other_members(columns, row, out, err);
    }
    *ret_is_absent = out->bytes == start + 2 && columns->count > 1; /* {} */
    if (*ret_is_absent)
        out->bytes = start;
    return status;
}

static bool is_empty_cell(const struct column *column, const struct table_value *value)
{
    bool is_scalar = column->kind == COLUMN_INT || column->kind == COLUMN_FLOAT ||
                     column->kind == COLUMN_BOOL || column->kind == COLUMN_JSON;
    return is_scalar && !value->node && value->bytes == 0;
}

int column_store_value(const struct columns *columns, const struct column *column,
                       struct table_row *row, struct str *out, bool *ret_is_absent, struct err *err)
{
    struct table_value value;
    *ret_is_absent = false;
    if (strcmp(column->name, "*") == 0)
        return store_rest(columns, row, out, ret_is_absent, err);
    bool is_text = column->kind == COLUMN_TEXT || column->kind == COLUMN_BASE64;
    bool is_found = is_text ? table_row_find_text(row, column->name, &value)
                            : table_row_find(row, column->name, &value);
    if (!is_found || is_empty_cell(column, &value)) {
        *ret_is_absent = true;
        return 0;
    }
    switch (column->kind) {
    case COLUMN_INT:
        return store_int(column, &value, out, err);
    case COLUMN_FLOAT:
        return store_float(column, &value, out, err);
    case COLUMN_BOOL:
        return store_bool(column, &value, out, err);
    case COLUMN_JSON:
        return store_json(column, row, &value, out, err);
    case COLUMN_BASE64:
        return store_base64(column, &value, out, err);
    default:
        break;
    }
    if (!value.text)
        return reject(column, &value, "a string; --column NAME=FIELD:json stores any value", err);
    str_add(out, value.text, value.bytes);
    return 0;
}

int column_text(const struct column *column, struct table_row *row,
                char text[COLUMN_TEXT_BYTES_MAX], struct err *err)
{
    struct table_value value;
    int64_t integer;
    bool is_path = column_is_file(column);
    bool is_found = table_row_find_text(row, column->name, &value);
    if (!is_found || (value.text && value.bytes == 0)) {
        err_set(err, -EBADMSG, "column \"%.100s\" has no value", column->name);
        err_expected(err, "a value in each row");
        return -EBADMSG;
    }
    if (!is_path && value.node && jsonx_i64(value.node, &integer) == 0) {
        snprintf(text, COLUMN_TEXT_BYTES_MAX, "%" PRId64, integer);
        return 0;
    }
    if (!value.text)
        return reject(column, &value, is_path ? "a path" : "a string or an integer", err);
    bool is_plain = value.bytes > 0 && value.bytes < COLUMN_TEXT_BYTES_MAX;
    for (size_t i = 0; i < value.bytes && is_plain; i++)
        is_plain = (unsigned char)value.text[i] >= 0x20 && value.text[i] != 0x7f;
    if (!is_plain)
        return reject(column, &value, "1 to 2047 bytes without line ends or control characters",
                      err);
    memcpy(text, value.text, value.bytes);
    text[value.bytes] = '\0';
    return 0;
}
