/*
 * roff — builds a manual page in the man(7) language, for groff and mandoc.
 *
 *     roff_begin(&out, "MILLRACE-READ", 1);
 *     roff_section(&out, "NAME");
 *     roff_text(&out, "millrace-read");
 *     ...
 *
 * All text is printed literally: requests and escapes have no effect. Errors are recorded in out.
 */
#ifndef MILLRACE_CLI_HELP_ROFF_H
#define MILLRACE_CLI_HELP_ROFF_H

#include "base/str.h"

enum roff_font { ROFF_ROMAN, ROFF_BOLD, ROFF_ITALIC };

/* Adds the title line; section is 1 or 5. */
void roff_begin(struct str *out, const char *title, unsigned section);
/* Adds a heading; ends the current line. */
void roff_section(struct str *out, const char *heading);
/* Begins an item: its tag follows on this line, its text on the next. */
void roff_item(struct str *out);
void roff_end_line(struct str *out);

/* Adds text within a line; roff_font sets its font. */
void roff_text(struct str *out, const char *text);
void roff_font(struct str *out, enum roff_font font, const char *text);
/* Adds text in the format of help.h; text between backquotes is bold. */
void roff_prose(struct str *out, const char *text);

/* Adds lines verbatim, without filling. */
void roff_literal(struct str *out, const char *text);

#endif
