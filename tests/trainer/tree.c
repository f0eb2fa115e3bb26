/*
 * tree — tests that the stack computes T(lo, hi) in the specified number of buffers, from leaves
 * and from subtrees.
 */
#include "trainer/parallel/reduction/tree.h"

#include "tests/support/test.h"
#include "tests/trainer/model_case.h"

#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 97, LEAVES_MAX = 33 };

static float leaf_value(uint64_t leaf, uint64_t element)
{
    /* magnitudes differ, so that the order of additions matters */
    return (float)(case_random(leaf, element) * (leaf % 3 ? 1.0 : 1000.0));
}

static void fill_leaf(void *target, uint64_t leaf)
{
    for (uint64_t i = 0; i < ELEMENTS; i++)
        ((float *)target)[i] = leaf_value(leaf, i);
}

/* A literal implementation of the definition. */
static float reference(uint64_t lo, uint64_t hi, uint64_t element)
{
    if (hi - lo == 1)
        return leaf_value(lo, element);
    uint64_t power = 1;
    while (power * 2 < hi - lo)
        power *= 2;
    return reference(lo, lo + power, element) + reference(lo + power, hi, element);
}

static void assert_is_tree(const void *sum, uint64_t leaves)
{
    float expected[ELEMENTS];
    for (uint64_t i = 0; i < ELEMENTS; i++)
        expected[i] = reference(0, leaves, i);
    assert_memory_equal(sum, expected, sizeof expected);
}

struct fixture {
    struct device *device;
    struct ops *ops;
};

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    open_test_ops(DTYPE_F32, 1, &fixture->device, &fixture->ops);
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    ops_close(fixture->ops);
    device_close(fixture->device);
    free(fixture);
    return 0;
}

static void pushing_leaves_matches_the_recursive_definition_in_few_buffers(void **state)
{
    struct fixture *fixture = *state;
    for (uint64_t leaves = 1; leaves <= LEAVES_MAX; leaves++) {
        struct tree tree;
        struct err err;
        assert_ok(tree_init(&tree, fixture->ops, ELEMENTS, 0, leaves, &err), &err);
        uint32_t log2 = 0;
        while ((UINT64_C(2) << log2) <= leaves)
            log2++;
        assert_int_equal(tree.buffers_count, log2 + 1);
        for (int round = 0; round < 2; round++) {
            tree_reset(&tree);
            for (uint64_t leaf = 0; leaf < leaves; leaf++) {
                fill_leaf(tree_leaf(&tree), leaf);
                tree_push(&tree);
            }
            assert_is_tree(tree_finish(&tree), leaves);
        }
        tree_deinit(&tree);
    }
    struct device_mem_info info;
    fixture->device->ops->mem_info(fixture->device, &info);
    assert_int_equal(info.used_bytes[MEM_DEVICE], 0);
}

static void aligned_subtrees_count_as_their_leaves(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    struct tree whole, part;
    assert_ok(tree_init(&whole, fixture->ops, ELEMENTS, 0, LEAVES_MAX, &err), &err);
    assert_ok(tree_init(&part, fixture->ops, ELEMENTS, 0, 8, &err), &err);
    static const uint64_t cuts[][8] = {
        {8}, {4, 4}, {2, 2, 4}, {4, 2, 1, 1}, {8, 4, 2, 1}, {8, 8, 8, 4, 4, 1}, {1, 1, 2, 4, 8}};
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
        uint64_t leaf = 0;
        tree_reset(&whole);
        for (size_t i = 0; i < 8 && cuts[c][i]; i++) {
            tree_reset(&part);
            for (uint64_t n = 0; n < cuts[c][i]; n++) {
                fill_leaf(tree_leaf(&part), leaf++);
                tree_push(&part);
            }
            memcpy(tree_leaf(&whole), tree_finish(&part), ELEMENTS * sizeof(float));
            tree_push_subtree(&whole, cuts[c][i]);
        }
        assert_is_tree(tree_finish(&whole), leaf);
    }
    tree_deinit(&part);
    tree_deinit(&whole);
}

/* Ranks with adjacent leaves send their stacks; pushing these in order yields the tree. */
static void subtrees_of_any_neighbors_form_the_tree(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    static float pieces[LEAVES_MAX][ELEMENTS];
    for (uint64_t leaves = 1; leaves <= LEAVES_MAX; leaves += 4)
        for (uint64_t ranks = 1; ranks <= leaves && ranks <= 7; ranks++) {
            struct tree whole;
            assert_ok(tree_init(&whole, fixture->ops, ELEMENTS, 0, leaves, &err), &err);
            for (uint64_t rank = 0; rank < ranks; rank++) {
                struct tree own;
                uint64_t first = rank * leaves / ranks, end = (rank + 1) * leaves / ranks;
                uint64_t sizes[TREE_LEVELS_MAX];
                assert_ok(tree_init(&own, fixture->ops, ELEMENTS, first, end - first, &err), &err);
                for (uint64_t leaf = first; leaf < end; leaf++) {
                    fill_leaf(tree_leaf(&own), leaf);
                    tree_push(&own);
                }
                assert_int_equal(tree_count_subtrees(first, end - first, sizes), own.depth);
                for (uint32_t i = 0; i < own.depth; i++) {
                    assert_int_equal(sizes[i], own.sizes[i]);
                    memcpy(pieces[i], own.buffers[i], sizeof pieces[i]);
                    assert_ok(tree_push_from(&whole, pieces[i], sizes[i], &err), &err);
                }
                tree_deinit(&own);
            }
            assert_is_tree(tree_finish(&whole), leaves);
            tree_deinit(&whole);
        }
}

static void a_slice_of_the_stack_sums_only_its_elements(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    struct tree whole;
    enum { LEAVES = 6, CUT = 40 };
    float sum[ELEMENTS];
    assert_ok(tree_init(&whole, fixture->ops, ELEMENTS, 0, LEAVES, &err), &err);
    for (int half = 0; half < 2; half++) {
        struct tree part =
            tree_part(&whole, half ? CUT : 0, half ? (uint64_t)ELEMENTS - CUT : (uint64_t)CUT);
        for (uint64_t leaf = 0; leaf < LEAVES; leaf++) {
            for (uint64_t i = 0; i < part.elements; i++)
                ((float *)tree_leaf(&part))[i] = leaf_value(leaf, i + (half ? CUT : 0));
            tree_push(&part);
        }
        memcpy(sum + (half ? CUT : 0), tree_finish(&part), part.elements * sizeof(float));
    }
    assert_is_tree(sum, LEAVES);
    tree_deinit(&whole);
}

static void a_running_sum_differs_from_the_tree(void **state)
{
    (void)state;
    uint64_t differing = 0;
    for (uint64_t i = 0; i < ELEMENTS; i++) {
        float sum = leaf_value(0, i);
        for (uint64_t leaf = 1; leaf < 8; leaf++)
            sum += leaf_value(leaf, i);
        differing += sum != reference(0, 8, i);
    }
    assert_true(differing > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushing_leaves_matches_the_recursive_definition_in_few_buffers),
        cmocka_unit_test(aligned_subtrees_count_as_their_leaves),
        cmocka_unit_test(subtrees_of_any_neighbors_form_the_tree),
        cmocka_unit_test(a_slice_of_the_stack_sums_only_its_elements),
        cmocka_unit_test(a_running_sum_differs_from_the_tree),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
