/*
 * jsonx_writer — see jsonx_writer.h.
 */
#include "base/json/jsonx_writer.h"

#include "base/utf8.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends one character that cannot be copied as it is. Returns the number of bytes read. */
static size_t add_escaped(struct str *out, const unsigned char *at, size_t bytes_max)
{
    size_t bytes = utf8_sequence_bytes(at, bytes_max);
    if (bytes > 1) {
        str_add(out, at, bytes);
    } else if (bytes == 0) {
        str_add_text(out, "\xef\xbf\xbd");
        bytes = 1;
    } else if (*at < 0x20) {
        str_add_format(out, "\\u%04x", *at);
    } else {
        str_add(out, (const char[]){'\\', (char)*at}, 2);
    }
    return bytes;
}

static bool is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

static void add_quoted(struct str *out, const char *text, size_t text_bytes)
{
    str_add(out, "\"", 1);
    const unsigned char *at = (const unsigned char *)text, *end = at + text_bytes;
    while (at < end) {
        const unsigned char *run = at;
        while (at < end && is_plain(*at))
            at++;
        str_add(out, run, (size_t)(at - run));
        if (at < end)
            at += add_escaped(out, at, (size_t)(end - at));
    }
    str_add(out, "\"", 1);
}

static void begin_value(struct jsonx_writer *writer, const char *key)
{
    if (writer->needs_comma)
        str_add(writer->out, ",", 1);
    writer->needs_comma = true;
    if (key) {
        add_quoted(writer->out, key, strlen(key));
        str_add(writer->out, ":", 1);
    }
}

static void begin_nested(struct jsonx_writer *writer, const char *key, const char *bracket)
{
    begin_value(writer, key);
    str_add(writer->out, bracket, 1);
    writer->needs_comma = false;
}

static void end_nested(struct jsonx_writer *writer, const char *bracket)
{
    str_add(writer->out, bracket, 1);
    writer->needs_comma = true;
}

void jsonx_begin_object(struct jsonx_writer *writer, const char *key)
{
    begin_nested(writer, key, "{");
}

void jsonx_end_object(struct jsonx_writer *writer)
{
    end_nested(writer, "}");
}

void jsonx_begin_array(struct jsonx_writer *writer, const char *key)
{
    begin_nested(writer, key, "[");
}

void jsonx_end_array(struct jsonx_writer *writer)
{
    end_nested(writer, "]");
}

void jsonx_write_u64(struct jsonx_writer *writer, const char *key, uint64_t value)
{
    begin_value(writer, key);
    str_add_format(writer->out, "%" PRIu64, value);
}

void jsonx_write_u64_array(struct jsonx_writer *writer, const char *key, const uint64_t *values,
                           size_t count)
{
    jsonx_begin_array(writer, key);
    for (size_t i = 0; i < count; i++)
        jsonx_write_u64(writer, NULL, values[i]);
    jsonx_end_array(writer);
}

void jsonx_write_i64(struct jsonx_writer *writer, const char *key, int64_t value)
{
    begin_value(writer, key);
    str_add_format(writer->out, "%" PRId64, value);
}

/* digits_max: those that every value of the type needs at most. Whole numbers have no exponent, if
 * that needs no more digits. */
static void write_number(struct jsonx_writer *writer, const char *key, double value, int digits_max,
                         bool is_f32)
{
    enum { WHOLE_MAX = 1000000000 };
    char text[40];
    int digits = 1;
    if (!isfinite(value)) {
        jsonx_write_null(writer, key);
        return;
    }
    begin_value(writer, key);
    if (value == trunc(value) && fabs(value) < WHOLE_MAX)
        snprintf(text, sizeof text, "%.0f", value);
    else
        do {
            snprintf(text, sizeof text, "%.*g", digits, value);
        } while ((is_f32 ? (double)strtof(text, NULL) : strtod(text, NULL)) != value &&
                 ++digits <= digits_max);
    for (const char *at = text; *at;) {
        size_t bytes = strspn(at, "0123456789+-e");
        str_add(writer->out, at, bytes);
        at += bytes;
        if (*at)
            str_add(writer->out, ".", 1); /* replaces the locale's decimal point */
        at += strcspn(at, "0123456789");
    }
}

void jsonx_write_f64(struct jsonx_writer *writer, const char *key, double value)
{
    write_number(writer, key, value, DBL_DECIMAL_DIG, false);
}

void jsonx_write_f32(struct jsonx_writer *writer, const char *key, float value)
{
    write_number(writer, key, (double)value, FLT_DECIMAL_DIG, true);
}

void jsonx_write_bool(struct jsonx_writer *writer, const char *key, bool value)
{
    begin_value(writer, key);
    str_add_text(writer->out, value ? "true" : "false");
}

void jsonx_write_null(struct jsonx_writer *writer, const char *key)
{
    begin_value(writer, key);
    str_add_text(writer->out, "null");
}

void jsonx_write_string(struct jsonx_writer *writer, const char *key, const char *text)
{
    jsonx_write_text(writer, key, text, strlen(text));
}

void jsonx_write_text(struct jsonx_writer *writer, const char *key, const char *text, size_t bytes)
{
    begin_value(writer, key);
    add_quoted(writer->out, text, bytes);
}

void jsonx_write_hex64(struct jsonx_writer *writer, const char *key, uint64_t value)
{
    begin_value(writer, key);
    str_add_format(writer->out, "\"%016" PRIx64 "\"", value);
}

void jsonx_write_raw(struct jsonx_writer *writer, const char *key, const char *json, size_t bytes)
{
    begin_value(writer, key);
    str_add(writer->out, json, bytes);
}
