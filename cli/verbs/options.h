/*
 * options — the options of a verb: one table for parsing, help, manual pages and completions.
 *
 *     static const struct option option_rows[] = {
 *         {"workers", 'j', OPTION_COUNT, offsetof(struct read_args, workers), "N",
 *          .help = "decoding threads; 0: one per CPU"},
 *     };
 *
 * A value is stored in the verb's struct at the row's offset, in the type of the row's kind.
 * default_text is parsed like user input, so help shows the actual default.
 *
 * Accepted: --name VALUE, --name=VALUE, -j VALUE, -jVALUE; "--" ends the options. A flag takes no
 * value, and an option with a bare_value takes one only as --name=VALUE.
 */
#ifndef MILLRACE_CLI_VERBS_OPTIONS_H
#define MILLRACE_CLI_VERBS_OPTIONS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG,     /* bool */
    OPTION_TEXT,     /* const char *, borrowed from argv */
    OPTION_COUNT,    /* uint64_t, min..max */
    OPTION_SIZE,     /* uint64_t, bytes */
    OPTION_DURATION, /* uint64_t, nanoseconds */
    OPTION_CHOICE,   /* uint32_t, the index in choices */
    OPTION_LIST,     /* struct option_list: a,b,c */
    OPTION_REPEAT,   /* struct option_list: one item per occurrence */
};

struct option_list {
    char **items;
    size_t count;
};

/* Immutable. */
struct option {
    const char *name; /* without dashes */
    char letter;      /* short option; 0: none */
    enum option_kind kind;
    size_t offset;              /* in the verb's struct */
    const char *value_name;     /* as help shows it (grammar.h); NULL for flags and choices */
    const char *default_text;   /* NULL: zero, false, NULL */
    const char *help;           /* a phrase, with the unit */
    const char *const *choices; /* NULL-terminated */
    uint64_t min, max;          /* of OPTION_COUNT; max 0: no limit */
    const char *bare_value;     /* of --name alone; NULL: it needs a value */
    bool required;
};

struct option_table {
    const struct option *rows;
    size_t count;
    const struct option_table *next; /* further options; NULL: none */
};

#define OPTION_TABLE(rows)                                                                         \
    {                                                                                              \
        rows, sizeof rows / sizeof rows[0], NULL                                                   \
    }

const struct option *options_at(const struct option_table *table, size_t n);

/* Fills args (zeroed, of the verb's size) with defaults and the values in argv, and ret_positional
 * with all other words. Call options_deinit for both, even after a failure. -EINVAL with detail. */
int options_parse(const struct option_table *table, int argc, char **argv, void *args,
                  struct option_list *ret_positional, struct err *err);

/* -EINVAL names a missing option. Separate from options_parse, so that `--help` works. */
int options_check_required(const struct option_table *table, int argc, char **argv,
                           struct err *err);

void options_deinit(const struct option_table *table, void *args, struct option_list *positional);

/* Format a value as help shows it: "N", "keys|json|none". Return text. */
const char *option_format_value(const struct option *option, char *text, size_t bytes);
/* What surrounds that value after the option's name: " " and "", or "[=" and "]". */
const char *option_before_value(const struct option *option);
const char *option_after_value(const struct option *option);
/* Whether the next word is the option's value. */
bool option_takes_word(const struct option *option);
const char *option_format_choices(const char *const *choices, char *text, size_t bytes);

#endif
