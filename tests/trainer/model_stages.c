/*
 * model_stages — tests pipeline stages, masked targets, padded items, F32 against F64, and the
 * numbers that a model reports.
 */
#include "tests/support/test.h"
#include "tests/trainer/model_case.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 3, CALLS_MAX = 64, GROUPS_MAX = 4 };

/* --- stages --- */

/* Calls of the hooks, in order. */
struct hook_call {
    uint64_t group;
    enum pass_direction direction;
    bool is_release; /* else acquire */
};

struct hook_calls {
    struct hook_call list[CALLS_MAX];
    uint64_t count;
};

static void record_call(struct hook_calls *calls, struct hook_call call)
{
    assert_true(calls->count < CALLS_MAX);
    calls->list[calls->count++] = call;
}

static void record_acquire(void *context, uint64_t group, enum pass_direction direction)
{
    record_call(context, (struct hook_call){group, direction, false});
}

static void record_release(void *context, uint64_t group, enum pass_direction direction)
{
    record_call(context, (struct hook_call){group, direction, true});
}

struct stage_memory {
    struct model_stage stage;
    struct model_activations activations;
    float *gradients;
    struct hook_calls calls;
};

static void open_stage(struct stage_memory *m, const struct model_case *c, struct model_stage stage)
{
    *m = (struct stage_memory){.stage = stage};
    uint64_t bytes = model_activation_bytes(c->model, &stage),
             elements = model_params(c->model)->elements;
    assert_true(bytes < c->activation_bytes);
    struct err err;
    m->activations.memory = malloc(bytes);
    assert_ok(model_open_offload(c->model, &stage, &m->activations.offload, &err), &err);
    m->gradients = malloc(elements * sizeof *m->gradients);
    assert_non_null(m->activations.memory);
    assert_non_null(m->gradients);
    memset(m->activations.memory, 0xff, bytes);
    memset(m->gradients, 0xff, elements * sizeof *m->gradients);
}

static struct model_memory memory_of(const struct model_case *c, struct stage_memory *m)
{
    return (struct model_memory){.weights = c->weights,
                                 .gradients = m->gradients,
                                 .acquire = record_acquire,
                                 .release = record_release,
                                 .context = &m->calls};
}

static void close_stage(struct stage_memory *m)
{
    offload_close(m->activations.offload);
    free(m->activations.memory);
    free(m->gradients);
}

/* Compares the parameters of the stage's groups. Nothing else may be written except a tied
 * parameter's part. */
static void assert_stage_gradients(const struct model_case *c, const struct stage_memory *m)
{
    const struct params *params = model_params(c->model);
    uint64_t first, count;
    model_stage_units(c->model, &m->stage, &first, &count);
    for (uint64_t p = 0; p < params->count; p++) {
        const struct param *param = &params->list[p];
        const float *got = m->gradients + param->offset;
        if (param->group >= first && param->group < first + count)
            assert_memory_equal(got, (float *)c->gradients + param->offset,
                                param->count * sizeof *got);
        else if ((int64_t)p != model_tied_param(c->model))
            assert_true(isnan(got[0]) && isnan(got[param->count - 1]));
    }
}

/* Groups are acquired before they are released; the backward pass releases them from last to first;
 * model_walk makes the same calls. */
static void assert_stage_calls(const struct model_case *c, const struct stage_memory *m)
{
    struct hook_calls walk = {0};
    const struct model_memory memory = {
        .acquire = record_acquire, .release = record_release, .context = &walk};
    uint64_t first, count, released_count = 0, acquired = 0;
    model_walk(c->model, &m->stage, &memory, MODEL_FORWARD);
    model_walk(c->model, &m->stage, &memory, MODEL_BACKWARD);
    assert_int_equal(walk.count, m->calls.count);
    model_stage_units(c->model, &m->stage, &first, &count);
    for (uint64_t i = 0; i < walk.count; i++) {
        const struct hook_call *call = &m->calls.list[i];
        assert_int_equal(walk.list[i].group, call->group);
        assert_int_equal(walk.list[i].direction, call->direction);
        assert_int_equal(walk.list[i].is_release, call->is_release);
        assert_int_equal(acquired >> call->group & 1, call->is_release);
        acquired ^= UINT64_C(1) << call->group;
        if (call->direction == MODEL_BACKWARD && call->is_release)
            assert_int_equal(call->group, first + count - 1 - released_count++);
    }
    assert_int_equal(released_count, count);
}

