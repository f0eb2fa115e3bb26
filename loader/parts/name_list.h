/*
 * name_list — a text file with a name in each line: sample keys, keys with weights, or class names.
 *
 *     0001
 *     cats/0002<TAB>2.5
 *
 * Lines end with LF or CRLF; a byte order mark is skipped. With weights, the last tab of a line
 * separates the name from a number of at least 0. The first class name is that of class 0.
 */
#ifndef MILLRACE_LOADER_PARTS_NAME_LIST_H
#define MILLRACE_LOADER_PARTS_NAME_LIST_H

#include "base/err.h"
#include "base/name_set.h"
#include "io/io.h"

#include <stdint.h>

enum name_list_kind {
    NAME_LIST_KEYS,          /* a repeated key is an error */
    NAME_LIST_REPEATED_KEYS, /* keys may repeat */
    NAME_LIST_WEIGHTED_KEYS, /* unique keys with weights */
    NAME_LIST_CLASSES,       /* unique, in UTF-8 without NUL */
};

/* Immutable. */
struct name_list {
    struct name_set names; /* distinct, by first line */
    struct str numbers;    /* uint32_t: the number in names, by line */
    struct str weights;    /* double, by line; NAME_LIST_WEIGHTED_KEYS only */
    uint64_t count;        /* of lines, at least 1 */
};

/* -EINVAL names the line: an empty line, a repeated name, a wrong weight, too many lines. Free with
 * name_list_deinit, also after a failure. */
int name_list_read(struct io *io, const char *path, enum name_list_kind kind,
                   struct name_list *ret_list, struct err *err);
void name_list_deinit(struct name_list *list); /* safe on a zeroed struct */

static inline uint32_t name_list_number(const struct name_list *list, uint64_t line)
{
    return ((const uint32_t *)(const void *)list->numbers.data)[line];
}

/* By line; NULL without weights. */
static inline const double *name_list_weights(const struct name_list *list)
{
    return (const double *)(const void *)list->weights.data;
}

#endif
