/*
 * config_value — a row in the table of configuration fields, and its value as text.
 */
#ifndef MILLRACE_TRAINER_CONFIG_CONFIG_VALUE_H
#define MILLRACE_TRAINER_CONFIG_CONFIG_VALUE_H

#include "base/str.h"
#include "trainer/config/config_mix.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In steps or in time; the other field is 0. Both 0: never. */
struct config_interval {
    uint64_t steps, ns;
};

enum config_kind {
    CONFIG_TEXT, /* char[bytes] */
    CONFIG_PATH, /* char[bytes]; a URL needs a scheme that this build supports */
    CONFIG_BOOL,
    CONFIG_COUNT,      /* uint64_t */
    CONFIG_COUNT_AUTO, /* uint64_t; auto: 0 */
    CONFIG_SIZE,       /* uint64_t, bytes: 64MiB */
    CONFIG_SIZE_AUTO,  /* uint64_t, bytes; auto: 0 */
    CONFIG_DURATION,   /* uint64_t, nanoseconds: 90s, 10min */
    CONFIG_INTERVAL,   /* struct config_interval: 500, 15min; min and max: steps */
    CONFIG_REAL,       /* double */
    CONFIG_FRACTION,   /* double: 0.01 or 1% */
    CONFIG_CHOICE,     /* uint32_t: index in choices */
    CONFIG_PAIR,       /* two adjacent doubles: [0.9, 0.95] */
    CONFIG_MIX,        /* struct config_mix */
};

struct config_alias {
    const char *alias, *choice;
};

/* Immutable. */
struct config_field {
    const char *key;
    enum config_kind kind;
    size_t offset;
    size_t bytes;                       /* of CONFIG_TEXT and CONFIG_PATH */
    const char *default_text;           /* in YAML syntax */
    double min, max;                    /* for numbers */
    const char *const *choices;         /* NULL-terminated, for CONFIG_CHOICE */
    const struct config_alias *aliases; /* not listed in help; NULL-terminated */
    /* affects the sample order or the model */
    bool fixed_on_resume;
    /* affects neither results nor collectives */
    bool may_differ_by_rank;
    bool is_written;  /* of CONFIG_PATH: the run writes there */
    const char *help; /* including the unit */
};

/* Not for CONFIG_MIX. texts: two for CONFIG_PAIR, else one. -EINVAL: wrong kind; -ERANGE. */
int config_value_read(const struct config_field *field, const char *const *texts, size_t count,
                      void *target);
/* Describes the valid values for messages. */
void config_value_describe(const struct config_field *field, char *text, size_t bytes);
/* Appends the value in YAML syntax. */
void config_value_print(const struct config_field *field, const void *source, struct str *out);

#endif
