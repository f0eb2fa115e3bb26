/*
 * first_line — reads the first line that another program prints on stdout, such as its version.
 */
#ifndef MILLRACE_CLI_CORE_FIRST_LINE_H
#define MILLRACE_CLI_CORE_FIRST_LINE_H

#include <stddef.h>

/* Runs argv[0], found on PATH; argv ends with NULL. Discards its stderr, and kills it if it is
 * silent for 5 s. text has room for bytes. -ENOENT: no such program; -ETIMEDOUT; -ENODATA: prints
 * nothing. Blocks. */
int first_line_of(char *const *argv, char *text, size_t bytes);

#endif
