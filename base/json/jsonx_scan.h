/*
 * jsonx_scan — locates values in JSON text without building a tree, for documents with very long
 * lists.
 *
 * Only brackets, commas and quotes delimit spans; jsonx_parse validates each span. Never reads out
 * of bounds. Keys are compared as written: a key with escapes is not found.
 */
#ifndef MILLRACE_BASE_JSON_JSONX_SCAN_H
#define MILLRACE_BASE_JSON_JSONX_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* text[begin, end) */
struct jsonx_span {
    size_t begin, end;
};

/* Finds a member of the outermost object. */
bool jsonx_scan_member(const char *text, size_t bytes, const char *key,
                       struct jsonx_span *ret_value);

/* Iterates over the elements of an array:
 *
 *     struct jsonx_span rest = value, element;
 *     while ((status = jsonx_scan_element(text, &rest, &element)) == JSON_SCAN_ELEMENT) ...
 *
 * JSON_SCAN_BROKEN: not an array, or elements not separated by exactly one comma. */
enum jsonx_scan { JSON_SCAN_END, JSON_SCAN_ELEMENT, JSON_SCAN_BROKEN };
enum jsonx_scan jsonx_scan_element(const char *text, struct jsonx_span *rest,
                                   struct jsonx_span *ret_element);
/* Iterates over the members of an object; the span of a key includes its quotes. rest begins at the
 * opening brace. JSON_SCAN_BROKEN: not an object, or members not separated by exactly one comma. */
enum jsonx_scan jsonx_scan_next_member(const char *text, struct jsonx_span *rest,
                                       struct jsonx_span *ret_key, struct jsonx_span *ret_value);

#endif
