/*
 * completion — candidates for the word at the cursor of a shell.
 *
 * On each TAB, completion.bash, .zsh or .fish runs `millrace __complete WORD...`; the last WORD is
 * at the cursor. The first line of output is KIND<TAB>PREFIX: KIND is `files` or `folders` if a
 * name may follow PREFIX, else `words`. Each further line is CANDIDATE<TAB>DESCRIPTION. A candidate
 * replaces the whole word; the script filters candidates.
 */
#ifndef MILLRACE_CLI_HELP_COMPLETION_H
#define MILLRACE_CLI_HELP_COMPLETION_H

/* words: everything after `__complete`; count >= 1. */
void completion_print(int count, char **words);

#endif
