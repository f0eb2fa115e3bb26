/*
 * jsonx_scan — where the values of a JSON text lie, without a tree of them: for documents whose
 * lists are too long for one.
 *
 * Spans of the text are found by brackets, commas and quotes alone; whether they are JSON is for
 * jsonx_parse to say, span by span. Whatever the text, nothing outside it is read. Keys are
 * compared as they are written: one with escapes is not found.
 */
#ifndef MILLRACE_BASE_JSONX_SCAN_H
#define MILLRACE_BASE_JSONX_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* text[begin, end) */
struct jsonx_span {
    size_t begin, end;
};

/* The value of a member of the document's own object. */
bool jsonx_scan_member(const char *text, size_t bytes, const char *key,
                       struct jsonx_span *ret_value);

/* Elements of an array, one after another:
 *
 *     struct jsonx_span rest = value, element;
 *     while ((status = jsonx_scan_element(text, &rest, &element)) == JSON_SCAN_ELEMENT) ...
 *
 * JSON_SCAN_BROKEN: it is no array, or what stands between its elements is no single comma. */
enum jsonx_scan { JSON_SCAN_END, JSON_SCAN_ELEMENT, JSON_SCAN_BROKEN };
enum jsonx_scan jsonx_scan_element(const char *text, struct jsonx_span *rest,
                                   struct jsonx_span *ret_element);

#endif
