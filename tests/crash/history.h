/*
 * history — what was done to the files below one folder, operation by operation, in the order in
 * which the kernel was asked.
 *
 * An operation is in progress from instant `begin` to instant `end`; every begin and every end is
 * an instant of its own, 1, 2, ... So a crash "at instant c" is one after instant c and before c +
 * 1: whatever has begun by then may have had its effect, and whatever has ended by then was known
 * to the program to have had it. Operations on names are over as soon as they begin.
 */
#ifndef MILLRACE_TESTS_CRASH_HISTORY_H
#define MILLRACE_TESTS_CRASH_HISTORY_H

#include "tests/crash/tree.h"

#include <stdint.h>
#include <stdio.h>

#define HISTORY_NEVER UINT32_MAX

enum history_kind {
    HISTORY_LINK, /* child gets name in folder node: a file created, a folder made, a second name */
    HISTORY_UNLINK,   /* name goes from folder node, be it a file's or an empty folder's */
    HISTORY_RENAME,   /* name becomes other, in folder node */
    HISTORY_EXCHANGE, /* name and other swap, in folder node */
    HISTORY_WRITE,    /* data at offset of file node */
    HISTORY_SIZE,     /* file node has `bytes` bytes */
    HISTORY_GROW,     /* file node has that many at least, zeros where there were none */
    HISTORY_SYNC,     /* fsync of file or folder node */
    HISTORY_NOTE,     /* something that the program said: node is its number */
};

struct history_op {
    enum history_kind kind;
    uint32_t begin, end; /* instants; HISTORY_NEVER: it has not ended */
    uint32_t node, child;
    uint32_t opener; /* of a file: through which of its openings */
    char *name, *other;
    uint64_t offset, bytes;
    unsigned char *data;
    /* Computed by history_close: the instant from which on it is durable, by an fsync of node, of a
     * file through the same opening, that began after its end. */
    uint32_t durable_at;
};

/* Zero is no history. */
struct history {
    struct tree
        /* what was there, all of it durable; with the nodes that came later, which are empty */
        base;
    struct history_op *ops;
    uint32_t ops_count;
    uint32_t instants_count;
};

/* The operation, whose begin is the next instant; its number. Takes op's texts and data over. */
uint32_t history_add(struct history *history, struct history_op op);
void history_end(struct history *history, uint32_t op);
/* To be called once, when nothing is added any more. */
void history_close(struct history *history);
void history_deinit(struct history *history);

/* Of names, hence over when it began. */
bool history_is_name_op(const struct history_op *op);
/* Does it to the tree, in whole. Notes and fsyncs do nothing. */
void history_apply(const struct history_op *op, struct tree *tree);
/* What the program sees at that instant: everything that has begun is done. */
void history_seen(const struct history *history, uint32_t instant, struct tree *ret_tree);
/* One line an operation, for people; those that have begun by then. */
void history_print(const struct history *history, uint32_t instant, FILE *to);

#endif
