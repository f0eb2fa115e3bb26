/*
 * model_case — see model_case.h.
 */
#include "tests/trainer/model_case.h"

#include "base/philox.h"
#include "tests/support/test.h"
#include "trainer/parallel/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct model_config case_vit = {.type = MODEL_VIT,
                                      .layers = 2,
                                      .heads = 2,
                                      .width = 12,
                                      .mlp_ratio = 2,
                                      .vision.patch = 4,
                                      .vision.side = 12,
                                      .vision.classes = 5};
const struct model_config case_gpt2 = {.type = MODEL_GPT2,
                                       .layers = 2,
                                       .heads = 3,
                                       .width = 12,
                                       .mlp_ratio = 4,
                                       .language.block = 7,
                                       .language.vocabulary = 11};
const struct model_config case_llama = {.type = MODEL_LLAMA,
                                        .layers = 2,
                                        .heads = 4,
                                        .width = 16,
                                        .mlp_width = 20,
                                        .language.block = 7,
                                        .language.vocabulary = 11,
                                        .language.kv_heads = 2,
                                        .language.rope_base = 10000,
                                        .language.norm_epsilon = 1e-5};

/* The wavelengths of its two pairs: one is kept or interpolated, one is stretched. */
const struct model_config case_llama3 = {.type = MODEL_LLAMA,
                                         .layers = 2,
                                         .heads = 4,
                                         .width = 16,
                                         .mlp_width = 20,
                                         .language.block = 7,
                                         .language.vocabulary = 11,
                                         .language.kv_heads = 2,
                                         .language.rope_base = 10000,
                                         .language.rope_scaling = {.factor = 8,
                                                                   .low_freq_factor = 1,
                                                                   .high_freq_factor = 4,
                                                                   .original_positions = 16},
                                         .language.norm_epsilon = 1e-5,
                                         .language.tied = true};
const struct model_config case_qwen2 = {.type = MODEL_QWEN,
                                        .layers = 2,
                                        .heads = 4,
                                        .width = 16,
                                        .mlp_width = 20,
                                        .language.block = 7,
                                        .language.vocabulary = 11,
                                        .language.kv_heads = 2,
                                        .language.rope_base = 10000,
                                        .language.norm_epsilon = 1e-2,
                                        .language.tied = true};
const struct model_config case_qwen3 = {.type = MODEL_QWEN,
                                        .layers = 2,
                                        .heads = 4,
                                        .width = 16,
                                        .mlp_width = 20,
                                        .language.block = 7,
                                        .language.vocabulary = 11,
                                        .language.kv_heads = 2,
                                        .language.head_dim = 6,
                                        .language.rope_base = 10000,
                                        .language.norm_epsilon = 1e-2,
                                        .language.qk_norm = true};

void open_test_ops(enum dtype dtype, unsigned threads, struct device **ret_device,
                   struct ops **ret_ops)
{
    struct err err;
    assert_ok(device_open("cpu", ret_device, &err), &err);
    assert_ok(ops_cpu_open(*ret_device, dtype, threads, ret_ops, &err), &err);
}

double case_random(uint64_t seed, uint64_t i)
{
    struct philox_block random = philox(seed, 77, i);
    double radius = sqrt(-2.0 * log((random.word[0] + 1.0) * 0x1p-32));
    return radius * cos(2.0 * M_PI * (random.word[1] * 0x1p-32));
}

void case_set_element(enum dtype dtype, void *memory, uint64_t element, double value)
{
    if (dtype == DTYPE_F64)
        ((double *)memory)[element] = value;
    else
        ((float *)memory)[element] = (float)value;
}

double case_get_element(enum dtype dtype, const void *memory, uint64_t element)
{
    return dtype == DTYPE_F64 ? ((const double *)memory)[element]
                              : (double)((const float *)memory)[element];
}

static void *allocate(size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 4096, bytes ? bytes : 1), 0);
    memset(memory, 0, bytes);
    return memory;
}

static void add_noise(struct model_case *c)
{
    const struct params *params = model_params(c->model);
    enum dtype dtype = c->ops->compute;
    for (uint64_t p = 0; p < params->count; p++) {
        const struct param *param = &params->list[p];
        for (uint64_t i = param->offset; i < param->offset + param->count; i++)
            case_set_element(
                dtype, c->weights, i,
                (float)(case_get_element(dtype, c->weights, i) + 0.2 * case_random(5, i)));
    }
}

