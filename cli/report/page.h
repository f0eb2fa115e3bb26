/*
 * page — builds a self-contained HTML page in a str.
 *
 *     page_begin(&out, "dataset", "inspect", "shards/train");
 *     page_table_begin(&out, "Shards", NULL, "Shards and their sizes", columns, 2);
 *     page_row_begin(&out);
 *     page_cell(&out, shard->url);
 *     page_count(&out, shard->samples);
 *     page_row_end(&out);
 *     page_table_end(&out);
 *     page_end(&out);
 *     status = str_status(&out);
 *
 * Text is escaped, so the page is well-formed HTML and XML. A content security policy forbids
 * scripts and network access. The page adapts to light and dark mode and to the width of the
 * window.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_H
#define MILLRACE_CLI_REPORT_PAGE_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* kind: a word or two; verb: that writes the page; title: the path. */
void page_begin(struct str *out, const char *kind, const char *verb, const char *title);
void page_end(struct str *out);

/* note: a sentence under the heading; NULL or "": none. */
void page_section_begin(struct str *out, const char *heading, const char *note);
void page_section_end(struct str *out);

/* Escapes text for an element or an attribute. Invalid UTF-8 and control characters, except newline
 * and tab, become U+FFFD. */
void page_text(struct str *out, const char *text);
void page_text_bytes(struct str *out, const void *text, size_t bytes);
/* Formats, truncates to PAGE_FORMAT_BYTES_MAX, then escapes. */
enum { PAGE_FORMAT_BYTES_MAX = 1024 };
void page_format(struct str *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_element(struct str *out, const char *before, const char *text, const char *after);
/* Adds data:TYPE;base64,... */
void page_data_uri(struct str *out, const char *type, const void *data, size_t bytes);

/* Begins a section of name-value pairs in large type. */
void page_facts_begin(struct str *out, const char *heading);
void page_fact(struct str *out, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void page_facts_end(struct str *out);

struct page_column {
    const char *heading;
    bool number; /* right-aligned */
};
/* Begins a section with a table. caption: only for screen readers. */
void page_table_begin(struct str *out, const char *heading, const char *note, const char *caption,
                      const struct page_column *columns, size_t count);
void page_row_begin(struct str *out);
void page_cell(struct str *out, const char *text);
void page_number(struct str *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_count(struct str *out, uint64_t count);
void page_size(struct str *out, uint64_t bytes); /* "1.5 MiB" */
void page_bar(struct str *out, double filled_fraction);
void page_row_end(struct str *out);
void page_table_end(struct str *out);

#endif