static void copy_tied_gradient(const struct model_case *c, const struct stage_memory *head,
                               struct stage_memory *embed)
{
    int64_t tied = model_tied_param(c->model);
    if (tied < 0)
        return;
    const struct param *param = &model_params(c->model)->list[tied];
    memcpy(embed->gradients + param->offset, head->gradients + param->offset,
           param->count * sizeof(float));
}

static void check_stages(const struct model_config *config, uint32_t split_block)
{
    struct model_case c;
    struct stage_memory a, b;
    case_open(&c, config, ITEMS, DTYPE_F32, 1);
    case_forward(&c, true);
    case_backward(&c, c.gradients);
    double *losses = malloc(c.rows * sizeof *losses);
    uint64_t hidden_bytes = model_hidden_elements(c.model) * sizeof(float);
    void *hidden = malloc(hidden_bytes), *d_hidden = malloc(hidden_bytes);
    memcpy(losses, c.losses, c.rows * sizeof *losses);
    memset(c.losses, 0xff, c.rows * sizeof *losses);

    open_stage(&a, &c, (struct model_stage){0, split_block, true, false});
    open_stage(&b, &c,
               (struct model_stage){split_block, config->layers - split_block, false, true});
    const struct model_input input = case_input(&c);
    const struct model_result result = {c.losses, c.correct};
    const struct model_memory first = memory_of(&c, &a), second = memory_of(&c, &b);
    model_forward(c.model, &a.stage, &first, &a.activations, &input, NULL, hidden, NULL);
    model_forward(c.model, &b.stage, &second, &b.activations, &input, hidden, NULL, NULL);
    memset(hidden, 0xff, hidden_bytes); /* may be reused once the next stage has run */
    model_backward(c.model, &b.stage, &second, &b.activations, &input, &result, NULL, d_hidden);
    assert_memory_equal(losses, c.losses, c.rows * sizeof *losses);
    copy_tied_gradient(&c, &b, &a);
    model_backward(c.model, &a.stage, &first, &a.activations, &input, NULL, d_hidden, NULL);
    assert_stage_gradients(&c, &a);
    assert_stage_gradients(&c, &b);
    assert_stage_calls(&c, &a);
    assert_stage_calls(&c, &b);
    close_stage(&a);
    close_stage(&b);
    free(losses);
    free(hidden);
    free(d_hidden);
    case_close(&c);
}

static void two_stages_are_bit_identical_to_one(void **state)
{
    (void)state;
    check_stages(&case_vit, 1);
    check_stages(&case_gpt2, 1);
    check_stages(&case_gpt2, 2); /* the second stage has only the head */
    check_stages(&case_llama, 1);
    check_stages(&case_llama, 2);
    check_stages(&case_llama3, 1);
    check_stages(&case_qwen3, 2);
    struct model_config offloaded = case_gpt2;
    offloaded.layers = 9;
    offloaded.recompute_every = 3;
    offloaded.offload_every = 1;
    check_stages(&offloaded, 4); /* three blocks of the first stage, three of the second */
}

static void results_do_not_depend_on_repetition_or_thread_count(void **state)
{
    (void)state;
    const struct model_config *configs[] = {&case_vit, &case_gpt2, &case_llama, &case_llama3,
                                            &case_qwen3};
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct model_case a, b;
        case_open(&a, configs[i], ITEMS, DTYPE_F32, 1);
        case_open(&b, configs[i], ITEMS, DTYPE_F32, 3);
        uint64_t bytes = model_params(a.model)->elements * sizeof(float);
        case_forward(&a, true);
        case_backward(&a, a.gradients);
        for (int run = 0; run < 2; run++) {
            case_forward(&b, true);
            case_backward(&b, b.gradients);
            assert_memory_equal(a.gradients, b.gradients, bytes);
            assert_memory_equal(a.losses, b.losses, a.rows * sizeof *a.losses);
            assert_memory_equal(a.correct, b.correct, a.rows);
        }
        case_close(&a);
        case_close(&b);
    }
}

