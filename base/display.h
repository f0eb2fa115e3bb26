/*
 * display — escapes untrusted text (keys, class names, paths) for a terminal and measures its width
 * in columns.
 *
 * Bytes escaped as \xNN: control characters (C0, DEL, C1), bidirectional controls, which reorder
 * surrounding text, and invalid UTF-8.
 */
#ifndef MILLRACE_BASE_DISPLAY_H
#define MILLRACE_BASE_DISPLAY_H

#include "base/str.h"

enum { DISPLAY_SEQUENCE_BYTES = 17 }; /* four bytes as \xNN, and a NUL */

/* Writes the first character of text, escaped if necessary, into escaped_text. bytes >= 1. Returns
 * the number of bytes consumed. */
size_t display_sequence(const char *text, size_t bytes, char escaped_text[DISPLAY_SEQUENCE_BYTES]);

void display_add(struct str *out, const char *text);

/* Returns the width of escaped text in columns: wide characters take two, combining characters
 * none. */
size_t display_columns(const char *text);

#endif
