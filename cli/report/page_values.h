/*
 * page_values — a JSON object as a section with a table of keys and values.
 */
#ifndef MILLRACE_CLI_REPORT_PAGE_VALUES_H
#define MILLRACE_CLI_REPORT_PAGE_VALUES_H

#include "base/json/jsonx.h"
#include "base/str.h"

/* Joins nested keys with dots: "image.size". Other arguments as for page_table_begin. */
void page_values_table(struct str *out, const char *heading, const char *note, const char *caption,
                       struct json_t *object);

#endif
