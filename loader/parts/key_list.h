/*
 * key_list — a text file of sample keys, one per line, optionally with weights:
 *
 *     0001
 *     cats/0002<TAB>2.5
 *
 * UTF-8, though keys are compared as bytes. Lines end with LF or CRLF; a byte order mark is
 * skipped. With weights, the last tab of a line separates the key from a number of at least 0.
 */
#ifndef MILLRACE_LOADER_PARTS_KEY_LIST_H
#define MILLRACE_LOADER_PARTS_KEY_LIST_H

#include "base/err.h"
#include "io/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum key_list_kind {
    KEY_LIST_UNIQUE,   /* a repeated key is an error */
    KEY_LIST_REPEATED, /* keys may repeat */
    KEY_LIST_WEIGHTED, /* unique keys with weights */
};

enum { KEY_LIST_LINES_MAX = 1 << 30, KEY_LIST_BYTES_MAX = INT32_MAX };

struct listed_key {
    const char *key; /* not NUL-terminated */
    uint32_t bytes;
};

/* Immutable. */
struct key_list {
    char *text;
    struct listed_key *lines;
    double *weights; /* by line; NULL without */
    uint64_t count;  /* of lines, at least 1 */
    uint32_t *slots; /* hash table of first lines: a line's number + 1, or 0 */
    uint64_t slots_count;
};

/* -EINVAL names the line: an empty line, a repeated key, a wrong weight. Free with key_list_free,
 * also after a failure. */
int key_list_read(struct io *io, const char *path, enum key_list_kind kind,
                  struct key_list *ret_list, struct err *err);
void key_list_free(struct key_list *list); /* safe on a zeroed struct */

/* Returns the first line with the key, from 0, or UINT64_MAX. */
uint64_t key_list_find(const struct key_list *list, const char *key, size_t bytes);

#endif
