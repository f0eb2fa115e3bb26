/*
 * help — what help and the manual pages both say, and help itself on stdout.
 *
 * A text is made of lines: one that begins with a space stands as it is, a table; any other is a
 * paragraph, wrapped to the reader's width.
 */
#ifndef MILLRACE_CLI_HELP_HELP_H
#define MILLRACE_CLI_HELP_HELP_H

#include "base/str.h"
#include "cli/core/options.h"
#include "trainer/config/config.h"

/* What the program is, a paragraph. */
extern const char help_intro[];

struct help_status {
    int status;
    const char *meaning;
};
extern const struct help_status help_statuses[]; /* ends with meaning NULL */

/* The files that are read and written; ends with title NULL. docs/ has them to the byte. */
struct help_section {
    const char *title, *text;
};
extern const struct help_section help_formats[];
void help_print_formats(void);

/* The keys of a configuration. */
extern const char help_config_intro[];
extern const char help_config_example[];
/* What a key takes: "number", "true|false", "shuffle|full|sequential". Returns text, which holds
 * HELP_KIND_BYTES. */
enum { HELP_KIND_BYTES = 96 };
const char *help_config_kind(const struct config_field *field, char text[HELP_KIND_BYTES]);
void help_print_config(void);

/* The option's phrase with its default and whether it is required or may be repeated. */
void help_option_phrase(const struct option *option, struct str *out);

/* Adds a command as lines of at most so many columns, of which each but the last ends in a
 * backslash, so that they can be copied. */
void help_wrap_command(const char *command, size_t columns, struct str *out);

/* Words of text on stdout, broken before the terminal's last column; each further line is indented.
 * at: the column where the first begins. */
void help_print_wrapped(const char *text, unsigned at, unsigned indent);

#endif