void case_open(struct model_case *c, const struct model_config *config, uint64_t items,
               enum dtype dtype, unsigned threads)
{
    struct err err;
    *c = (struct model_case){.config = *config,
                             .items = items,
                             .whole = {0, config->layers, true, true},
                             .loss_scale = 1};
    open_test_ops(dtype, threads, &c->device, &c->ops);
    assert_ok(model_open(config, c->ops, items, &c->model, &err), &err);
    uint64_t elements = model_params(c->model)->elements;
    c->rows = model_rows(c->model);
    c->weights = allocate(elements * ops_compute_bytes(c->ops));
    c->gradients = allocate(model_params(c->model)->trained_elements * ops_master_bytes(c->ops));
    c->activation_bytes = model_activation_bytes(c->model, &c->whole);
    c->activations.memory = allocate(c->activation_bytes);
    assert_ok(model_open_offload(c->model, &c->whole, &c->activations.offload, &err), &err);
    c->losses = allocate(c->rows * sizeof *c->losses);
    c->correct = allocate(c->rows);
    c->images = allocate(items * config->vision.side * config->vision.side * 3);
    c->labels = allocate(items * sizeof *c->labels);
    c->tokens = allocate(items * (config->language.block + 1) * sizeof *c->tokens);
    c->targets = allocate(items * config->language.block * sizeof *c->targets);
    params_init_values(model_params(c->model), 3, dtype, c->weights);
    add_noise(c);
    case_randomize_inputs(c, 0);
}

void case_close(struct model_case *c)
{
    offload_close(c->activations.offload);
    model_close(c->model);
    ops_close(c->ops);
    device_close(c->device);
    free(c->weights);
    free(c->gradients);
    free(c->activations.memory);
    free(c->losses);
    free(c->correct);
    free(c->images);
    free(c->labels);
    free(c->tokens);
    free(c->targets);
}

void case_randomize_inputs(struct model_case *c, uint64_t micro)
{
    const struct model_config *config = &c->config;
    uint64_t pixels = c->items * config->vision.side * config->vision.side * 3,
             tokens = c->items * (config->language.block + 1);
    for (uint64_t i = 0; i < pixels; i++)
        c->images[i] = (uint8_t)philox(micro, 1, i).word[0];
    for (uint64_t i = 0; config->vision.classes && i < c->items; i++)
        c->labels[i] = (int32_t)(philox(micro, 2, i).word[0] % config->vision.classes);
    for (uint64_t i = 0; config->language.vocabulary && i < tokens; i++)
        c->tokens[i] = (int32_t)(philox(micro, 3, i).word[0] % config->language.vocabulary);
    for (uint64_t i = 0; i < c->items * config->language.block; i++)
        c->targets[i] = c->tokens[i + i / config->language.block + 1];
}

struct model_input case_input(const struct model_case *c)
{
    return (struct model_input){.vision.images = c->images,
                                .vision.labels = c->labels,
                                .language.tokens = c->tokens,
                                .language.targets = c->targets,
                                .language.row_starts = c->row_starts,
                                .loss_scale = &c->loss_scale};
}

void case_forward(struct model_case *c, bool trains)
{
    const struct model_input input = case_input(c);
    const struct model_result result = {c->losses, c->correct};
    const struct model_memory memory = {.weights = c->weights};
    memset(c->activations.memory, 0xff, c->activation_bytes);
    model_forward(c->model, &c->whole, &memory, &c->activations, &input, NULL, NULL,
                  trains ? NULL : &result);
}

void case_backward_adding(struct model_case *c, void *gradients)
{
    const struct model_input input = case_input(c);
    const struct model_result result = {c->losses, c->correct};
    const struct model_memory memory = {.weights = c->weights, .gradients = gradients};
    model_backward(c->model, &c->whole, &memory, &c->activations, &input, &result, NULL, NULL);
    struct err err;
    assert_ok(c->ops->table->sync(c->ops, &err), &err);
}

void case_backward(struct model_case *c, void *gradients)
{
    const struct params *params = model_params(c->model);
    size_t bytes = ops_master_bytes(c->ops);
    memset(gradients, 0, params->trained_elements * bytes);
    for (uint64_t p = 0; p < params->count; p++)
        if (!params->list[p].frozen)
            memset((char *)gradients + params->list[p].trained_offset * bytes, 0xff,
                   params->list[p].count * bytes);
    case_backward_adding(c, gradients);
}

double case_loss(struct model_case *c)
{
    double sum = 0;
    case_forward(c, false);
    for (uint64_t i = 0; i < c->rows; i++)
        sum += c->losses[i];
    return sum;
}

void case_fill_weights(struct weights *weights, const struct params *params, const void *arena)
{
    struct err err;
    size_t element_bytes = ops_master_bytes(weights->options.ops);
    for (uint64_t g = 0; g < params->groups_count; g++)
        assert_ok(weights_fill_group(weights, g,
                                     (const char *)arena + params->groups[g].offset * element_bytes,
                                     &err),
                  &err);
}
