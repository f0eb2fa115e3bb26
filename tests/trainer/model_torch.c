/*
 * model_torch — tests losses, gradients and flops against torch in F64 (tests/oracle/model.py
 * implements the models independently).
 */
#include "base/json/jsonx_writer.h"
#include "tests/support/test.h"
#include "tests/trainer/block_case.h"
#include "tests/trainer/model_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const double TOLERANCE = 1e-10; /* relative to an array's largest element */

static void write_case_file(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[TEST_PATH_BYTES_MAX + 64];
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    test_write_file(path, data, bytes);
}

static void describe_block(struct jsonx_writer *w, const struct block_config *config)
{
    jsonx_write_u64(w, "width", config->width);
    jsonx_write_u64(w, "heads", config->heads);
    jsonx_write_u64(w, "kv_heads", config->kv_heads);
    jsonx_write_u64(w, "head_dim",
                    config->head_dim ? config->head_dim : config->width / config->heads);
    jsonx_write_string(w, "norm", config->norm == NORM_RMS ? "rms" : "layer");
    jsonx_write_f64(w, "epsilon", config->epsilon);
    jsonx_write_bool(w, "rope", config->rope);
    jsonx_write_f64(w, "rope_base", config->rope_base);
    jsonx_write_f64(w, "rope_factor", config->rope_scaling.factor);
    jsonx_write_f64(w, "rope_low_freq_factor", config->rope_scaling.low_freq_factor);
    jsonx_write_f64(w, "rope_high_freq_factor", config->rope_scaling.high_freq_factor);
    jsonx_write_u64(w, "rope_original_positions", config->rope_scaling.original_positions);
    jsonx_write_bool(w, "swiglu", config->swiglu);
    jsonx_write_bool(w, "causal", config->causal);
}

/* The parameters of all groups from first_group on. */
static void describe_params(struct jsonx_writer *w, const struct params *params,
                            uint64_t first_group)
{
    jsonx_begin_array(w, "params");
    for (uint64_t p = 0; p < params->count; p++) {
        const struct param *param = &params->list[p];
        if (param->group < first_group)
            continue;
        jsonx_begin_object(w, NULL);
        jsonx_write_string(w, "name", param->name);
        jsonx_write_u64(w, "offset", param->offset);
        jsonx_begin_array(w, "shape");
        for (uint32_t i = 0; i < param->rank; i++)
            jsonx_write_u64(w, NULL, param->shape[i]);
        jsonx_end_array(w);
        jsonx_end_object(w);
    }
    jsonx_end_array(w);
}

static void finish_case(struct str *text, struct jsonx_writer *w, const char *folder)
{
    jsonx_end_object(w);
    write_case_file(folder, "case.json", text->data, text->bytes);
    str_deinit(text);
}

static void compare_array(const char *folder, const char *name, const double *got, uint64_t count)
{
    char path[TEST_PATH_BYTES_MAX + 64];
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s.f64", folder, name);
    double *expected = (double *)test_read_file(path, &bytes);
    assert_int_equal(bytes, count * sizeof *expected);
    double largest = 0, error = 0;
    for (uint64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(expected[i]));
        error = isnan(got[i]) ? INFINITY : fmax(error, fabs(expected[i] - got[i]));
    }
    if (!(error <= TOLERANCE * largest) || largest == 0)
        fail_msg("%s: differs from torch by %g of %g", path, error, largest);
    free(expected);
}

/* Scales errors by each tensor's largest element, so that small tensors count, but at least by 1e-4
 * of the largest element of all. */
static void compare_gradients(const char *folder, const struct params *params, uint64_t first_group,
                              const double *got)
{
    char path[TEST_PATH_BYTES_MAX + 64];
    size_t bytes;
    snprintf(path, sizeof path, "%s/gradients.f64", folder);
    double *expected = (double *)test_read_file(path, &bytes);
    assert_int_equal(bytes, params->elements * sizeof *expected);
    double largest_of_all = 0;
    for (uint64_t i = 0; i < params->elements; i++)
        largest_of_all = fmax(largest_of_all, fabs(expected[i]));
    for (uint64_t p = 0; p < params->count; p++) {
        const struct param *param = &params->list[p];
        double largest = 1e-4 * largest_of_all, error = 0;
        for (uint64_t i = param->offset;
             param->group >= first_group && i < param->offset + param->count; i++) {
            largest = fmax(largest, fabs(expected[i]));
            error = isnan(got[i]) ? INFINITY : fmax(error, fabs(expected[i] - got[i]));
        }
        if (!(error <= TOLERANCE * largest))
            fail_msg("%s: %s differs from torch by %g of %g", path, param->name, error, largest);
    }
    free(expected);
}

static void write_model_case(const struct model_case *c, const struct block_config *block,
                             const char *folder)
{
    const struct model_config *config = &c->config;
    const struct params *params = model_params(c->model);
    struct str text = {0};
    struct jsonx_writer w = {.out = &text};
    jsonx_begin_object(&w, NULL);
    jsonx_write_string(&w, "kind", model_type_name(config->type));
    jsonx_write_u64(&w, "layers", config->layers);
    jsonx_write_u64(&w, "side", config->vision.side);
    jsonx_write_u64(&w, "patch", config->vision.patch);
    jsonx_write_u64(&w, "block", config->language.block);
    describe_block(&w, block);
    describe_params(&w, params, 0);
    finish_case(&text, &w, folder);
    write_case_file(folder, "weights.f64", c->weights, params->elements * sizeof(double));
    write_case_file(folder, "images.u8", c->images,
                    c->items * config->vision.side * config->vision.side * 3);
    write_case_file(folder, "labels.i32", c->labels, c->items * sizeof *c->labels);
    write_case_file(folder, "targets.i32", c->targets,
                    c->items * config->language.block * sizeof *c->targets);
    write_case_file(folder, "tokens.i32", c->tokens,
                    c->items * (config->language.block + 1) * sizeof *c->tokens);
}

