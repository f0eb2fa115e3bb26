/*
 * record_row — see record_row.h.
 */
#include "convert/record/record_row.h"

#include "base/json/jsonx.h"
#include "base/json/jsonx_writer.h"
#include "base/numeric/half.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool record_is_text(const struct record *record, const struct record_value *value)
{
    for (uint64_t i = 0; i < value->count; i++) {
        size_t bytes;
        const char *text = record_string(record, value, i, &bytes);
        if (utf8_valid_bytes(text, bytes) < bytes || memchr(text, '\0', bytes))
            return false;
    }
    return true;
}

struct number {
    bool is_integer;
    int64_t integer;
    double real;
};

/* Returns false if JSON cannot store the number: it is not finite, or beyond int64. */
static bool read_number(const char *numbers, enum dtype dtype, uint64_t index,
                        struct number *ret_number)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        float f32;
        double f64;
    } bits;
    memcpy(&bits, numbers + index * dtype_bytes(dtype), dtype_bytes(dtype));
    *ret_number = (struct number){.is_integer = true};
    switch (dtype) {
    case DTYPE_BOOL:
    case DTYPE_U8:
        ret_number->integer = bits.u8;
        return true;
    case DTYPE_I8:
        ret_number->integer = bits.i8;
        return true;
    case DTYPE_U16:
        ret_number->integer = bits.u16;
        return true;
    case DTYPE_I16:
        ret_number->integer = bits.i16;
        return true;
    case DTYPE_U32:
        ret_number->integer = bits.u32;
        return true;
    case DTYPE_I32:
        ret_number->integer = bits.i32;
        return true;
    case DTYPE_U64:
        ret_number->integer = bits.i64;
        return bits.u64 <= INT64_MAX;
    case DTYPE_I64:
        ret_number->integer = bits.i64;
        return true;
    default:
        ret_number->is_integer = false;
        ret_number->real = dtype == DTYPE_F16   ? (double)half_from_f16(bits.u16)
                           : dtype == DTYPE_F32 ? (double)bits.f32
                                                : bits.f64;
        return isfinite(ret_number->real);
    }
}

/* Writes the shortest text that gives the same float. */
static void write_float(struct jsonx_writer *json, const char *key, double value)
{
    char text[32];
    int digits = 6, bytes; /* 9 suffice */
    do {
        bytes = snprintf(text, sizeof text, "%.*g", digits, value);
    } while ((double)(float)strtod(text, NULL) != value && ++digits <= 9);
    jsonx_write_raw(json, key, text, (size_t)bytes);
}

static void write_number(struct jsonx_writer *json, const char *key, const struct number *number,
                         enum dtype dtype)
{
    if (dtype == DTYPE_BOOL)
        jsonx_write_bool(json, key, number->integer != 0);
    else if (number->is_integer)
        jsonx_write_i64(json, key, number->integer);
    else if (dtype == DTYPE_F64)
        jsonx_write_f64(json, key, number->real);
    else
        write_float(json, key, number->real);
}

/* Writes the elements from *index on as an array of value->shape[dimension] elements. Returns
 * false at a number that JSON cannot store. */
static bool write_array(struct jsonx_writer *json, const char *key, const struct record *record,
                        const struct record_value *value, uint32_t dimension, uint64_t *index)
{
    bool is_valid = true;
    jsonx_begin_array(json, key);
    for (int64_t i = 0; i < value->shape[dimension] && is_valid; i++) {
        struct number number;
        if (dimension + 1 < value->rank) {
            is_valid = write_array(json, NULL, record, value, dimension + 1, index);
            continue;
        }
        is_valid = read_number(record_numbers(record, value), value->dtype, (*index)++, &number);
        if (is_valid)
            write_number(json, NULL, &number, value->dtype);
    }
    jsonx_end_array(json);
    return is_valid;
}

static int reject(const struct record *record, const struct record_value *value, const char *found,
                  const char *field, struct err *err)
{
    const char *name = record_name(record, value);
    err_set(err, -EBADMSG, "column \"%.100s\" cannot be stored as JSON or text", name);
    err_at(err, record->path, (int64_t)record->offset);
    err_found(err, "%s", found);
    err_advise(err, "store it with --column '%.60s=%s'", name, field);
    return -EBADMSG;
}

