/*
 * tree — the canonical sum: gradients of micro-batches added in the same binary tree, whoever holds
 * which.
 *
 * T(lo, hi): one leaf is itself; else split at lo + the largest power of two below hi - lo, and
 * add. Pushing leaves in order onto a stack that works like a binary counter computes it in
 * log2(leaves) + 1 buffers: two sums of equal size merge at once; at the end the rest is folded
 * from the top.
 *
 *     tree_reset(&tree);
 *     for each micro-batch: fill tree_leaf(&tree), then tree_push(&tree);
 *     sum = tree_finish(&tree);       // lives until the next reset
 *
 * A rank that has the leaves first.. of a larger tree begins there: then what is on the stack are
 * the largest subtrees of the larger tree that its leaves make up, in order, for whoever finishes
 * it to push.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_TREE_H
#define MILLRACE_TRAINER_PARALLEL_TREE_H

#include "base/err.h"
#include "trainer/ops/ops.h"

#include <stdint.h>

enum { TREE_LEVELS_MAX = 64 };

/* Owner thread. Owns its buffers: device memory of the ops, master type. */
struct tree {
    struct ops *ops;
    uint64_t elements; /* of a leaf */
    uint64_t first;    /* the first leaf's place in the larger tree */
    uint32_t buffers_count;
    void *buffers[TREE_LEVELS_MAX];
    uint64_t sizes[TREE_LEVELS_MAX]; /* leaves summed in buffer i of the stack */
    uint32_t depth; /* buffers on the stack; the leaf being filled is buffers[depth] */
    uint64_t next;  /* the place of the leaf that comes next */
};

/* Buffers for the leaves first .. first + leaves - 1: tree_buffers of them. -ENOMEM. */
int tree_init(struct tree *tree, struct ops *ops, uint64_t elements, uint64_t first,
              uint64_t leaves, struct err *err);
void tree_deinit(struct tree *tree);
/* The same, where somebody may still read its buffers (comm.h): they stay until the process
 * exits. */
void tree_retain(struct tree *tree);
uint32_t tree_buffers(uint64_t first, uint64_t leaves);
/* How many subtrees those leaves are on the stack, once all are pushed, and how many leaves each
 * sums. */
uint32_t tree_subtrees(uint64_t first, uint64_t leaves, uint64_t ret_sizes[TREE_LEVELS_MAX]);

/* The same stack of fewer elements: those from `offset` on. It owns nothing, and its pushes do not
 * show in the whole's stack. */
struct tree tree_part(const struct tree *tree, uint64_t offset, uint64_t elements);

void tree_reset(struct tree *tree);
void *tree_leaf(struct tree *tree); /* where the next leaf is to be written */
void tree_push(struct tree *tree);
/* A subtree that was summed elsewhere: aligned, of leaves (a power of two) leaves. The leaf buffer
 * holds it. */
void tree_push_subtree(struct tree *tree, uint64_t leaves);
/* The same of one that lies elsewhere: it is added from there, or copied where nothing of its size
 * is on the stack. -EIO. */
int tree_push_from(struct tree *tree, const void *source, uint64_t leaves, struct err *err);
/* Of a tree that begins at leaf 0. */
void *tree_finish(struct tree *tree);

#endif
