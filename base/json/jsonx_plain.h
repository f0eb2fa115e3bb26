/*
 * jsonx_plain — quickly decides that JSON text is valid, without building a tree.
 *
 * Accepts only what jsonx_parse accepts, but not all of it: not objects of many keys, deep nesting,
 * escapes in keys, or very long numbers. Only jsonx_parse decides on the rest. About ten times as
 * fast as parsing.
 */
#ifndef MILLRACE_BASE_JSON_JSONX_PLAIN_H
#define MILLRACE_BASE_JSON_JSONX_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

enum {
    JSONX_PLAIN_DEPTH_MAX = 16,
    JSONX_PLAIN_KEYS_MAX = 32, /* per object; all pairs are compared */
};

/* Whether the text is an object that jsonx_parse certainly accepts. */
bool jsonx_is_plain_object(const char *text, size_t bytes);

#endif
