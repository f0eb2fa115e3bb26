/*
 * options — what a verb takes on the command line, as one table that drives parsing, `--help`,
 * suggestions, manual pages and completions.
 *
 *     static const struct option rows[] = {
 *         {"workers", 'j', OPTION_COUNT, offsetof(struct read_args, workers), "N",
 *          .help = "decoding threads; 0: one a CPU"},
 *     };
 *
 * Values land in a struct of the verb's own, at the row's offset, as the type that the kind says. A
 * row's default_text is parsed like a value typed by the user, so that what is shown is what holds.
 *
 * Accepted: --name VALUE, --name=VALUE, -j VALUE, -jVALUE; "--" ends the options. A flag takes no
 * value.
 */
#ifndef MILLRACE_CLI_CORE_OPTIONS_H
#define MILLRACE_CLI_CORE_OPTIONS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG,     /* bool */
    OPTION_TEXT,     /* const char *, borrowed from argv */
    OPTION_COUNT,    /* uint64_t, least..most */
    OPTION_SIZE,     /* uint64_t, bytes */
    OPTION_DURATION, /* uint64_t, nanoseconds */
    OPTION_CHOICE,   /* uint32_t, the place in choices */
    OPTION_LIST,     /* struct option_list: a,b,c */
    OPTION_REPEAT,   /* struct option_list: one item for each time it is given */
};

struct option_list {
    char **items;
    size_t count;
};

/* A row. Immutable. */
struct option {
    const char *name; /* without dashes */
    char letter;      /* the short one, 0: none */
    enum option_kind kind;
    size_t offset;              /* in the verb's struct */
    const char *value_name;     /* as help shows it (grammar.h); NULL for flags and choices */
    const char *default_text;   /* NULL: zero, false, NULL */
    const char *help;           /* a phrase, with the unit */
    const char *const *choices; /* NULL-terminated */
    uint64_t least, most;       /* of OPTION_COUNT; most 0: no limit */
    bool required;
};

struct option_table {
    const struct option *rows;
    size_t count;
};

/* Fills args (zeroed, of the verb's own size) with defaults, then with what argv says. Everything
 * that is no option goes to ret_positional. Both own memory afterwards, also on failure:
 * options_deinit. -EINVAL with detail: wrong usage. */
int options_parse(const struct option_table *tables, size_t tables_count, int argc, char **argv,
                  void *args, struct option_list *ret_positional, struct err *err);

/* -EINVAL names a required option that was not given. Apart from parsing, so that `--help` needs
 * none. */
int options_check_required(const struct option_table *tables, size_t tables_count, int argc,
                           char **argv, struct err *err);

void options_deinit(const struct option_table *tables, size_t tables_count, void *args,
                    struct option_list *positional);

/* What stands for the value in help: "N", "keys|json|none". Returns text, which holds bytes. */
const char *option_value_text(const struct option *option, char *text, size_t bytes);

#endif
