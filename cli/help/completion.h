/*
 * completion — candidates for the word at the cursor of a shell's command line.
 *
 * The scripts completion.bash, completion.zsh and completion.fish run `millrace __complete WORD...`
 * on each TAB. The last WORD is the one at the cursor. The first line of output is KIND<TAB>PREFIX.
 * KIND is `files` or `folders` if a name may follow PREFIX, otherwise `words`. Each further line is
 * CANDIDATE<TAB>DESCRIPTION. Candidates replace the whole word; the script filters them.
 */
#ifndef MILLRACE_CLI_HELP_COMPLETION_H
#define MILLRACE_CLI_HELP_COMPLETION_H

/* Prints the candidates. words: everything after `__complete`; count >= 1. */
void completion_print(int count, char **words);

#endif
