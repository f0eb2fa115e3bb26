/*
 * jsonx_writer — writes compact JSON into a str, in call order.
 *
 *     struct jsonx_writer w = {.out = &text};
 *     jsonx_begin_object(&w, NULL);
 *     jsonx_write_u64(&w, "samples_count", 3068);
 *     jsonx_begin_array(&w, "classes");
 *     // key is NULL inside an array and for the root
 *     jsonx_write_string(&w, NULL, "dress");
 *     jsonx_end_array(&w);
 *     jsonx_end_object(&w);
 */
#ifndef MILLRACE_BASE_JSON_JSONX_WRITER_H
#define MILLRACE_BASE_JSON_JSONX_WRITER_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* Initialize to zero except for out. Owner thread. */
struct jsonx_writer {
    struct str *out;
    bool needs_comma;
};

void jsonx_begin_object(struct jsonx_writer *writer, const char *key);
void jsonx_end_object(struct jsonx_writer *writer);
void jsonx_begin_array(struct jsonx_writer *writer, const char *key);
void jsonx_end_array(struct jsonx_writer *writer);
void jsonx_write_u64(struct jsonx_writer *writer, const char *key, uint64_t value);
void jsonx_write_u64_array(struct jsonx_writer *writer, const char *key, const uint64_t *values,
                           size_t count);
void jsonx_write_i64(struct jsonx_writer *writer, const char *key, int64_t value);
/* Both write a short text that parses to the same double or float; null if not finite. */
void jsonx_write_f64(struct jsonx_writer *writer, const char *key, double value);
void jsonx_write_f32(struct jsonx_writer *writer, const char *key, float value);
void jsonx_write_bool(struct jsonx_writer *writer, const char *key, bool value);
void jsonx_write_null(struct jsonx_writer *writer, const char *key);
/* Invalid UTF-8 becomes U+FFFD. */
void jsonx_write_string(struct jsonx_writer *writer, const char *key, const char *text);
/* The text may contain NULs. */
void jsonx_write_text(struct jsonx_writer *writer, const char *key, const char *text, size_t bytes);
/* Writes a string of 16 hexadecimal digits. */
void jsonx_write_hex64(struct jsonx_writer *writer, const char *key, uint64_t value);
/* Writes JSON text unchanged. */
void jsonx_write_raw(struct jsonx_writer *writer, const char *key, const char *json, size_t bytes);

#endif
