/*
 * member_name — splits the name of a tar member into key and extension, by WebDataset's convention.
 *
 *     a/22.0/1.seg.PNG  ->  key "a/22.0/1", extension "seg.png"
 *
 * The base name splits at its first dot; folders may contain dots. A member is not a field if its
 * base name has no dot, begins with a dot or has nothing after the dot, or if `__x__` is the first
 * part of its name.
 */
#ifndef MILLRACE_SHARDS_FORMAT_MEMBER_NAME_H
#define MILLRACE_SHARDS_FORMAT_MEMBER_NAME_H

#include "base/err.h"
#include "shards/format/index.h"

#include <stdbool.h>

struct member_name {
    char key[SHARD_KEY_BYTES_MAX];
    char extension[SHARD_EXTENSION_BYTES_MAX]; /* ASCII letters are lowercased */
};

/* *ret_is_field: false if readers skip the member. -EBADMSG with detail, but without location: a
 * key or extension that is too long or has control characters. */
int member_name_split(const char *name, struct member_name *ret_name, bool *ret_is_field,
                      struct err *err);

#endif