static int write_numbers(struct jsonx_writer *json, const struct record *record,
                         const struct record_value *value, bool is_single, struct err *err)
{
    const char *name = record_name(record, value);
    struct number number;
    uint64_t index = 0;
    bool is_valid = true;
    if (value->count > JSON_VALUES_MAX)
        return reject(record, value, "more numbers than a JSON document may have", "x.npy:file",
                      err);
    if (value->rank > 0 && !is_single) {
        is_valid = write_array(json, name, record, value, 0, &index);
    } else {
        is_valid = read_number(record_numbers(record, value), value->dtype, 0, &number);
        if (is_valid)
            write_number(json, name, &number, value->dtype);
    }
    return is_valid ? 0
                    : reject(record, value,
                             value->dtype == DTYPE_U64 ? "a number above int64"
                                                       : "a number that is not finite",
                             "x.npy:file", err);
}

static int write_strings(struct jsonx_writer *json, const struct record *record,
                         const struct record_value *value, bool is_single, struct err *err)
{
    const char *name = record_name(record, value), *text;
    size_t bytes;
    if (!record_is_text(record, value))
        return reject(record, value, "bytes that are not text", "x.bin:file", err);
    if (is_single || !value->is_list) {
        text = record_string(record, value, 0, &bytes);
        jsonx_write_text(json, name, text, bytes);
        return 0;
    }
    jsonx_begin_array(json, name);
    for (uint64_t i = 0; i < value->count; i++) {
        text = record_string(record, value, i, &bytes);
        jsonx_write_text(json, NULL, text, bytes);
    }
    jsonx_end_array(json);
    return 0;
}

static int write_json(struct jsonx_writer *json, const struct record *record,
                      const struct record_value *value, struct err *err)
{
    struct json_t *root;
    size_t bytes;
    const char *text = record_string(record, value, 0, &bytes);
    int status = jsonx_parse_value(text, bytes, record->path, (int64_t)record->offset, &root, err);
    if (status)
        return status == -EBADMSG
                   ? reject(record, value, "bytes that are not valid JSON", "x.bin:file", err)
                   : status;
    jsonx_free(root);
    jsonx_write_raw(json, record_name(record, value), text, bytes);
    return 0;
}

struct need {
    bool is_stored; /* an error if JSON cannot store the value */
    bool is_single; /* one value is stored */
    bool is_any;    /* perhaps by a JSON path */
};

static struct need find_need(const struct columns *columns, const char *name)
{
    struct need need = {0};
    bool has_rest = false;
    for (uint32_t i = 0; i < columns->count; i++) {
        const struct column *column = &columns->items[i];
        has_rest |= strcmp(column->name, "*") == 0;
        need.is_any |= column->name[0] == '$';
        if (column_is_file(column) || strcmp(column->name, name) != 0)
            continue;
        need.is_stored = true;
        need.is_single |= column->kind != COLUMN_JSON;
    }
    need.is_stored |= has_rest && !columns_have(columns, name);
    need.is_any |= need.is_stored;
    return need;
}

int record_write_row(const struct record *record, const struct columns *columns, struct str *out,
                     struct err *err)
{
    struct jsonx_writer json = {.out = out};
    int status = 0;
    jsonx_begin_object(&json, NULL);
    for (uint32_t i = 0; i < record->count && !status; i++) {
        const struct record_value *value = &record->values[i];
        const struct need need = find_need(columns, record_name(record, value));
        bool is_single = need.is_single && value->is_list && value->count == 1;
        if (!need.is_any || (need.is_single && value->is_list && value->count == 0))
            continue;
        const struct jsonx_writer before = json;
        size_t start = out->bytes;
        if (value->kind == RECORD_NUMBERS)
            status = write_numbers(&json, record, value, is_single, err);
        else if (value->kind == RECORD_STRINGS)
            status = write_strings(&json, record, value, is_single, err);
        else
            status = write_json(&json, record, value, err);
        if (status == -EBADMSG && !need.is_stored) { /* a path may select other values */
            err_clear(err);
            json = before;
            out->bytes = start;
            status = 0;
        }
    }
    jsonx_end_object(&json);
    return !status && str_status(out) ? err_set(err, -ENOMEM, "out of memory for a record")
                                      : status;
}
