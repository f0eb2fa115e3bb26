/*
 * completion — scripts by which a shell completes millrace's command line; each is one walk over
 * the grammar.
 *
 * A script stands alone: it calls neither millrace nor another package, so that pressing TAB costs
 * nothing, and it is as old as the program that made it. Errors stay in out (str_status).
 */
#ifndef MILLRACE_CLI_HELP_COMPLETION_H
#define MILLRACE_CLI_HELP_COMPLETION_H

#include "base/str.h"

void completion_bash(struct str *out);
void completion_zsh(struct str *out);
void completion_fish(struct str *out);

/* text as one word of bash and zsh, within single quotes. */
void completion_quote(struct str *out, const char *text);

#endif