/* torch also computes the token pairs that causal attention skips: scores and weighted values, once
 * in the forward and twice in the backward pass. */
static void compare_flops(const char *folder, const struct model_case *c)
{
    const struct model_config *config = &c->config;
    uint64_t width =
        config->language.head_dim ? config->heads * config->language.head_dim : config->width;
    uint64_t tokens = config->language.block,
             left_out = tokens * (tokens - 1) / 2; /* zero for a ViT */
    double more = tokens > 0 ? 12.0 * (double)(c->items * config->layers * width * left_out) : 0;
    double flops = model_flops(c->model) + more;
    compare_array(folder, "flops", &flops, 1);
}

static void check_model(const struct model_config *config, double epsilon)
{
    const char *python = test_need_python("torch");
    char parent[TEST_PATH_BYTES_MAX], folder[TEST_PATH_BYTES_MAX + 16];
    const bool rotary = model_is_rotary(config->type);
    const struct block_config block = {
        .width = config->width,
        .heads = config->heads,
        .kv_heads = config->language.kv_heads ? config->language.kv_heads : config->heads,
        .norm = rotary ? NORM_RMS : NORM_LAYER,
        .epsilon = epsilon,
        .head_dim = config->language.head_dim,
        .rope = rotary,
        .rope_base = config->language.rope_base,
        .rope_scaling = config->language.rope_scaling,
        .swiglu = rotary,
        .causal = config->type != MODEL_VIT};
    struct model_case c;
    test_make_folder(parent);
    snprintf(folder, sizeof folder, "%s/0", parent);
    case_open(&c, config, 4, DTYPE_F64, 1);
    c.labels[1] = -1;
    if (config->language.block)
        c.targets[config->language.block + 2] = -1;
    write_model_case(&c, &block, folder);
    assert_int_equal(
        test_run("'%s' %s/tests/oracle/model.py '%s'", python, TEST_SOURCE_DIR, parent), 0);
    case_forward(&c, true);
    case_backward(&c, c.gradients);
    compare_array(folder, "losses", c.losses, c.rows);
    compare_gradients(folder, model_params(c.model), 0, c.gradients);
    compare_flops(folder, &c);
    case_close(&c);
    test_remove_folder(parent);
}

static void vit_matches_torch(void **state)
{
    (void)state;
    check_model(&case_vit, 1e-6);
}

static void gpt2_matches_torch(void **state)
{
    (void)state;
    check_model(&case_gpt2, 1e-5);
}

static void llama_matches_torch(void **state)
{
    (void)state;
    check_model(&case_llama, case_llama.language.norm_epsilon);
}

static void llama3_matches_torch(void **state)
{
    (void)state;
    check_model(&case_llama3, case_llama3.language.norm_epsilon);
}

static void qwen_matches_torch(void **state)
{
    (void)state;
    check_model(&case_qwen2, case_qwen2.language.norm_epsilon);
    check_model(&case_qwen3, case_qwen3.language.norm_epsilon);
}

static void write_block_case(const struct block_case *c, const char *folder)
{
    struct str text = {0};
    struct jsonx_writer w = {.out = &text};
    jsonx_begin_object(&w, NULL);
    jsonx_write_string(&w, "kind", "block");
    jsonx_write_u64(&w, "items", BLOCK_ITEMS);
    describe_block(&w, &c->block.config);
    describe_params(&w, &c->params, 1);
    finish_case(&text, &w, folder);
    write_case_file(folder, "weights.f64", c->weights, c->params.elements * sizeof(double));
    write_case_file(folder, "x.f64", c->x, c->stream * sizeof(double));
    write_case_file(folder, "r.f64", c->r, c->stream * sizeof(double));
}

static void block_variants_match_torch(void **state)
{
    (void)state;
    const char *python = test_need_python("torch");
    char parent[TEST_PATH_BYTES_MAX], folder[TEST_PATH_BYTES_MAX + 16];
    struct device *device;
    struct ops *ops;
    struct block_case cases[BLOCK_VARIANTS];
    open_test_ops(DTYPE_F64, 1, &device, &ops);
    test_make_folder(parent);
    for (unsigned i = 0; i < BLOCK_VARIANTS; i++) {
        const struct block_config config = block_variant(i, i % 3 != 0);
        block_case_open(&cases[i], ops, &config);
        snprintf(folder, sizeof folder, "%s/%u", parent, i);
        write_block_case(&cases[i], folder);
    }
    assert_int_equal(
        test_run("'%s' %s/tests/oracle/model.py '%s'", python, TEST_SOURCE_DIR, parent), 0);
    for (unsigned i = 0; i < BLOCK_VARIANTS; i++) {
        struct block_case *c = &cases[i];
        snprintf(folder, sizeof folder, "%s/%u", parent, i);
        block_case_loss(c);
        block_case_backward(c);
        compare_array(folder, "out", c->out, c->stream);
        compare_array(folder, "d_x", c->d, c->stream);
        compare_gradients(folder, &c->params, 1, c->gradients);
        block_case_close(c);
    }
    test_remove_folder(parent);
    ops_close(ops);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vit_matches_torch),   cmocka_unit_test(gpt2_matches_torch),
        cmocka_unit_test(llama_matches_torch), cmocka_unit_test(llama3_matches_torch),
        cmocka_unit_test(qwen_matches_torch),  cmocka_unit_test(block_variants_match_torch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
