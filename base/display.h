/*
 * display — text of unknown origin as a terminal shows it: with nothing that the terminal would
 * obey, and how many columns it takes. Keys, class names and paths come from files that others
 * wrote.
 *
 * What is escaped, each byte as \xNN: control characters (C0, DEL, C1), bidirectional controls,
 * which reorder the text around them, and bytes that are no UTF-8.
 */
#ifndef MILLRACE_BASE_DISPLAY_H
#define MILLRACE_BASE_DISPLAY_H

#include "base/str.h"

enum { DISPLAY_SEQUENCE_BYTES = 17 }; /* four bytes as \xNN, and a NUL */

/* Writes the first character of text, or its first bytes escaped, into shown. bytes >= 1 may be
 * read. Returns how many of them that was. */
size_t display_sequence(const char *text, size_t bytes, char shown[DISPLAY_SEQUENCE_BYTES]);

/* Appends text as it is to be shown. */
void display_add(struct str *out, const char *text);

/* Columns of a text that display_add made: wide characters take two, combining ones none. */
size_t display_columns(const char *text);

#endif
