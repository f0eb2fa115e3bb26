/*
 * tree — the canonical sum: gradients of micro-batches added in the same binary tree, whoever holds which.
 *
 * T(lo, hi): one leaf is itself; else split at lo + the largest power of two below hi - lo, and add. Pushing leaves in order onto a
 * stack that works like a binary counter computes it in log2(leaves) + 1 buffers: two sums of equal size merge at once; at
 * the end the rest is folded from the top.
 *
 *     tree_reset(&tree);
 *     for each micro-batch: fill tree_leaf(&tree), then tree_push(&tree);
 *     sum = tree_finish(&tree);       // lives until the next reset
 */
#ifndef MILLRACE_TRAINER_TREE_H
#define MILLRACE_TRAINER_TREE_H

#include "base/err.h"
#include "trainer/ops.h"

#include <stdint.h>

enum { TREE_LEVELS_MAX = 40 };

/* Owner thread. Owns its buffers: device memory of the ops, master type. */
struct tree {
    struct ops *ops;
    uint64_t elements; /* of a leaf */
    uint64_t leaves_max;
    uint32_t buffers_count;
    void *buffers[TREE_LEVELS_MAX];
    uint64_t sizes[TREE_LEVELS_MAX]; /* leaves summed in buffer i of the stack */
    uint32_t depth;                  /* buffers on the stack; the leaf being filled is buffers[depth] */
};

/* Buffers for sums of up to leaves_max leaves: tree_buffers(leaves_max) of them. -ENOMEM. */
int tree_init(struct tree *tree, struct ops *ops, uint64_t elements, uint64_t leaves_max, struct err *err);
void tree_deinit(struct tree *tree);
uint32_t tree_buffers(uint64_t leaves_max);

void tree_reset(struct tree *tree);
void *tree_leaf(struct tree *tree); /* where the next leaf is to be written */
void tree_push(struct tree *tree);
/* A subtree that another rank has summed: aligned, of leaves (a power of two) leaves. The leaf buffer holds it. */
void tree_push_subtree(struct tree *tree, uint64_t leaves);
void *tree_finish(struct tree *tree);

#endif
