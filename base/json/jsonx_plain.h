/*
 * jsonx_plain — checks JSON text without building a tree, about ten times as fast as parsing.
 *
 * jsonx_is_plain_object accepts only what jsonx_parse accepts, but not all of it: not objects of
 * many keys, deep nesting, escapes in keys, or very long numbers. Only jsonx_parse decides on the
 * rest. jsonx_find_member accepts any JSON, and more than jsonx_parse does.
 */
#ifndef MILLRACE_BASE_JSON_JSONX_PLAIN_H
#define MILLRACE_BASE_JSON_JSONX_PLAIN_H

#include "base/err.h"
#include "base/json/jsonx_scan.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    JSONX_PLAIN_DEPTH_MAX = 16,
    JSONX_PLAIN_KEYS_MAX = 32, /* per object; all pairs are compared */
};

/* Whether the text is an object that jsonx_parse certainly accepts. */
bool jsonx_is_plain_object(const char *text, size_t bytes);

/* Checks that the text is a JSON object (RFC 8259, in UTF-8), and finds its member with this key.
 * Unlike jsonx_parse, accepts NULs, numbers of any size, and repetitions of other keys. At most
 * JSON_DEPTH_MAX levels below the object. -EBADMSG with the offset in the text: it is not an
 * object, is invalid, or repeats the key. -ENOENT, without detail: the key is absent. */
int jsonx_find_member(const char *text, size_t bytes, const char *key, struct jsonx_span *ret_value,
                      struct err *err);

#endif