/* Copies of all groups, each allocated separately. */
struct group_copies {
    void *memory[GROUPS_MAX];
};

static void copy_groups(struct group_copies *s, const struct model_case *c, const void *arena)
{
    const struct params *params = model_params(c->model);
    for (uint64_t g = 0; g < params->groups_count; g++) {
        size_t bytes = params->groups[g].elements * sizeof(float);
        s->memory[g] = malloc(bytes);
        assert_non_null(s->memory[g]);
        memcpy(s->memory[g], (const float *)arena + params->groups[g].offset, bytes);
    }
}

static void free_group_copies(struct group_copies *s)
{
    for (int g = 0; g < GROUPS_MAX; g++)
        free(s->memory[g]);
}

static void joined_units_are_acquired_and_released_together(void **state)
{
    static const struct hook_call expected[] = {
        {0, MODEL_FORWARD, false},  {0, MODEL_FORWARD, true},  {1, MODEL_FORWARD, false},
        {0, MODEL_FORWARD, false}, /* the head's table */
        {0, MODEL_FORWARD, true},   {1, MODEL_FORWARD, true},  {1, MODEL_BACKWARD, false},
        {0, MODEL_BACKWARD, false}, {1, MODEL_BACKWARD, true}, {0, MODEL_BACKWARD, true}};
    struct model_config config = case_gpt2;
    struct model_case c;
    struct hook_calls calls = {0};
    struct group_copies weights = {0}, gradients = {0};
    (void)state;
    config.group_params_min = 1800; /* joins the embedding and a block, and a block and the head */
    case_open(&c, &config, ITEMS, DTYPE_F32, 1);
    const struct params *params = model_params(c.model);
    assert_int_equal(params->groups_count, 2);
    case_forward(&c, true);
    case_backward(&c, c.gradients);
    copy_groups(&weights, &c, c.weights);
    copy_groups(&gradients, &c, c.gradients);
    for (uint64_t g = 0; g < params->groups_count; g++)
        memset(gradients.memory[g], 0xff, params->groups[g].elements * sizeof(float));
    const struct model_memory memory = {.group_weights = (const void *const *)weights.memory,
                                        .group_gradients = gradients.memory,
                                        .acquire = record_acquire,
                                        .release = record_release,
                                        .context = &calls};
    const struct model_input input = case_input(&c);
    const struct model_result result = {c.losses, c.correct};
    model_forward(c.model, &c.whole, &memory, &c.activations, &input, NULL, NULL, NULL);
    model_backward(c.model, &c.whole, &memory, &c.activations, &input, &result, NULL, NULL);
    for (uint64_t p = 0; p < params->count; p++) {
        const struct param *param = &params->list[p];
        const float *got = gradients.memory[param->group];
        assert_memory_equal(got + param->offset - params->groups[param->group].offset,
                            (float *)c.gradients + param->offset, param->count * sizeof *got);
    }
    assert_int_equal(calls.count, sizeof expected / sizeof expected[0]);
    for (uint64_t i = 0; i < calls.count; i++) {
        assert_int_equal(calls.list[i].group, expected[i].group);
        assert_int_equal(calls.list[i].direction, expected[i].direction);
        assert_int_equal(calls.list[i].is_release, expected[i].is_release);
    }
    free_group_copies(&weights);
    free_group_copies(&gradients);
    case_close(&c);
}

/* --- masks --- */

static void fully_masked_targets_give_zero_gradients(void **state)
{
    (void)state;
    const struct model_config *configs[] = {&case_vit, &case_gpt2, &case_llama, &case_llama3,
                                            &case_qwen3};
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct model_case c;
        case_open(&c, configs[i], ITEMS, DTYPE_F32, 1);
        memset(c.labels, 0xff, ITEMS * sizeof *c.labels);
        memset(c.targets, 0xff, ITEMS * c.config.language.block * sizeof *c.targets);
        case_forward(&c, true);
        case_backward(&c, c.gradients);
        for (uint64_t e = 0; e < model_params(c.model)->elements; e++)
            assert_true(((float *)c.gradients)[e] == 0);
        for (uint64_t r = 0; r < c.rows; r++)
            assert_true(c.losses[r] == 0 && c.correct[r] == 0);
        case_close(&c);
    }
}

