/*
 * freeze (test) — tests which parameters a pattern freezes, and that passes compute only the other
 * gradients, bit-identically.
 */
#include "trainer/models/freeze.h"
#include "tests/support/test.h"
#include "tests/trainer/model_case.h"
#include "trainer/plan/dry_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 3 };

static int freeze_and_list(const struct model_config *config, const char *patterns, char *trained,
                           size_t bytes, struct err *err)
{
    struct model_case c;
    case_open(&c, config, ITEMS, DTYPE_F32, 1);
    struct params params = *model_params(c.model); /* its tensors still belong to the model */
    int status = freeze_params(&params, patterns, err);
    trained[0] = '\0';
    for (uint64_t i = 0; i < params.count && !status; i++)
        if (!params.list[i].frozen)
            snprintf(trained + strlen(trained), bytes - strlen(trained), "%s ",
                     params.list[i].name);
    case_close(&c);
    return status;
}

static void the_last_matching_freeze_pattern_applies(void **state)
{
    (void)state;
    static const struct {
        const char *patterns, *trained;
    } cases[] = {
        {"*,!head.*", "head.weight head.bias "},
        {" blocks.* , embed.*", "norm.weight norm.bias head.weight head.bias "},
        {"*, !norm.*, norm.bias", "norm.weight "},
        {"*, !blocks.1.mlp.proj.*, *.bias", "blocks.1.mlp.proj.weight "},
        {"*, !blocks.?.attn.[qkv].bias",
         "blocks.0.attn.q.bias blocks.0.attn.k.bias blocks.0.attn.v.bias "
         "blocks.1.attn.q.bias blocks.1.attn.k.bias blocks.1.attn.v.bias "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char trained[4096];
        struct err err;
        assert_ok(freeze_and_list(&case_vit, cases[i].patterns, trained, sizeof trained, &err),
                  &err);
        assert_string_equal(trained, cases[i].trained);
    }
}

static void useless_freeze_patterns_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *patterns, *message;
    } cases[] = {
        {"embed.*, block.0.*", "\"block.0.*\""},
        {"embed.*,", "\"\""},
        {"!", "\"!\""},
        {"*", "nothing to train"},
        {"*.q.weight", "blocks.0.attn.q.weight and blocks.0.attn.k.weight"},
        {"*, !blocks.1.attn.v.bias", "blocks.1.attn.k.bias and blocks.1.attn.v.bias"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char trained[4096];
        struct err err = {0};
        assert_int_equal(
            freeze_and_list(&case_vit, cases[i].patterns, trained, sizeof trained, &err), -EINVAL);
        if (!strstr(err.what, cases[i].message))
            fail_msg("%s: %s", cases[i].patterns, err.what);
    }
}

static void run_pass(struct model_case *c, const struct model_config *config)
{
    case_open(c, config, ITEMS, DTYPE_F32, 1);
    case_forward(c, true);
    case_backward(c, c->gradients);
}

/* Asserts that the spans of all groups cover the trained parameters, and that the gradient arena
 * has no gaps. */
static void assert_spans_cover(const struct params *params)
{
    uint64_t end = 0;
    for (uint64_t g = 0; g < params->groups_count; g++) {
        struct params_span span;
        uint64_t next = 0;
        assert_int_equal(params->groups[g].trained_offset, end);
        while (params_next_span(params, g, &next, &span)) {
            assert_int_equal(span.trained_offset, end);
            assert_int_equal(span.offset % PARAMS_ALIGN, 0);
            end += span.elements;
            for (uint64_t i = 0; i < params->count; i++) {
                const struct param *param = &params->list[i];
                bool inside =
                    param->offset >= span.offset && param->offset < span.offset + span.elements;
                assert_false(inside && param->frozen);
                if (inside)
                    assert_int_equal(param->trained_offset - span.trained_offset,
                                     param->offset - span.offset);
            }
        }
        assert_int_equal(params->groups[g].trained_elements,
                         end - params->groups[g].trained_offset);
    }
    assert_int_equal(params->trained_elements, end);
}

/* Uses the model's memory settings: blocks are kept, recomputed or offloaded. */
static void assert_trained_gradients_are_the_same(const struct model_config *plain,
                                                  const char *patterns)
{
    struct model_case all, some;
    struct model_config config = *plain;
    config.freeze = patterns;
    run_pass(&all, plain);
    run_pass(&some, &config);
    const struct params *before = model_params(all.model), *after = model_params(some.model);
    assert_int_equal(before->elements, after->elements);
    assert_true(after->trained_elements < before->trained_elements);
    assert_spans_cover(before);
    assert_spans_cover(after);
    for (uint64_t i = 0; i < after->count; i++) {
        const struct param *param = &after->list[i];
        const float *expected = (const float *)all.gradients + before->list[i].trained_offset;
        if (!param->frozen && memcmp((const float *)some.gradients + param->trained_offset,
                                     expected, param->count * sizeof(float)) != 0)
            fail_msg("%s, %s: the gradient of %s differs", model_type_name(plain->type), patterns,
                     param->name);
    }
    assert_memory_equal(all.losses, some.losses, all.rows * sizeof *all.losses);
    assert_true(some.activation_bytes <= all.activation_bytes);
    assert_true(model_flops(some.model) <= model_flops(all.model));
    case_close(&all);
    case_close(&some);
}

