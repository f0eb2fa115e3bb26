/*
 * history — the file operations below one folder, in the order of their system calls.
 *
 * An operation is in progress from instant `begin` to instant `end`. Every begin and every end is a
 * separate instant, 1, 2, ... So a crash "at instant c" happens after instant c and before c + 1.
 * Operations started by then may have taken effect; operations that had completed by then must
 * have. Operations on names end as soon as they begin.
 */
#ifndef MILLRACE_TESTS_CRASH_HISTORY_H
#define MILLRACE_TESTS_CRASH_HISTORY_H

#include "tests/crash/tree.h"

#include <stdint.h>
#include <stdio.h>

#define HISTORY_NEVER UINT32_MAX

enum history_kind {
    /* child gets a name in folder node: a new file or folder, or a second name */
    HISTORY_LINK,
    HISTORY_UNLINK,   /* name, of a file or an empty folder, is removed from folder node */
    HISTORY_RENAME,   /* name becomes other in folder node */
    HISTORY_EXCHANGE, /* name and other are swapped in folder node */
    HISTORY_WRITE,    /* writes data at offset of file node */
    HISTORY_SIZE,     /* sets the size of file node to `bytes` */
    HISTORY_GROW,     /* grows file node to at least `bytes`, with zeros */
    HISTORY_SYNC,     /* fsync of file or folder node */
    HISTORY_NOTE,     /* a note of the program; node is its number */
};

struct history_op {
    enum history_kind kind;
    uint32_t begin, end; /* instants; HISTORY_NEVER: not ended */
    uint32_t node, child;
    uint32_t opener; /* for a file: the number of the open call used */
    char *name, *other;
    uint64_t offset, bytes;
    unsigned char *data;
    /* Computed by history_close: the instant from which the operation is durable, due to an fsync
     * of node that began after the operation ended; for a file, through the same open call. */
    uint32_t durable_at;
};

/* All zeros is an invalid history. */
struct history {
    /* the initial contents, all durable; also has nodes for files and folders created later,
     * empty */
    struct tree base;
    struct history_op *ops;
    uint32_t ops_count;
    uint32_t instants_count;
};

/* Adds the operation, which begins at the next instant, and returns its number. Takes ownership of
 * op's strings and data. */
uint32_t history_add(struct history *history, struct history_op op);
void history_end(struct history *history, uint32_t op);
/* Call once, after adding the last operation. */
void history_close(struct history *history);
void history_deinit(struct history *history);

/* Whether op is an operation on names, which ends when it begins. */
bool history_is_name_op(const struct history_op *op);
/* Applies the whole operation to the tree. Notes and fsyncs have no effect. */
void history_apply(const struct history_op *op, struct tree *tree);
/* The tree that the program sees at that instant, with the effects of all begun operations. */
void history_visible_tree(const struct history *history, uint32_t instant, struct tree *ret_tree);
/* Prints the operations begun by then, one per line. */
void history_print(const struct history *history, uint32_t instant, FILE *to);

#endif
