/*
 * hf_case — see hf_case.h.
 */
#include "tests/trainer/hf_case.h"

#include "tests/support/test.h"
#include "tests/trainer/model_case.h"
#include "trainer/models/initial_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct model_config hf_gpt2 = {.type = MODEL_GPT2,
                                     .layers = 2,
                                     .heads = 3,
                                     .width = 24,
                                     .mlp_width = 40,
                                     .language.block = HF_BLOCK,
                                     .language.vocabulary = HF_VOCABULARY};
const struct model_config hf_llama = {.type = MODEL_LLAMA,
                                      .layers = 2,
                                      .heads = 4,
                                      .width = 32,
                                      .mlp_width = 48,
                                      .language.block = HF_BLOCK,
                                      .language.vocabulary = HF_VOCABULARY,
                                      .language.kv_heads = 2,
                                      .language.rope_base = 5000,
                                      .language.norm_epsilon = 1e-5};

const struct model_config hf_llama3 = {.type = MODEL_LLAMA,
                                       .layers = 2,
                                       .heads = 4,
                                       .width = 32,
                                       .mlp_width = 48,
                                       .language.block = HF_BLOCK,
                                       .language.vocabulary = HF_VOCABULARY,
                                       .language.kv_heads = 2,
                                       .language.rope_base = 500,
                                       .language.rope_scaling = {.factor = 8,
                                                                 .low_freq_factor = 1,
                                                                 .high_freq_factor = 4,
                                                                 .original_positions = 8},
                                       .language.norm_epsilon = 1e-5,
                                       .language.tied = true};
const struct model_config hf_qwen2 = {.type = MODEL_QWEN,
                                      .layers = 2,
                                      .heads = 4,
                                      .width = 32,
                                      .mlp_width = 48,
                                      .language.block = HF_BLOCK,
                                      .language.vocabulary = HF_VOCABULARY,
                                      .language.kv_heads = 2,
                                      .language.rope_base = 5000,
                                      .language.norm_epsilon = 1e-6,
                                      .language.tied = true};
const struct model_config hf_qwen3 = {.type = MODEL_QWEN,
                                      .layers = 2,
                                      .heads = 4,
                                      .width = 32,
                                      .mlp_width = 48,
                                      .language.block = HF_BLOCK,
                                      .language.vocabulary = HF_VOCABULARY,
                                      .language.kv_heads = 2,
                                      .language.head_dim = 12,
                                      .language.rope_base = 5000,
                                      .language.norm_epsilon = 1e-6,
                                      .language.qk_norm = true};

const char *hf_need_python(void)
{
    setenv("HF_HUB_OFFLINE", "1", 1);
    setenv("TRANSFORMERS_VERBOSITY", "error", 1);
    return test_need_python("transformers");
}

static void *read_values(const char *folder, const char *name, size_t bytes)
{
    char path[TEST_PATH_BYTES_MAX + 64];
    size_t found;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    void *values = test_read_file(path, &found);
    assert_int_equal(found, bytes);
    return values;
}

int hf_load(const struct model_config *config, struct io *io, const char *path,
            const struct params *params, float *weights, struct err *err)
{
    struct initial_weights *init = NULL;
    int status = initial_weights_open(io, path, config, params, NULL, &init, err);
    for (uint64_t g = 0; g < params->groups_count && !status; g++)
        status = initial_weights_load_group(init, g, weights + params->groups[g].offset, err);
    initial_weights_close(init);
    return status;
}

void hf_check_logits(const struct model_config *config, struct io *io, const char *path,
                     const char *folder)
{
    enum { LOGITS = HF_ITEMS * HF_BLOCK * HF_VOCABULARY };
    struct model_case c;
    struct err err;
    case_open(&c, config, HF_ITEMS, DTYPE_F32, 1);
    const struct params *params = model_params(c.model);
    /* every weight must be overwritten */
    memset(c.weights, 0xff, params->elements * sizeof(float));
    assert_ok(hf_load(config, io, path, params, c.weights, &err), &err);
    int32_t *tokens = read_values(folder, "tokens.i32", HF_ITEMS * HF_BLOCK * sizeof *tokens);
    float *expected = read_values(folder, "logits.f32", LOGITS * sizeof *expected);
    for (int i = 0; i < HF_ITEMS; i++) {
        memcpy(c.tokens + i * (HF_BLOCK + 1), tokens + i * HF_BLOCK, HF_BLOCK * sizeof *tokens);
        c.tokens[i * (HF_BLOCK + 1) + HF_BLOCK] = 0;
    }
    case_forward(&c, false);
    const float *logits = model_logits(c.model, &c.whole, &c.activations);
    double error = 0, largest = 0;
    for (int i = 0; i < LOGITS; i++) {
        largest = fmax(largest, fabsf(expected[i]));
        error = isnan(logits[i]) ? INFINITY : fmax(error, fabsf(logits[i] - expected[i]));
    }
    if (!(error < 1e-5 * largest) || largest == 0)
        fail_msg("%s: logits differ from transformers' by %g of %g", path, error, largest);
    free(expected);
    free(tokens);
    case_close(&c);
}
