/*
 * roff — a manual page built piece by piece in the man(7) language, as groff and mandoc read it.
 *
 *     roff_begin(&out, "MILLRACE-READ", 1);
 *     roff_section(&out, "NAME");
 *     roff_text(&out, "millrace-read");
 *     ...
 *
 * Whatever text is given is printed as it is: no character of it is taken for a request or an
 * escape. Errors stay in out.
 */
#ifndef MILLRACE_CLI_HELP_ROFF_H
#define MILLRACE_CLI_HELP_ROFF_H

#include "base/str.h"

enum roff_font { ROFF_ROMAN, ROFF_BOLD, ROFF_ITALIC };

/* The page's title line; section 1 or 5. */
void roff_begin(struct str *out, const char *title, unsigned section);
/* A heading; ends the line before it. */
void roff_section(struct str *out, const char *heading);
/* An item: what follows on this line is its tag, on the next its text. */
void roff_item(struct str *out);
/* Ends a line that something stands on. */
void roff_end_line(struct str *out);

/* Within a line; in a font. */
void roff_text(struct str *out, const char *text);
void roff_font(struct str *out, enum roff_font font, const char *text);
/* As help has it: lines that are paragraphs or, with a space before them, tables (help.h); what
 * stands between backquotes is bold. */
void roff_prose(struct str *out, const char *text);

/* Lines that are not filled. */
void roff_literal_begin(struct str *out);
void roff_literal_line(struct str *out, const char *line);
void roff_literal_end(struct str *out);

#endif
