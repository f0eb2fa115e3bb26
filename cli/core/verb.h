/*
 * verb — one act of the program: its name, arguments, options, examples and the function that does
 * it.
 *
 * Each stands in a file of its own, cmd_*.c, as a `const struct verb`; verbs.c lists them. Help,
 * suggestions, manual pages and completions come from these tables alone.
 */
#ifndef MILLRACE_CLI_CORE_VERB_H
#define MILLRACE_CLI_CORE_VERB_H

#include "base/err.h"
#include "base/log.h"
#include "cli/core/console.h"
#include "cli/core/exit_status.h"
#include "cli/core/options.h"

#include <stdbool.h>
#include <stddef.h>

/* The options that every verb takes; first member of every verb's args. */
struct common_args {
    bool json, quiet, verbose, help;
};

/* What a verb runs with. Immutable during the run. */
struct invocation {
    const void *args; /* the verb's own struct */
    const struct common_args *common;
    const char *const *positional;
    size_t positional_count;
    const char *const *
        words; /* all that was typed behind the program's name, verb and options; NULL at its end */
    struct console *console;
    const struct log *log; /* to the console */
};

/* Immutable. */
struct verb {
    const char *name;      /* "read", "convert dataset" */
    const char *arguments; /* "SRC DST" */
    size_t arguments_least, arguments_most;
    const char *summary; /* a line for the overview */
    const char *details; /* paragraphs for its help; NULL: none */
    struct option_table options;
    const char *const *examples; /* NULL-terminated; commands that work as they stand */
    size_t args_bytes;
    /* An exit status, or -errno with detail: -EINVAL, what was asked for can't be, is EXIT_USAGE,
     * all others EXIT_FAILED. EXIT_USAGE with detail: main prints it too. */
    int (*run)(const struct invocation *invocation, struct err *err);
};

/* The verb that argv begins with, and how many words its name took. -EINVAL with the nearest
 * name. */
int verb_find(int argc, char **argv, const struct verb **ret_verb, int *ret_words, struct err *err);
/* The n-th verb, NULL beyond the last. */
const struct verb *verb_at(size_t n);
/* True where word is the first of several verbs' names, as "convert". */
bool verb_is_group(const char *word);

/* All options of the verb: its own, then the common ones. tables holds VERB_TABLES. */
enum { VERB_TABLES = 2 };
void verb_tables(const struct verb *verb, struct option_table tables[VERB_TABLES]);

/* Help on stdout: of the whole, of those whose name begins with group, of one verb. */
void verb_print_overview(const char *group);
void verb_print_help(const struct verb *verb);

#endif
