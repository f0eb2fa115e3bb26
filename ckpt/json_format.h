/*
 * json_format — parsed JSON back to compact text, the same bytes for the same values.
 *
 * Keys of objects in byte order at every depth, numbers as the shortest text that reads back the same, no spaces.
 */
#ifndef MILLRACE_CKPT_JSON_FORMAT_H
#define MILLRACE_CKPT_JSON_FORMAT_H

#include "base/json.h"
#include "base/str.h"

/* Appends. 0 or -ENOMEM. */
int json_format(struct json_t *node, struct str *out);

/* An entry of an object. Borrows from the document. */
struct json_member {
    const char *key;
    struct json_t *value;
};
/* The entries sorted by key, into memory that the caller frees with free(). 0 or -ENOMEM. */
int json_members(struct json_t *object, struct json_member **ret_members, size_t *ret_count);

#endif
