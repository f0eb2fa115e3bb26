/*
 * page_values — a JSON object as a table of keys and values.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_VALUES_H
#define MILLRACE_CLI_REPORT_PAGE_VALUES_H

#include "base/json/jsonx.h"
#include "base/str.h"

/* Rows only, for a table begun with two columns. Keys of nested objects are joined by dots:
 * "image.size". */
void page_values_rows(struct str *out, struct json_t *object);
void page_values_table(struct str *out, const char *caption, struct json_t *object);
/* Begins the table for the rows; end it with page_table_end. */
void page_values_begin(struct str *out, const char *caption);

#endif
