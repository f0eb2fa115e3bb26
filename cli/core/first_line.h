/*
 * first_line — reads the first line of another program's stdout, such as its version.
 */
#ifndef MILLRACE_CLI_CORE_FIRST_LINE_H
#define MILLRACE_CLI_CORE_FIRST_LINE_H

#include <stddef.h>

/* Runs argv[0] from PATH. Discards its stderr. Kills it after the line, or after 5 s of silence.
 * text holds up to `bytes` bytes. -ENOENT: no such program; -ETIMEDOUT; -ENODATA: no output.
 * Blocks. */
int first_line_read(char *const *argv, char *text, size_t bytes);

#endif
