/*
 * where — a condition on the index fields of a sample (shards/format/index.h).
 *
 *     score >= 0.5 && (width >= 256 || class("dog")) && !(nsfw == 1)
 *
 * From the loosest to the tightest: `||`, `&&`, and `!`, which stands before a parenthesis, `!` or
 * class(...). A comparison is a name, one of < <= > >= == !=, and a number, true (1) or false (0).
 * class("NAME") compares the index field `label` with the number of the class. A comparison with a
 * number that the sample lacks is false, also with !=.
 *
 *     where_parse("score >= 0.5", dataset->classes, dataset->classes_count, &where, err);
 *     values[i] = ...;                              // of where_field(where, i); NaN: missing
 *     if (where_matches(where, values)) ...
 */
#ifndef MILLRACE_LOADER_PARTS_WHERE_H
#define MILLRACE_LOADER_PARTS_WHERE_H

#include "base/err.h"
#include "shards/format/index.h"

enum {
    WHERE_BYTES_MAX = 4096,
    WHERE_NESTING_MAX = 30, /* a level takes two bits of an evaluation's 64 */
};
#define WHERE_LABEL "label"

struct where; /* immutable */

/* -EINVAL names the column of the text, from 1. */
int where_parse(const char *text, char *const *classes, uint64_t classes_count,
                struct where **ret_where, struct err *err);
void where_free(struct where *where); /* NULL is fine */

/* The names in the condition, each once; at most SHARD_NUMBERS_MAX. */
uint32_t where_fields(const struct where *where);
const char *where_field(const struct where *where, uint32_t field);

bool where_matches(const struct where *where, const double *values);

#endif
