/*
 * model_owners — tests that gradients are bit-identical however owners share the micro-batches.
 * Owners have separate devices, ops with thread pools of different sizes, models, activations and
 * buffers. Results are merged in micro-batch order, as raw leaves or as each owner's aligned
 * subtree. A running sum must differ; otherwise the test proves nothing.
 */
#include "tests/support/test.h"
#include "tests/trainer/model_case.h"
#include "trainer/parallel/reduction/tree.h"

#include <stdlib.h>
#include <string.h>

enum { MICROS_MAX = 12, ITEMS = 3 };

enum merge { MERGE_LEAVES, MERGE_SUBTREES };

static const struct model_config proof_vit = {.type = MODEL_VIT,
                                              .layers = 2,
                                              .heads = 4,
                                              .width = 32,
                                              .mlp_ratio = 4,
                                              .vision.patch = 8,
                                              .vision.side = 32,
                                              .vision.classes = 10};
static const struct model_config proof_gpt2 = {.type = MODEL_GPT2,
                                               .layers = 2,
                                               .heads = 4,
                                               .width = 32,
                                               .mlp_ratio = 4,
                                               .language.block = 33,
                                               .language.vocabulary = 65};

struct owner {
    struct model_case c;
    struct tree tree;
};

static uint64_t gradient_bytes(const struct model_case *c)
{
    return model_params(c->model)->elements * ops_master_bytes(c->ops);
}

static void owner_compute(struct owner *owner, uint64_t micro, void *target)
{
    case_randomize_inputs(&owner->c, micro);
    case_forward(&owner->c, true);
    case_backward(&owner->c, target);
}

/* Pushes the results of the owner of micro-batches [first, end) into `merged`. */
static void owner_push(struct owner *owner, uint64_t first, uint64_t end, enum merge merge,
                       struct tree *merged)
{
    uint64_t bytes = gradient_bytes(&owner->c);
    tree_reset(&owner->tree);
    for (uint64_t micro = first; micro < end; micro++) {
        owner_compute(owner, micro, tree_leaf(&owner->tree));
        if (merge == MERGE_SUBTREES) {
            tree_push(&owner->tree);
        } else {
            memcpy(tree_leaf(merged), tree_leaf(&owner->tree), bytes);
            tree_push(merged);
        }
    }
    if (merge == MERGE_SUBTREES) {
        memcpy(tree_leaf(merged), tree_finish(&owner->tree), bytes);
        tree_push_subtree(merged, end - first);
    }
}

static void open_owner(struct owner *owner, const struct model_config *config, unsigned threads)
{
    struct err err;
    case_open(&owner->c, config, ITEMS, DTYPE_F32, threads);
    assert_ok(tree_init(&owner->tree, owner->c.ops, model_params(owner->c.model)->elements, 0,
                        MICROS_MAX, &err),
              &err);
}

static void close_owner(struct owner *owner)
{
    tree_deinit(&owner->tree);
    case_close(&owner->c);
}

/* The gradients of `micros` micro-batches, computed by that many owners; malloc'ed. */
static void *sum_by_owners(const struct model_config *config, uint64_t micros, uint64_t owners,
                           enum merge merge)
{
    struct owner *all = calloc(owners, sizeof *all);
    assert_non_null(all);
    for (uint64_t r = 0; r < owners; r++)
        open_owner(&all[r], config, 1 + (unsigned)r % 3);
    struct tree merged;
    struct err err;
    assert_ok(
        tree_init(&merged, all[0].c.ops, model_params(all[0].c.model)->elements, 0, micros, &err),
        &err);
    for (uint64_t r = 0; r < owners; r++)
        owner_push(&all[r], r * micros / owners, (r + 1) * micros / owners, merge, &merged);
    uint64_t bytes = gradient_bytes(&all[0].c);
    void *sum = malloc(bytes);
    assert_non_null(sum);
    memcpy(sum, tree_finish(&merged), bytes);
    tree_deinit(&merged);
    for (uint64_t r = 0; r < owners; r++)
        close_owner(&all[r]);
    free(all);
    return sum;
}

/* The usual method: adds each micro-batch to a running sum. */
static void *running_sum(const struct model_config *config, uint64_t micros)
{
    struct owner owner;
    open_owner(&owner, config, 1);
    uint64_t elements = model_params(owner.c.model)->elements, bytes = gradient_bytes(&owner.c);
    void *sum = malloc(bytes);
    assert_non_null(sum);
    owner_compute(&owner, 0, sum);
    for (uint64_t micro = 1; micro < micros; micro++) {
        owner_compute(&owner, micro, owner.c.gradients);
        owner.c.ops->table->tree_add(owner.c.ops, sum, owner.c.gradients, elements);
    }
    close_owner(&owner);
    return sum;
}

static uint64_t gradient_elements(const struct model_config *config)
{
    struct owner owner;
    open_owner(&owner, config, 1);
    uint64_t elements = model_params(owner.c.model)->elements;
    close_owner(&owner);
    return elements;
}

static void check_owners(const struct model_config *config)
{
    static const struct {
        uint64_t micros, owners;
        enum merge merge;
    } cases[] = {{8, 8, MERGE_LEAVES},   {8, 2, MERGE_SUBTREES},  {8, 4, MERGE_SUBTREES},
                 {8, 8, MERGE_SUBTREES}, {8, 3, MERGE_LEAVES},    {12, 3, MERGE_LEAVES},
                 {12, 6, MERGE_LEAVES},  {12, 3, MERGE_SUBTREES}, {12, 6, MERGE_SUBTREES}};
    uint64_t elements = gradient_elements(config);
    float *one8 = sum_by_owners(config, 8, 1, MERGE_LEAVES),
          *one12 = sum_by_owners(config, 12, 1, MERGE_LEAVES);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        void *sum = sum_by_owners(config, cases[i].micros, cases[i].owners, cases[i].merge);
        assert_memory_equal(sum, cases[i].micros == 8 ? one8 : one12, elements * sizeof(float));
        free(sum);
    }
    float *naive = running_sum(config, 8);
    uint64_t differing = 0;
    for (uint64_t i = 0; i < elements; i++)
        differing += naive[i] != one8[i];
    print_message("          a running sum differs in %.1f %% of the elements\n",
                  100.0 * (double)differing / (double)elements);
    assert_true(differing > elements / 100);
    free(naive);
    free(one8);
    free(one12);
}

static void vit_gradient_bits_do_not_depend_on_owners(void **state)
{
    (void)state;
    check_owners(&proof_vit);
}

static void gpt2_gradient_bits_do_not_depend_on_owners(void **state)
{
    (void)state;
    check_owners(&proof_gpt2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vit_gradient_bits_do_not_depend_on_owners),
        cmocka_unit_test(gpt2_gradient_bits_do_not_depend_on_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
