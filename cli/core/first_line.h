/*
 * first_line — the first line that another program prints on stdout, such as its version.
 */
#ifndef MILLRACE_CLI_CORE_FIRST_LINE_H
#define MILLRACE_CLI_CORE_FIRST_LINE_H

#include <stddef.h>

/* Runs argv[0], found on PATH; argv ends with NULL. Its stderr goes nowhere. One that says nothing
 * for some seconds is killed. -ENOENT where there is no such program, -ETIMEDOUT, -ENODATA where it
 * prints nothing. text holds bytes. Blocks. */
int first_line_of(char *const *argv, char *text, size_t bytes);

#endif
