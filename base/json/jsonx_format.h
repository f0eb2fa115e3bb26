/*
 * jsonx_format — formats parsed JSON as compact text. The parser limits recursion depth.
 *
 * jsonx_format produces equal bytes for equal values: object keys in byte order at every depth,
 * numbers as the shortest text that parses to the same value, no spaces. jsonx_copy keeps the
 * file's key order.
 */
#ifndef MILLRACE_BASE_JSON_JSONX_FORMAT_H
#define MILLRACE_BASE_JSON_JSONX_FORMAT_H

#include "base/json/jsonx.h"
#include "base/json/jsonx_writer.h"

/* Appends to out. 0 or -ENOMEM. */
int jsonx_format(struct json_t *node, struct str *out);

/* Writes the node (NULL as null) at the writer's position; key: see jsonx_write_string. On failure,
 * the writer's str holds -ENOMEM. */
void jsonx_copy(struct jsonx_writer *writer, const char *key, struct json_t *node);

/* Borrows from the document. */
struct jsonx_member {
    const char *key;
    struct json_t *value;
};
/* Sorted by key. The caller frees *ret_members. 0 or -ENOMEM. */
int jsonx_members(struct json_t *object, struct jsonx_member **ret_members, size_t *ret_count);

#endif
