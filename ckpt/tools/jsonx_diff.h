/*
 * jsonx_diff — two JSON objects compared: the entries that differ, by their path.
 *
 * Objects are walked by key at every depth; all else is compared whole, by the canonical text of
 * json_format. So there is no entry exactly where both objects have the same canonical text.
 */
#ifndef MILLRACE_CKPT_TOOLS_JSONX_DIFF_H
#define MILLRACE_CKPT_TOOLS_JSONX_DIFF_H

#include "base/jsonx.h"

#include <stddef.h>

/* Owns its texts. */
struct jsonx_diff_entry {
    char *path;  /* keys joined by dots */
    char *a, *b; /* compact JSON; NULL: absent there */
};

/* Zero is an empty list. Sorted by key at every depth. */
struct jsonx_diff {
    struct jsonx_diff_entry *entries;
    size_t count, capacity;
};

/* a, b: of one document each, named root in the paths; one may be NULL: absent. 0 or -ENOMEM; the
 * list is to be freed in both cases. */
int jsonx_diff_collect(struct jsonx_diff *diff, const char *root, struct json_t *a,
                       struct json_t *b);
void jsonx_diff_deinit(struct jsonx_diff *diff);

#endif
