/*
 * help — prints help on stdout; manual pages share its text.
 *
 * A line that begins with a space is printed verbatim; any other line is a paragraph and wraps.
 */
#ifndef MILLRACE_CLI_HELP_HELP_H
#define MILLRACE_CLI_HELP_HELP_H

#include "base/str.h"
#include "cli/verbs/verb.h"
#include "trainer/config/config.h"

extern const char help_intro[];

struct help_status {
    int status;
    const char *meaning;
};
extern const struct help_status help_statuses[]; /* ends with meaning NULL */

/* Reads the section of the file formats at `at`; NULL: the first. Returns the next one or NULL. */
const char *help_format_section(const char *at, struct str *title, struct str *text);
void help_print_formats(void);

extern const char help_config_intro[];
extern const char help_config_example[];
/* Formats the type of a key: "number", "true|false", "shuffle|full|sequential". Returns text. */
enum { HELP_KIND_BYTES = 96 };
const char *help_config_kind(const struct config_field *field, char text[HELP_KIND_BYTES]);
void help_print_config(void);

/* Prints the overview of the verbs in group; NULL: of all verbs. */
void help_print_overview(const char *group);
void help_print_verb(const struct verb *verb);

/* Adds the option's description and default, and whether it is required or repeatable. */
void help_describe_option(const struct option *option, struct str *out);

/* Adds a command, wrapped to `columns` with backslashes. */
void help_wrap_command(const char *command, size_t columns, struct str *out);

/* Wraps to the terminal's width. at: the column of the first line; indent: that of the others. */
void help_print_wrapped(const char *text, unsigned at, unsigned indent);

#endif
