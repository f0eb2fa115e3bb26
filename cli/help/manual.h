/*
 * manual — the manual pages millrace(1), one per verb, millrace-config(5) and millrace-formats(5),
 * from the same tables as help.
 */
#ifndef MILLRACE_CLI_HELP_MANUAL_H
#define MILLRACE_CLI_HELP_MANUAL_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

enum { MANUAL_NAME_BYTES = 64 };

struct manual_page {
    char name[MANUAL_NAME_BYTES]; /* "millrace-convert-dataset" */
    unsigned section;
};

/* False beyond the last page. */
bool manual_page_at(size_t n, struct manual_page *ret_page);
/* Appends the page in the man(7) language. */
void manual_write(size_t n, struct str *out);

#endif
