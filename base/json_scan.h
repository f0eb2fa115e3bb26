/*
 * json_scan — where the values of a JSON text lie, without a tree of them: for documents whose
 * lists are too long for one.
 *
 * Spans of the text are found by brackets, commas and quotes alone; whether they are JSON is for
 * json_parse to say, span by span. Whatever the text, nothing outside it is read. Keys are compared
 * as they are written: one with escapes is not found.
 */
#ifndef MILLRACE_BASE_JSON_SCAN_H
#define MILLRACE_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* text[begin, end) */
struct json_span {
    size_t begin, end;
};

/* The value of a member of the document's own object. */
bool json_scan_member(const char *text, size_t bytes, const char *key, struct json_span *ret_value);

/* Elements of an array, one after another:
 *
 *     struct json_span rest = value, element;
 *     while ((status = json_scan_element(text, &rest, &element)) == JSON_SCAN_ELEMENT) ...
 *
 * JSON_SCAN_BROKEN: it is no array, or what stands between its elements is no single comma. */
enum json_scan { JSON_SCAN_END, JSON_SCAN_ELEMENT, JSON_SCAN_BROKEN };
enum json_scan json_scan_element(const char *text, struct json_span *rest,
                                 struct json_span *ret_element);

#endif
