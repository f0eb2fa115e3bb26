/*
 * verb — a command of the program: its name, arguments, options, examples and function.
 *
 * Each cmd_*.c defines a `const struct verb`; verbs.c lists them. Help, suggestions, manual pages
 * and completions use these tables.
 */
#ifndef MILLRACE_CLI_VERBS_VERB_H
#define MILLRACE_CLI_VERBS_VERB_H

#include "base/err.h"
#include "base/log.h"
#include "cli/core/console.h"
#include "cli/core/exit_status.h"
#include "cli/verbs/options.h"

#include <stdbool.h>
#include <stddef.h>

/* The options of every verb; first member of every verb's args. */
struct common_args {
    bool json, quiet, verbose, help;
};

/* Immutable during the run. */
struct invocation {
    const void *args; /* the verb's own struct */
    const struct common_args *common;
    const char *const *positional;
    size_t positional_count;
    /* all words after the program's name; ends with NULL */
    const char *const *words;
    struct console *console;
    const struct log *log;
};

/* Immutable. */
struct verb {
    const char *name; /* "read", "convert dataset" */
    struct {
        const char *names; /* "SRC DST" */
        size_t min, max;   /* count */
    } arguments;
    const char *summary;
    const char *details; /* paragraphs for --help; NULL: none */
    struct option_table options;
    const char *const *examples; /* NULL-terminated; work as written */
    size_t args_bytes;
    /* Returns an exit status, or -errno with detail: -EINVAL becomes EXIT_USAGE, others
     * EXIT_FAILED. main prints the detail. */
    int (*run)(const struct invocation *invocation, struct err *err);
};

/* Finds the verb at the start of argv, and the number of words in its name. -EINVAL suggests the
 * nearest name. */
int verb_find(int argc, char **argv, const struct verb **ret_verb, int *ret_words, struct err *err);
/* Returns NULL beyond the last. */
const struct verb *verb_at(size_t n);
/* Whether word begins the names of several verbs, like "convert". */
bool verb_is_group(const char *word);

/* The verb's own options, then the common ones. */
struct option_table verb_options(const struct verb *verb);

#endif
