/*
 * jsonx_string — the strings of JSON text.
 */
#ifndef MILLRACE_BASE_JSON_JSONX_STRING_H
#define MILLRACE_BASE_JSON_JSONX_STRING_H

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

/* Returns how many bytes at the start of text are ASCII characters that stand for themselves in a
 * string: no quotes, backslashes and control characters. */
size_t jsonx_plain_bytes(const char *text, size_t bytes);

/* Decodes the escape at text[0], a backslash. Returns its length, with that of the second half of a
 * surrogate pair; 0 if it is invalid or half a pair. */
size_t jsonx_decode_escape(const char *text, size_t bytes, uint32_t *ret_code);

/* Appends the text of a valid string, which includes its quotes, as UTF-8. Its text may contain
 * NULs, and has at most as many bytes as the string. out has the failure of a memory shortage. */
void jsonx_unescape(const char *text, size_t bytes, struct str *out);

#endif
