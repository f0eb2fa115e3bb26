/*
 * tree — see tree.h.
 */
#include "trainer/tree.h"

#include "device/device.h"

#include <assert.h>
#include <errno.h>

uint32_t tree_buffers(uint64_t leaves_max)
{
    /* With n leaves pushed the stack holds one sum for each bit set in n, and the next leaf needs a buffer: the largest
     * popcount of 0 .. leaves_max - 1, plus 1. */
    uint32_t count = 1;
    while (leaves_max >>= 1)
        count++;
    return count;
}

int tree_init(struct tree *tree, struct ops *ops, uint64_t elements, uint64_t leaves_max, struct err *err)
{
    assert(elements > 0 && leaves_max > 0 && tree_buffers(leaves_max) <= TREE_LEVELS_MAX);
    *tree = (struct tree){.ops = ops, .elements = elements, .leaves_max = leaves_max};
    uint32_t count = tree_buffers(leaves_max);
    for (uint32_t i = 0; i < count; i++) {
        int status = ops->device->ops->mem_alloc(ops->device, MEM_DEVICE, elements * ops_master_bytes(ops),
                                                 &tree->buffers[i], err);
        if (status < 0) {
            tree_deinit(tree);
            return status;
        }
        tree->buffers_count++;
    }
    return 0;
}

void tree_deinit(struct tree *tree)
{
    for (uint32_t i = 0; i < tree->buffers_count; i++)
        tree->ops->device->ops->mem_free(tree->ops->device, MEM_DEVICE, tree->buffers[i],
                                         tree->elements * ops_master_bytes(tree->ops));
    *tree = (struct tree){0};
}

void tree_reset(struct tree *tree)
{
    tree->depth = 0;
}

void *tree_leaf(struct tree *tree)
{
    assert(tree->depth < tree->buffers_count); /* more leaves than tree_init was told */
    return tree->buffers[tree->depth];
}

/* Adds the sum on top of the stack to the one below it. */
static void merge_top(struct tree *tree)
{
    uint32_t top = tree->depth - 1;
    tree->ops->table->tree_add(tree->ops, tree->buffers[top - 1], tree->buffers[top], tree->elements);
    tree->sizes[top - 1] += tree->sizes[top];
    tree->depth = top;
}

void tree_push(struct tree *tree)
{
    tree_push_subtree(tree, 1);
}

void tree_push_subtree(struct tree *tree, uint64_t leaves)
{
    assert(leaves > 0 && (leaves & (leaves - 1)) == 0 && tree->depth < tree->buffers_count);
    /* aligned: what precedes is a multiple of its size */
    assert(tree->depth == 0 || tree->sizes[tree->depth - 1] >= leaves);
    tree->sizes[tree->depth++] = leaves;
    while (tree->depth > 1 && tree->sizes[tree->depth - 2] == tree->sizes[tree->depth - 1])
        merge_top(tree);
}

void *tree_finish(struct tree *tree)
{
    assert(tree->depth > 0);
    while (tree->depth > 1)
        merge_top(tree);
    return tree->buffers[0];
}
