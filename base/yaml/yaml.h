/*
 * yaml — reads YAML as a flat list of leaves. The only user of libfyaml.
 *
 * A leaf is a scalar or a sequence of scalars; its path joins the keys by dots: `data: {image:
 * {size: 64}}` is "data.image.size". A sequence of mappings is a leaf without values, followed by
 * the leaves of its entries: `train: [{path: a}]` is "train" and "train[0].path".
 *
 * Duplicate keys, aliases, tags on keys, deeper sequences, directives, a second document and
 * invalid UTF-8 are errors.
 */
#ifndef MILLRACE_BASE_YAML_YAML_H
#define MILLRACE_BASE_YAML_YAML_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    YAML_DEPTH_MAX = 16,
    YAML_VALUES_MAX = 1 << 20,
    YAML_MAPPINGS_MAX = 1024,
    YAML_PATH_BYTES_MAX = 256,
    YAML_VALUE_BYTES_MAX = 2048 /* with the NUL */
};

/* Valid during the callback. */
struct yaml_leaf {
    const char *path;
    int line; /* from 1 */
    bool is_sequence;
    size_t mappings_count;     /* for a sequence of mappings, whose leaves follow; else 0 */
    size_t values_count;       /* 1 for a scalar */
    const char *const *values; /* as text; "" for an empty scalar */
};

/* Visits leaves in file order; returns the first non-zero result of visit. name: for messages.
 * -EINVAL with name and line if the text is not YAML. */
int yaml_walk(const char *text, size_t bytes, const char *name,
              int (*visit)(void *context, const struct yaml_leaf *leaf), void *context,
              struct err *err);

#endif
