/*
 * tree — deterministic sum: adds the gradients of micro-batches in a fixed binary tree, independent
 * of the number of ranks.
 *
 * T(lo, hi) is the sum of both sides of a split at lo + the largest power of two below hi - lo.
 * Leaves are pushed in order onto a stack that works like a binary counter: two sums of equal size
 * merge immediately; tree_finish folds the rest from the top. This takes log2(leaves) + 1 buffers.
 *
 *     tree_reset(&tree);
 *     for each micro-batch: fill tree_leaf(&tree), then tree_push(&tree);
 *     sum = tree_finish(&tree);       // valid until the next reset
 *
 * If a rank's leaves start at position `first` of a larger tree, it computes the largest subtrees
 * that they form. The rank that finishes the tree pushes these subtrees.
 */
#ifndef MILLRACE_TRAINER_PARALLEL_REDUCTION_TREE_H
#define MILLRACE_TRAINER_PARALLEL_REDUCTION_TREE_H

#include "base/err.h"
#include "trainer/ops/ops.h"

#include <stdint.h>

enum { TREE_LEVELS_MAX = 64 };

/* Owner thread. Owns its buffers: device memory, master type. */
struct tree {
    struct ops *ops;
    uint64_t elements; /* of a leaf */
    uint64_t first;    /* position of the first leaf in the larger tree */
    uint32_t buffers_count;
    void *buffers[TREE_LEVELS_MAX];
    uint64_t sizes[TREE_LEVELS_MAX]; /* number of leaves summed in buffer i of the stack */
    uint32_t depth;                  /* of the stack; buffers[depth] is the leaf being filled */
    uint64_t next;                   /* position of the next leaf */
};

/* Allocates tree_buffers_count(first, leaves) buffers. */
int tree_init(struct tree *tree, struct ops *ops, uint64_t elements, uint64_t first,
              uint64_t leaves, struct err *err);
void tree_deinit(struct tree *tree);
/* Like tree_deinit, but never frees the buffers, which may still be read (comm.h). */
void tree_retain(struct tree *tree);
uint32_t tree_buffers_count(uint64_t first, uint64_t leaves);
/* Returns the number of subtrees on the stack after all leaves are pushed. ret_sizes: the number of
 * leaves in each. */
uint32_t tree_count_subtrees(uint64_t first, uint64_t leaves, uint64_t ret_sizes[TREE_LEVELS_MAX]);

/* Returns a view of a range of elements. It owns nothing; its pushes do not change the original's
 * depth. */
struct tree tree_part(const struct tree *tree, uint64_t offset, uint64_t elements);

void tree_reset(struct tree *tree);
void *tree_leaf(struct tree *tree); /* fill it before tree_push */
void tree_push(struct tree *tree);
/* Pushes the leaf buffer as a subtree summed elsewhere. leaves: a power of two that divides the
 * subtree's position. */
void tree_push_subtree(struct tree *tree, uint64_t leaves);
/* Pushes the subtree sum at source: adds it directly or copies it. */
int tree_push_from(struct tree *tree, const void *source, uint64_t leaves, struct err *err);
/* The tree must begin at leaf 0. */
void *tree_finish(struct tree *tree);

#endif
