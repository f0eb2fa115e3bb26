/*
 * first_line — reads the first line of another program's stdout, such as its version.
 */
#ifndef MILLRACE_CLI_CORE_FIRST_LINE_H
#define MILLRACE_CLI_CORE_FIRST_LINE_H

#include <stddef.h>

/* Runs argv[0], found on PATH; argv ends with NULL. Discards stderr, and kills the program if it is
 * silent for 5 s. text holds up to `bytes` bytes. -ENOENT: no such program; -ETIMEDOUT; -ENODATA:
 * no output. Blocks. */
int first_line_of(char *const *argv, char *text, size_t bytes);

#endif
