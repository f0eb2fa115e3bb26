/*
 * tree — deterministic sum: adds gradients of micro-batches in a fixed binary tree, independent of
 * which rank has which.
 *
 * T(lo, hi): a single leaf is itself; otherwise split at lo + the largest power of two below hi -
 * lo, and add. Leaves are pushed in order onto a stack that works like a binary counter: two sums
 * of equal size merge at once, and at the end the rest is folded from the top. This takes
 * log2(leaves) + 1 buffers.
 *
 *     tree_reset(&tree);
 *     for each micro-batch: fill tree_leaf(&tree), then tree_push(&tree);
 *     sum = tree_finish(&tree);       // valid until the next reset
 *
 * A rank with the leaves first.. of a larger tree begins at first. Its stack then holds, in order,
 * the largest subtrees of the larger tree that its leaves form; the rank that finishes the tree
 * pushes them.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_TREE_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_TREE_H

#include "base/err.h"
#include "trainer/ops/ops.h"

#include <stdint.h>

enum { TREE_LEVELS_MAX = 64 };

/* Owner thread. Owns its buffers: device memory of the ops, master type. */
struct tree {
    struct ops *ops;
    uint64_t elements; /* of a leaf */
    uint64_t first;    /* position of the first leaf in the larger tree */
    uint32_t buffers_count;
    void *buffers[TREE_LEVELS_MAX];
    uint64_t sizes[TREE_LEVELS_MAX]; /* leaves summed in buffer i of the stack */
    uint32_t depth; /* buffers on the stack; buffers[depth] is the leaf being filled */
    uint64_t next;  /* position of the next leaf */
};

/* Allocates tree_buffers buffers for the leaves first .. first + leaves - 1. -ENOMEM. */
int tree_init(struct tree *tree, struct ops *ops, uint64_t elements, uint64_t first,
              uint64_t leaves, struct err *err);
void tree_deinit(struct tree *tree);
/* Like tree_deinit, but the buffers may still be read (comm.h), so they stay allocated until the
 * process exits. */
void tree_retain(struct tree *tree);
uint32_t tree_buffers(uint64_t first, uint64_t leaves);
/* The number of subtrees that those leaves form on the stack once all are pushed, and the leaves in
 * each. */
uint32_t tree_subtrees(uint64_t first, uint64_t leaves, uint64_t ret_sizes[TREE_LEVELS_MAX]);

/* A view of the stack, restricted to elements from `offset` on. It owns nothing; its pushes do not
 * change the original's depth. */
struct tree tree_part(const struct tree *tree, uint64_t offset, uint64_t elements);

void tree_reset(struct tree *tree);
void *tree_leaf(struct tree *tree); /* where to write the next leaf */
void tree_push(struct tree *tree);
/* Pushes a subtree that was summed elsewhere and is in the leaf buffer: aligned, of leaves (a power
 * of two) leaves. */
void tree_push_subtree(struct tree *tree, uint64_t leaves);
/* Likewise for a subtree at source: it is added from there, or copied if the stack has none of its
 * size. -EIO. */
int tree_push_from(struct tree *tree, const void *source, uint64_t leaves, struct err *err);
/* The tree must begin at leaf 0. */
void *tree_finish(struct tree *tree);

#endif
