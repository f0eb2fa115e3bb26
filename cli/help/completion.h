/*
 * completion — generates shell completion scripts for millrace's command line from the grammar.
 *
 * A script is self-contained: it calls neither millrace nor another package, so pressing TAB is
 * fast. It describes the version that generated it. Errors are kept in out (str_status).
 */
#ifndef MILLRACE_CLI_HELP_COMPLETION_H
#define MILLRACE_CLI_HELP_COMPLETION_H

#include "base/str.h"

void completion_bash(struct str *out);
void completion_zsh(struct str *out);
void completion_fish(struct str *out);

/* Adds text as one single-quoted word of bash and zsh. */
void completion_quote(struct str *out, const char *text);

#endif
