/*
 * jsonx — strict JSON parsing; the only adapter of jansson. jsonx_writer.h writes JSON.
 *
 * Nodes borrow from their document and live until jsonx_free. The parser rejects the following and
 * reports the byte offset: duplicate keys, invalid UTF-8, lone surrogates, NUL in strings, integers
 * beyond int64, more than 64 levels below the root, and text after the document.
 *
 *     jsonx_parse(text, bytes, path, 0, &root, err);
 *     // -EBADMSG and a detail if it is missing or not an unsigned integer
 *     jsonx_get_u64(root, "nsamples", &n, &where);
 */
#ifndef MILLRACE_BASE_JSON_JSONX_H
#define MILLRACE_BASE_JSON_JSONX_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t; /* a node, of any type */

enum {
    JSON_DEPTH_MAX = 64,
    /* A parsed document takes its text's bytes and about 100 bytes per value: at most about 1 GiB.
     * The safetensors format allows headers of up to 100 MB, typically with 8 JSON values per 100
     * bytes; a checkpoint's manifest has one value per file. */
    JSON_BYTES_MAX = 256 << 20,
    JSON_VALUES_MAX = 8 << 20,
};

enum jsonx_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_INT,
    JSON_KIND_REAL,
    JSON_KIND_STRING,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT
};

/* Error messages assume that the text starts at base_offset in path. The root is an object or an
 * array; the caller owns it. -EBADMSG if invalid or beyond the limits above, -ENOMEM. */
int jsonx_parse(const char *text, size_t bytes, const char *path, int64_t base_offset,
                struct json_t **ret_root, struct err *err);
/* The same, for a root of any type. */
int jsonx_parse_value(const char *text, size_t bytes, const char *path, int64_t base_offset,
                      struct json_t **ret_root, struct err *err);
void jsonx_free(struct json_t *root); /* NULL is fine */

enum jsonx_kind jsonx_kind(const struct json_t *node);                  /* NULL is JSON_KIND_NULL */
size_t jsonx_count(const struct json_t *node);                          /* 0 for other kinds */
struct json_t *jsonx_at(const struct json_t *array, size_t index);      /* NULL beyond its end */
struct json_t *jsonx_get(const struct json_t *object, const char *key); /* NULL if absent */
/* Whether node has descendants more than `levels` levels below it. */
bool jsonx_is_deeper(const struct json_t *node, int levels);

/* Visits the members in file order. A nonzero result of the callback ends the walk and is
 * returned. */
int jsonx_each(struct json_t *object,
               int (*entry)(void *context, const char *key, struct json_t *value), void *context);

/* Return 0, or -EBADMSG if the node is NULL, has another type or is out of range. */
int jsonx_u64(const struct json_t *node, uint64_t *ret_value);
int jsonx_i64(const struct json_t *node, int64_t *ret_value);
int jsonx_f64(const struct json_t *node, double *ret_value); /* accepts integers */
int jsonx_bool(const struct json_t *node, bool *ret_value);
int jsonx_text(const struct json_t *node, const char **ret_text); /* borrowed from the document */

/* Like the functions above, for a required key; on failure the detail names path and key. */
int jsonx_get_u64(const struct json_t *object, const char *key, uint64_t *ret_value,
                  const char *path, struct err *err);
int jsonx_get_string(const struct json_t *object, const char *key, const char **ret_text,
                     const char *path, struct err *err);

#endif
