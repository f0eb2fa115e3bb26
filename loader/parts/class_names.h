/*
 * class_names — a list of class names from a text file: UTF-8, one name per line, the first for
 * class 0. Lines end with LF or CRLF; a byte order mark is skipped.
 */
#ifndef MILLRACE_LOADER_CLASS_NAMES_H
#define MILLRACE_LOADER_CLASS_NAMES_H

#include "base/err.h"
#include "io/io.h"

#include <stddef.h>
#include <stdint.h>

enum { CLASS_NAMES_MAX = 1 << 24, CLASS_NAMES_BYTES_MAX = 1 << 28 };

struct class_name {
    const char *name;
    int32_t number;
};

/* Immutable. */
struct class_names {
    char *text;
    const char **names;        /* by number */
    struct class_name *sorted; /* by name */
    uint64_t count;
};

/* -EINVAL with the line: an empty line, a repeated name, or not UTF-8. Free with class_names_free,
 * also after a failure. */
int class_names_read(struct io *io, const char *path, struct class_names *ret_names,
                     struct err *err);
void class_names_free(struct class_names *names); /* safe on a zeroed struct */

/* Returns the number, or -1: there is no such class. */
int32_t class_names_find(const struct class_names *names, const char *name, size_t bytes);

#endif
