/*
 * jsonx_diff — lists the paths at which two JSON objects differ.
 *
 * Objects are compared by key at every depth, other values by the canonical text of jsonx_format.
 * The list is empty if and only if both objects have the same canonical text.
 */
#ifndef MILLRACE_CKPT_TOOLS_JSONX_DIFF_H
#define MILLRACE_CKPT_TOOLS_JSONX_DIFF_H

#include "base/json/jsonx.h"

#include <stddef.h>

/* Owns its texts. */
struct jsonx_diff_entry {
    char *path;  /* keys joined by dots */
    char *a, *b; /* compact JSON; NULL: absent on that side */
};

/* All zeros: an empty list. Sorted by key at every depth. */
struct jsonx_diff {
    struct jsonx_diff_entry *entries;
    size_t count, capacity;
};

/* Adds the differences of a and b (NULL: absent); their paths begin with root. 0 or -ENOMEM; free
 * the list in both cases. */
int jsonx_diff_collect(struct jsonx_diff *diff, const char *root, struct json_t *a,
                       struct json_t *b);
void jsonx_diff_deinit(struct jsonx_diff *diff);

#endif