static void the_content_of_padded_items_does_not_affect_results(void **state)
{
    (void)state;
    struct model_case c;
    case_open(&c, &case_vit, ITEMS, DTYPE_F32, 1);
    uint64_t elements = model_params(c.model)->elements,
             picture = 3 * case_vit.vision.side * case_vit.vision.side;
    float *first = malloc(elements * sizeof *first);
    c.labels[1] = -1;
    case_forward(&c, true);
    case_backward(&c, first);
    memset(c.images + picture, 0, picture);
    case_forward(&c, true);
    case_backward(&c, c.gradients);
    assert_memory_equal(first, c.gradients, elements * sizeof *first);
    assert_true(c.losses[1] == 0 && c.losses[0] > 0);
    free(first);
    case_close(&c);
}

static void check_padding(const struct model_config *config)
{
    struct model_case few, many;
    case_open(&few, config, ITEMS - 1, DTYPE_F64, 1);
    case_open(&many, config, ITEMS, DTYPE_F64, 1);
    /* the same data for the items that both cases have, followed by an absent item */
    many.labels[ITEMS - 1] = -1;
    memset(many.targets + (ITEMS - 1) * config->language.block, 0xff,
           config->language.block * sizeof *many.targets);
    assert_memory_equal(few.images, many.images,
                        (ITEMS - 1) * config->vision.side * config->vision.side * 3);
    case_forward(&few, true);
    case_backward(&few, few.gradients);
    case_forward(&many, true);
    case_backward(&many, many.gradients);
    const double *a = few.gradients, *b = many.gradients;
    for (uint64_t i = 0; i < model_params(few.model)->elements; i++)
        assert_true(fabs(a[i] - b[i]) <= 1e-11 * (1 + fabs(a[i])));
    assert_memory_equal(few.losses, many.losses, few.rows * sizeof *few.losses);
    case_close(&few);
    case_close(&many);
}

static void padded_items_count_as_absent(void **state)
{
    (void)state;
    check_padding(&case_vit);
    check_padding(&case_gpt2);
    check_padding(&case_llama);
}

static void masked_targets_do_not_affect_the_others(void **state)
{
    (void)state;
    struct model_case c;
    case_open(&c, &case_gpt2, ITEMS, DTYPE_F64, 1);
    double *losses = malloc(c.rows * sizeof *losses);
    uint32_t block = case_gpt2.language.block;
    case_forward(&c, true);
    memcpy(losses, c.losses, c.rows * sizeof *losses);
    int32_t *targets = c.targets;
    c.targets = NULL; /* the default targets equal the given ones */
    case_forward(&c, true);
    assert_memory_equal(losses, c.losses, c.rows * sizeof *losses);
    c.targets = targets;
    c.targets[block - 1] = -1;
    case_forward(&c, true);
    assert_true(c.losses[block - 1] == 0);
    losses[block - 1] = 0;
    assert_memory_equal(losses, c.losses, c.rows * sizeof *losses);
    free(losses);
    case_close(&c);
}

/* --- precision --- */

static void f32_equals_f64_up_to_rounding(void **state)
{
    (void)state;
    const struct model_config *configs[] = {&case_vit, &case_gpt2, &case_llama, &case_llama3,
                                            &case_qwen3};
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct model_case single, twice;
        case_open(&single, configs[i], ITEMS, DTYPE_F32, 1);
        case_open(&twice, configs[i], ITEMS, DTYPE_F64, 1);
        const struct params *params = model_params(twice.model);
        for (uint64_t e = 0; e < params->elements; e++)
            ((double *)twice.weights)[e] = ((float *)single.weights)[e];
        case_forward(&single, true);
        case_backward(&single, single.gradients);
        case_forward(&twice, true);
        case_backward(&twice, twice.gradients);
        for (uint64_t r = 0; r < single.rows; r++)
            assert_true(fabs(single.losses[r] - twice.losses[r]) < 1e-5 * (1 + twice.losses[r]));
        double error = 0, norm = 0;
        for (uint64_t e = 0; e < params->elements; e++) {
            double a = ((float *)single.gradients)[e], b = ((double *)twice.gradients)[e];
            error += (a - b) * (a - b);
            norm += b * b;
        }
        assert_true(sqrt(error / norm) < 2e-6);
        assert_true(error > 0);
        case_close(&single);
        case_close(&twice);
    }
}

