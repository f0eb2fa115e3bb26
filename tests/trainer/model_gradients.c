/*
 * model_gradients — tests the backward passes against the slope of the loss, by central differences
 * in F64.
 *
 * Five points, error O(h^4): (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h.
 */
#include "tests/support/test.h"
#include "tests/trainer/block_case.h"
#include "tests/trainer/model_case.h"

#include <math.h>
#include <stdlib.h>

static const double STEP = 2e-3, TOLERANCE = 1e-6;
/* elements tested per tensor; tensors smaller than ALL_BELOW are tested in full */
enum { SAMPLES = 6, ALL_BELOW = 16 };

struct slope_check {
    double (*loss)(void *context);
    void *context;
    /* Replaces smaller slopes as the scale, because their differences are mostly rounding. */
    double scale_min;
};

static double slope_by_differences(const struct slope_check *slope, double *variable)
{
    double value = *variable, f[4];
    static const double at[4] = {1, -1, 2, -2};
    for (int i = 0; i < 4; i++) {
        *variable = value + at[i] * STEP;
        f[i] = slope->loss(slope->context);
    }
    *variable = value;
    return (8 * (f[0] - f[1]) - (f[2] - f[3])) / (12 * STEP);
}

static void check_tensor(struct slope_check *slope, const char *name, double *values,
                         const double *gradients, uint64_t count)
{
    uint64_t tried = count < ALL_BELOW ? count : SAMPLES;
    for (uint64_t n = 0; n < tried; n++) {
        /* includes the first and the last */
        uint64_t i = count < ALL_BELOW ? n : (n * (count - 1)) / (SAMPLES - 1);
        double expected = slope_by_differences(slope, &values[i]);
        double scale = fmax(fmax(fabs(expected), fabs(gradients[i])), slope->scale_min);
        double error = fabs(expected - gradients[i]) / scale;
        if (!(error < TOLERANCE))
            fail_msg("%s[%zu]: the slope is %.12g, the backward pass says %.12g", name, (size_t)i,
                     expected, gradients[i]);
    }
}

static double root_mean_square(const double *values, uint64_t count)
{
    double sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += values[i] * values[i];
    return sqrt(sum / (double)count);
}

static double block_loss(void *context)
{
    return block_case_loss(context);
}

static void check_block(struct ops *ops, unsigned variant, bool bias)
{
    struct block_case c;
    const struct block_config config = block_variant(variant, bias);
    block_case_open(&c, ops, &config);
    block_case_loss(&c);
    block_case_backward(&c);
    const struct param_group *group = &c.params.groups[1];
    struct slope_check slope = {block_loss, &c, 1e-3 * root_mean_square(c.d, c.stream)};
    for (uint64_t p = group->first; p < group->first + group->count; p++) {
        const struct param *param = &c.params.list[p];
        check_tensor(&slope, param->name, c.weights + param->offset, c.gradients + param->offset,
                     param->count);
    }
    double *d = malloc(c.stream * sizeof *d);
    assert_non_null(d);
    for (uint64_t i = 0; i < c.stream; i++)
        d[i] = c.d[i];
    check_tensor(&slope, "x", c.x, d, c.stream);
    free(d);
    block_case_close(&c);
}

static void block_variant_gradients_match_central_differences(void **state)
{
    (void)state;
    struct device *device;
    struct ops *ops;
    open_test_ops(DTYPE_F64, 1, &device, &ops);
    for (unsigned variant = 0; variant < BLOCK_VARIANTS; variant++) {
        check_block(ops, variant, true);
        check_block(ops, variant, false);
    }
    ops_close(ops);
    device_close(device);
}

static double model_loss(void *context)
{
    return case_loss(context);
}

static void check_model(const struct model_config *config)
{
    struct model_case c;
    case_open(&c, config, 3, DTYPE_F64, 1);
    case_forward(&c, true);
    case_backward(&c, c.gradients);
    const struct params *params = model_params(c.model);
    double *weights = c.weights, *gradients = c.gradients;
    struct slope_check slope = {model_loss, &c,
                                1e-3 * root_mean_square(gradients, params->elements)};
    for (uint64_t p = 0; p < params->count; p++) {
        const struct param *param = &params->list[p];
        check_tensor(&slope, param->name, weights + param->offset, gradients + param->offset,
                     param->count);
    }
    case_close(&c);
}

static void vit_gradients_match_central_differences(void **state)
{
    (void)state;
    check_model(&case_vit);
}

static void gpt2_gradients_match_central_differences(void **state)
{
    (void)state;
    check_model(&case_gpt2);
}

static void llama_gradients_match_central_differences(void **state)
{
    (void)state;
    check_model(&case_llama);
}

static void qwen_gradients_match_central_differences(void **state)
{
    (void)state;
    check_model(&case_qwen2);
    check_model(&case_qwen3);
}

enum { MICROS = 3, ITEMS = 3 };

/* The summed gradients of several micro-batches, added here or accumulated by the passes;
 * malloc'ed. */
static double *sum_of_passes(const struct model_config *config)
{
    struct model_case c;
    case_open(&c, config, ITEMS, DTYPE_F64, 1);
    uint64_t elements = model_params(c.model)->trained_elements;
    double *sums = calloc(elements, sizeof *sums), *gradients = c.gradients;
    assert_non_null(sums);
    for (uint64_t micro = 0; micro < MICROS; micro++) {
        case_randomize_inputs(&c, micro);
        case_forward(&c, true);
        if (config->adds_gradients)
            case_backward_adding(&c, sums);
        else
            case_backward(&c, gradients);
        for (uint64_t i = 0; i < elements && !config->adds_gradients; i++)
            sums[i] += gradients[i];
    }
    case_close(&c);
    return sums;
}

static void check_accumulation(struct model_config config)
{
    struct model_case c;
    config.adds_gradients = false;
    double *written = sum_of_passes(&config);
    config.adds_gradients = true;
    double *added = sum_of_passes(&config);
    case_open(&c, &config, ITEMS, DTYPE_F64, 1);
    for (uint64_t p = 0; p < model_params(c.model)->count; p++) {
        const struct param *param = &model_params(c.model)->list[p];
        const double *expected = written + param->trained_offset,
                     *found = added + param->trained_offset;
        double size = root_mean_square(written, model_params(c.model)->trained_elements);
        for (uint64_t i = 0; i < param->count && !param->frozen; i++)
            if (!(fabs(found[i] - expected[i]) <= 1e-11 * size))
                fail_msg("%s[%zu]: passes that add give %.12g, those that write %.12g", param->name,
                         (size_t)i, found[i], expected[i]);
    }
    case_close(&c);
    free(written);
    free(added);
}

static void accumulated_gradients_equal_the_sum_of_separate_passes(void **state)
{
    static const struct model_config *const configs[] = {&case_vit, &case_gpt2, &case_llama,
                                                         &case_llama3, &case_qwen3};
    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct model_config config = *configs[i];
        check_accumulation(config);
        config.recompute_every = 1;
        config.freeze = "blocks.0.attn.*";
        check_accumulation(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_variant_gradients_match_central_differences),
        cmocka_unit_test(vit_gradients_match_central_differences),
        cmocka_unit_test(gpt2_gradients_match_central_differences),
        cmocka_unit_test(llama_gradients_match_central_differences),
        cmocka_unit_test(qwen_gradients_match_central_differences),
        cmocka_unit_test(accumulated_gradients_equal_the_sum_of_separate_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
