/*
 * manual — the manual pages: millrace(1), one page per verb, millrace-config(5) and
 * millrace-formats(5), generated from the tables of help.
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

/* The n-th page; false beyond the last. */
bool manual_page_at(size_t n, struct manual_page *ret_page);
/* Appends its text in the man(7) language to out. */
void manual_write(size_t n, struct str *out);

#endif