/* --- reported numbers --- */

static void gpt2_124m_has_the_published_sizes(void **state)
{
    (void)state;
    struct device *device;
    struct ops *ops;
    struct model *model;
    struct err err;
    open_test_ops(DTYPE_F32, 1, &device, &ops);
    const struct model_config config = {.type = MODEL_GPT2,
                                        .layers = 12,
                                        .heads = 12,
                                        .width = 768,
                                        .mlp_ratio = 4,
                                        .language.block = 1024,
                                        .language.vocabulary = 50257};
    assert_ok(model_open(&config, ops, 1, &model, &err), &err);
    const struct params *params = model_params(model);
    uint64_t count = 0, decayed = 0;
    for (uint64_t p = 0; p < params->count; p++) {
        count += params->list[p].count;
        decayed += params->list[p].decay ? params->list[p].count : 0;
        assert_int_equal(params->list[p].decay, params->list[p].rank == 2);
    }
    assert_int_equal(count, 124439808);
    /* nanoGPT prints 124,354,560 with its padded vocabulary of 50304 */
    assert_int_equal(decayed, 124318464);
    assert_int_equal(params->groups_count, 14);
    assert_string_equal(params->groups[0].name, "embed");
    assert_string_equal(params->groups[3].name, "blocks.2");
    assert_string_equal(params->groups[13].name, "head");
    /* 6 flops per token and matrix parameter, plus causal attention */
    double matrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768, attention = 12.0 * 12 * 768 * 1025 / 2;
    assert_true(fabs(model_flops(model) / 1024 / (6 * matrices + attention) - 1) < 1e-12);
    assert_int_equal(model_rows(model), 1024);
    model_close(model);
    struct device_mem_info info;
    device->ops->mem_info(device, &info);
    assert_int_equal(info.used_bytes[MEM_DEVICE], 0);
    ops_close(ops);
    device_close(device);
}

static void a_contradictory_configuration_is_refused(void **state)
{
    (void)state;
    struct device *device;
    struct ops *ops;
    struct model *model;
    struct err err;
    open_test_ops(DTYPE_F32, 1, &device, &ops);
    struct model_config bad[9];
    for (size_t i = 0; i < 9; i++)
        bad[i] = i < 5 ? case_vit : case_gpt2;
    bad[0].heads = 5;
    bad[1].vision.patch = 5;
    bad[2].vision.classes = 0;
    bad[3].layers = 0;
    bad[4].vision.side = 0;
    bad[5].language.block = 0;
    bad[6].language.vocabulary = 0;
    bad[7].width = 1 << 30;
    bad[8].mlp_ratio = 0;
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(model_open(&bad[i], ops, ITEMS, &model, &err), -EINVAL);
        assert_true(err.what[0] && err.expected[0] && err.found[0]);
        assert_int_equal(model_open(&bad[i], ops, ITEMS, &model, NULL), -EINVAL);
    }
    assert_int_equal(model_open(&case_vit, ops, 0, &model, &err), -EINVAL);
    assert_int_equal(model_open(&case_vit, ops, UINT64_C(1) << 60, &model, &err), -EINVAL);
    ops_close(ops);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joined_units_are_acquired_and_released_together),
        cmocka_unit_test(two_stages_are_bit_identical_to_one),
        cmocka_unit_test(results_do_not_depend_on_repetition_or_thread_count),
        cmocka_unit_test(fully_masked_targets_give_zero_gradients),
        cmocka_unit_test(the_content_of_padded_items_does_not_affect_results),
        cmocka_unit_test(padded_items_count_as_absent),
        cmocka_unit_test(masked_targets_do_not_affect_the_others),
        cmocka_unit_test(f32_equals_f64_up_to_rounding),
        cmocka_unit_test(gpt2_124m_has_the_published_sizes),
        cmocka_unit_test(a_contradictory_configuration_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
