/*
 * json_writer — compact JSON, written in the order the calls come, into a str.
 *
 *     struct json_writer w = {.out = &text};
 *     json_begin_object(&w, NULL);
 *     json_write_u64(&w, "samples_count", 3068);
 *     json_begin_array(&w, "classes");
 *     // key NULL inside an array, and for the document itself
 *     json_write_string(&w, NULL, "dress");
 *     json_end_array(&w);
 *     json_end_object(&w);
 */
#ifndef MILLRACE_BASE_JSON_WRITER_H
#define MILLRACE_BASE_JSON_WRITER_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* Zero except for out. Owner thread. */
struct json_writer {
    struct str *out;
    bool needs_comma;
};

void json_begin_object(struct json_writer *writer, const char *key);
void json_end_object(struct json_writer *writer);
void json_begin_array(struct json_writer *writer, const char *key);
void json_end_array(struct json_writer *writer);
void json_write_u64(struct json_writer *writer, const char *key, uint64_t value);
void json_write_i64(struct json_writer *writer, const char *key, int64_t value);
void json_write_f64(struct json_writer *writer, const char *key,
                    double value); /* shortest that reads back the same; null where not finite */
void json_write_bool(struct json_writer *writer, const char *key, bool value);
void json_write_null(struct json_writer *writer, const char *key);
void json_write_string(struct json_writer *writer, const char *key,
                       const char *text); /* UTF-8; invalid bytes become U+FFFD */
void json_write_hex64(struct json_writer *writer, const char *key,
                      uint64_t value); /* as 16 digits in a string */
void json_write_raw(struct json_writer *writer, const char *key, const char *json,
                    size_t bytes); /* already JSON */

#endif
