/*
 * member_name — the name of a tar's member as key and extension, by the convention of WebDataset.
 *
 *     a/22.0/1.seg.PNG  ->  key "a/22.0/1", extension "seg.png"
 *
 * The base name splits at its first dot; folders may hold dots. No field of a sample are: names
 * without a dot, hidden ones (the base name begins with a dot), those with nothing behind the dot,
 * and those whose first part is `__x__`.
 */
#ifndef MILLRACE_SHARDS_MEMBER_NAME_H
#define MILLRACE_SHARDS_MEMBER_NAME_H

#include "base/err.h"
#include "shards/index.h"

#include <stdbool.h>

struct member_name {
    char key[SHARD_KEY_BYTES_MAX];
    char extension[SHARD_EXTENSION_BYTES_MAX]; /* capitals (ASCII) made small */
};

/* *ret_is_field: false where readers skip the member. -EBADMSG with detail (what, found) where it
 * is a field whose key or extension is too long or holds control characters. */
int member_name_split(const char *name, struct member_name *ret_name, bool *ret_is_field,
                      struct err *err);

#endif