static void freezing_does_not_change_other_gradients(void **state)
{
    (void)state;
    static const char *const common[] = {"embed.*",
                                         "blocks.*",
                                         "*, !norm.*",
                                         "norm.*",
                                         "blocks.*.norm?.weight",
                                         "*, !blocks.1.norm1.bias, !blocks.1.norm1.weight",
                                         "embed.*, blocks.0.*, blocks.2.*",
                                         "*.mlp.*, *.attn.[qkv].*",
                                         "*.weight, !blocks.0.attn.proj.weight"};
    struct model_config configs[] = {case_vit, case_gpt2, case_llama, case_gpt2, case_vit};
    for (size_t m = 0; m < 5; m++)
        configs[m].layers = 4;
    configs[2].recompute_every = configs[3].recompute_every = 2;
    configs[3].offload_every = configs[4].offload_every = 1;
    for (size_t m = 0; m < 5; m++)
        for (size_t p = 0; p < sizeof common / sizeof common[0]; p++)
            if (configs[m].type != MODEL_LLAMA || !strstr(common[p], ".bias"))
                assert_trained_gradients_are_the_same(&configs[m], common[p]);
}

/* Blocks before the first trained parameter have no backward pass and store nothing for it. */
static void frozen_first_blocks_take_less_memory(void **state)
{
    (void)state;
    static const char *const patterns[] = {"embed.*, blocks.0.*", "embed.*, blocks.[012].*",
                                           "*, !norm.*"};
    struct model_config config = case_gpt2;
    struct model_case plain, less;
    config.layers = 5;
    case_open(&plain, &config, ITEMS, DTYPE_F32, 1);
    uint64_t bytes = plain.activation_bytes;
    double flops = model_flops(plain.model);
    for (size_t i = 0; i < 3; i++) {
        config.freeze = patterns[i];
        case_open(&less, &config, ITEMS, DTYPE_F32, 1);
        assert_true(less.activation_bytes < bytes);
        assert_true(model_flops(less.model) < flops);
        bytes = less.activation_bytes;
        flops = model_flops(less.model);
        case_close(&less);
    }
    case_close(&plain);
}

/* A run allocates no gradients or moments for frozen parameters. */
static void only_trained_parameters_get_gradient_memory(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "data.train=x",  "run.steps=1",     "model.type=gpt2",     "model.layers=2",
        "model.heads=3", "model.width=12",  "model.vocabulary=11", "data.text.block=7",
        "batch.micro=3", "batch.global=12", "device=cpu",          "model.freeze=*, !blocks.1.*"};
    static const struct loader_shape shape = {.samples = 100, .steps = 8, .vocabulary = 11};
    struct model_config config = case_gpt2;
    struct train_config run;
    struct trainer_dry_run dry_run;
    struct model_case c;
    struct err err;
    config.freeze = "*, !blocks.1.*";
    case_open(&c, &config, ITEMS, DTYPE_F32, 1);
    const struct params *params = model_params(c.model);
    assert_ok(config_parse("", 0, "none", sets, sizeof sets / sizeof sets[0], &run, &err), &err);
    const struct trainer_dry_run_options options = {
        .config = &run, .backend = ops_null_cpu(), .ranks = 1, .local_ranks = 1, .shape = &shape};
    assert_ok(trainer_dry_run(&options, &dry_run, &err), &err);
    uint64_t trained = params->groups[2].elements * sizeof(float);
    assert_int_equal(usage_bytes(&dry_run.usage, MEM_FOR_PARAMETERS),
                     params->elements * sizeof(float));
    assert_int_equal(usage_bytes(&dry_run.usage, MEM_FOR_GRADIENTS), 3 * trained);
    assert_int_equal(usage_bytes(&dry_run.usage, MEM_FOR_OPTIMIZER), 2 * trained);
    case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_matching_freeze_pattern_applies),
        cmocka_unit_test(useless_freeze_patterns_are_refused),
        cmocka_unit_test(freezing_does_not_change_other_gradients),
        cmocka_unit_test(frozen_first_blocks_take_less_memory),
        cmocka_unit_test(only_trained_parameters_get_gradient_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
