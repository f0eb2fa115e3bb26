/*
 * tree — see tree.h.
 */
#include "trainer/parallel/reduction/tree.h"

#include "comm/comm.h"
#include "device/device.h"

#include <assert.h>
#include <errno.h>

void tree_retain(struct tree *tree)
{
    for (uint32_t i = 0; i < tree->buffers_count; i++)
        comm_retain(tree->buffers[i]);
    *tree = (struct tree){0};
}

/* True if two sums are the children of one node. next: position of the leaf after both. */
static bool are_siblings(uint64_t below, uint64_t top, uint64_t next)
{
    return below == top && (next - 2 * top) % (2 * top) == 0;
}

/* Computes the sizes on the stack after the leaves from `first` on are pushed, and the maximum
 * depth, including the leaf being filled. */
static uint32_t simulate_pushes(uint64_t first, uint64_t leaves, uint64_t sizes[TREE_LEVELS_MAX],
                                uint32_t *ret_depth_max)
{
    uint32_t depth = 0;
    *ret_depth_max = 0;
    for (uint64_t next = first + 1; next <= first + leaves; next++) {
        sizes[depth++] = 1;
        if (depth > *ret_depth_max)
            *ret_depth_max = depth;
        while (depth > 1 && are_siblings(sizes[depth - 2], sizes[depth - 1], next))
            sizes[--depth - 1] *= 2;
    }
    return depth;
}

uint32_t tree_buffers_count(uint64_t first, uint64_t leaves)
{
    uint64_t sizes[TREE_LEVELS_MAX];
    uint32_t depth;
    simulate_pushes(first, leaves, sizes, &depth);
    return depth;
}

uint32_t tree_count_subtrees(uint64_t first, uint64_t leaves, uint64_t ret_sizes[TREE_LEVELS_MAX])
{
    uint32_t depth;
    return simulate_pushes(first, leaves, ret_sizes, &depth);
}

int tree_init(struct tree *tree, struct ops *ops, uint64_t elements, uint64_t first,
              uint64_t leaves, struct err *err)
{
    assert(elements > 0 && leaves > 0);
    *tree = (struct tree){.ops = ops, .elements = elements, .first = first, .next = first};
    uint32_t count = tree_buffers_count(first, leaves);
    for (uint32_t i = 0; i < count; i++) {
        int status =
            ops->device->ops->mem_alloc(ops->device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS),
                                        elements * ops_master_bytes(ops), &tree->buffers[i], err);
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
        tree->ops->device->ops->mem_free(tree->ops->device, mem_for(MEM_DEVICE, MEM_FOR_GRADIENTS),
                                         tree->buffers[i],
                                         tree->elements * ops_master_bytes(tree->ops));
    *tree = (struct tree){0};
}

struct tree tree_part(const struct tree *tree, uint64_t offset, uint64_t elements)
{
    assert(offset + elements <= tree->elements);
    struct tree part = *tree;
    part.elements = elements;
    for (uint32_t i = 0; i < part.buffers_count; i++)
        part.buffers[i] = (char *)part.buffers[i] + offset * ops_master_bytes(tree->ops);
    return part;
}

void tree_reset(struct tree *tree)
{
    tree->depth = 0;
    tree->next = tree->first;
}

void *tree_leaf(struct tree *tree)
{
    assert(tree->depth < tree->buffers_count); /* no more leaves than passed to tree_init */
    return tree->buffers[tree->depth];
}

static void add_leaf(struct tree *tree, void *target, const void *source)
{
    if (tree->elements > 0)
        tree->ops->table->tree_add(tree->ops, target, source, tree->elements);
}

static void merge_top(struct tree *tree)
{
    uint32_t top = tree->depth - 1;
    add_leaf(tree, tree->buffers[top - 1], tree->buffers[top]);
    tree->sizes[top - 1] += tree->sizes[top];
    tree->depth = top;
}

static bool top_sums_are_siblings(const struct tree *tree)
{
    uint32_t depth = tree->depth;
    return depth > 1 && are_siblings(tree->sizes[depth - 2], tree->sizes[depth - 1], tree->next);
}

static void advance_position(struct tree *tree, uint64_t leaves)
{
    assert(leaves > 0 && (leaves & (leaves - 1)) == 0);
    assert(tree->next % leaves == 0);
    tree->next += leaves;
}

void tree_push(struct tree *tree)
{
    tree_push_subtree(tree, 1);
}

void tree_push_subtree(struct tree *tree, uint64_t leaves)
{
    assert(tree->depth < tree->buffers_count);
    advance_position(tree, leaves);
    tree->sizes[tree->depth++] = leaves;
    while (top_sums_are_siblings(tree))
        merge_top(tree);
}

int tree_push_from(struct tree *tree, const void *source, uint64_t leaves, struct err *err)
{
    struct ops *ops = tree->ops;
    uint32_t depth = tree->depth;
    if (depth > 0 && are_siblings(tree->sizes[depth - 1], leaves, tree->next + leaves)) {
        advance_position(tree, leaves);
        add_leaf(tree, tree->buffers[depth - 1], source);
        tree->sizes[depth - 1] += leaves;
        while (top_sums_are_siblings(tree))
            merge_top(tree);
        return 0;
    }
    int status = tree->elements == 0
                     ? 0
                     : ops->device->ops->copy(ops->device, ops->stream, tree_leaf(tree), source,
                                              tree->elements * ops_master_bytes(ops), err);
    if (!status)
        tree_push_subtree(tree, leaves);
    return status;
}

void *tree_finish(struct tree *tree)
{
    assert(tree->depth > 0 && tree->first == 0);
    while (tree->depth > 1)
        merge_top(tree);
    return tree->buffers[0];
}
