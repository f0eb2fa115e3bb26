/*
 * initial_weights (test) — compares millrace's results with those of Hugging Face's transformers.
 */
#include "trainer/models/initial_weights.h"

#include "ckpt/format/safetensors.h"
#include "tests/support/scratch.h"
#include "tests/trainer/hf_case.h"
#include "tests/trainer/model_case.h"
#include "trainer/run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void make_models(void)
{
    const char *python = hf_need_python();
    assert_int_equal(
        test_run("'%s' %s/tests/oracle/hf.py make '%s'", python, TEST_SOURCE_DIR, folder), 0);
}

static void model_path(char path[TEST_PATH_BYTES_MAX + 64], const char *name)
{
    snprintf(path, TEST_PATH_BYTES_MAX + 64, "%s/%s", folder, name);
}

static bool has_model(const char *name)
{
    char path[TEST_PATH_BYTES_MAX + 64];
    model_path(path, name);
    return access(path, F_OK) == 0;
}

static void check_logits(const struct model_config *config, const char *name)
{
    char path[TEST_PATH_BYTES_MAX + 64];
    model_path(path, name);
    hf_check_logits(config, io, path, path);
}

static int load_model(const struct model_config *config, const char *name, struct err *err)
{
    char path[TEST_PATH_BYTES_MAX + 64];
    struct model_case c;
    model_path(path, name);
    case_open(&c, config, 1, DTYPE_F32, 1);
    int status = hf_load(config, io, path, model_params(c.model), c.weights, err);
    case_close(&c);
    return status;
}

static void logits_match_transformers(void **state)
{
    (void)state;
    char file[TEST_PATH_BYTES_MAX + 64], beside[TEST_PATH_BYTES_MAX + 64];
    make_models();
    check_logits(&hf_gpt2, "gpt2");
    check_logits(&hf_gpt2, "gpt2-bf16-sharded");
    check_logits(&hf_llama, "llama");
    check_logits(&hf_llama, "llama-f16-sharded");
    check_logits(&hf_llama, "llama-tied");
    check_logits(&hf_llama3, "llama3");
    check_logits(&hf_qwen2, "qwen2");
    check_logits(&hf_gpt2, "gpt2-save-model");
    check_logits(&hf_llama, "llama-save-model");
    model_path(file, "gpt2/model.safetensors");
    model_path(beside, "gpt2");
    hf_check_logits(&hf_gpt2, io, file, beside);
    model_path(file, "llama-f16-sharded/model.safetensors.index.json");
    model_path(beside, "llama-f16-sharded");
    hf_check_logits(&hf_llama, io, file, beside);
}

static void qwen3_logits_match_transformers(void **state)
{
    (void)state;
    make_models();
    if (!has_model("qwen3"))
        test_skip("this transformers has no Qwen3");
    check_logits(&hf_qwen3, "qwen3");
}

static void weights_of_another_model_are_refused_with_the_difference(void **state)
{
    (void)state;
    struct model_config config = hf_llama;
    struct err err;
    make_models();
    config.layers = 1;
    assert_int_equal(load_model(&config, "llama", &err), -EINVAL);
    assert_non_null(strstr(err.what, "num_hidden_layers"));
    assert_int_equal(load_model(&config, "llama/model.safetensors", &err), -EINVAL);
    config = hf_llama;
    config.heads = 8;
    assert_int_equal(load_model(&config, "llama", &err), -EINVAL);
    assert_non_null(strstr(err.what, "num_attention_heads"));
    config = hf_llama;
    config.language.rope_base = 10000;
    assert_int_equal(load_model(&config, "llama", &err), -EINVAL);
    assert_non_null(strstr(err.what, "rope_theta"));
    config = hf_llama;
    config.language.rope_scaling = hf_llama3.language.rope_scaling;
    assert_int_equal(load_model(&config, "llama", &err), -EINVAL);
    assert_non_null(strstr(err.what, "rope_scaling"));
    config = hf_llama3;
    config.language.rope_scaling = (struct rope_scaling){0};
    assert_int_equal(load_model(&config, "llama3", &err), -EINVAL);
    assert_non_null(strstr(err.what, "rope_scaling"));
    config = hf_llama3;
    config.language.rope_scaling.original_positions = 16;
    assert_int_equal(load_model(&config, "llama3", &err), -EINVAL);
    assert_non_null(strstr(err.what, "original_max_position_embeddings"));
    config = hf_llama;
    config.language.tied = true; /* the file's separate head would be lost */
    assert_int_equal(load_model(&config, "llama", &err), -EINVAL);
    assert_non_null(strstr(err.what, "tie_word_embeddings"));
    config = hf_qwen2;
    config.language.qk_norm = true;
    assert_int_equal(load_model(&config, "qwen2", &err), -EINVAL);
    assert_non_null(strstr(err.what, "model_type"));
    config = hf_llama;
    config.mlp_width = 40;
    assert_int_equal(load_model(&config, "llama", &err), -EINVAL);
    assert_non_null(strstr(err.what, "gate_proj"));
    assert_string_equal(err.expected, "[40, 32]");
    assert_string_equal(err.found, "[48, 32]");
    config = hf_gpt2;
    config.language.block = 21; /* the file has only 20 positions */
    assert_int_equal(load_model(&config, "gpt2", &err), -EINVAL);
    assert_int_equal(load_model(&hf_gpt2, "llama", &err), -EINVAL);
    assert_int_equal(load_model(&hf_gpt2, "absent", &err), -ENOENT);
}

static void an_index_pointing_outside_its_folder_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"{}",
                                      "{\"weight_map\": {}}",
                                      "{\"weight_map\": {\"a\": 3}}",
                                      "{\"weight_map\": {\"a\": \"../b\"}}",
                                      "{\"weight_map\": {\"a\": \"\"}}",
                                      "[\"weight_map\"]"};
    char path[TEST_PATH_BYTES_MAX + 64];
    struct err err;
    model_path(path, "model.safetensors.index.json");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_write_file(path, bad[i], strlen(bad[i]));
        assert_int_equal(load_model(&hf_gpt2, "model.safetensors.index.json", &err), -EBADMSG);
        assert_non_null(strstr(err.path, "index.json"));
    }
}

/* ---- Memory. ---- */

enum {
    WIDTH = 264,
    LAYERS = 32,
    READ_AHEAD_BYTES_MAX = 36 << 20 /* a load's read-ahead, plus some slack */
};

/* Writes a millrace file in which all parameters are a hole. */
static void write_zero_weights(const struct params *params, const char *path)
{
    struct safetensors_entry *entries = calloc(params->count, sizeof *entries);
    struct str header = {0};
    struct err err;
    uint64_t file_bytes;
    assert_non_null(entries);
    for (uint64_t i = 0; i < params->count; i++) {
        const struct param *param = &params->list[i];
        entries[i] = (struct safetensors_entry){.name = param->name,
                                                .dtype = DTYPE_F32,
                                                .rank = param->rank,
                                                .size_bytes = param->count * 4};
        memcpy(entries[i].shape, param->shape, sizeof param->shape);
    }
    qsort(entries, params->count, sizeof *entries, safetensors_compare);
    assert_ok(safetensors_encode(entries, params->count, NULL, 0, SAFETENSORS_ALIGN_BYTES, &header,
                                 &file_bytes, &err),
              &err);
    test_write_file(path, header.data, header.bytes);
    assert_int_equal(truncate(path, (off_t)file_bytes), 0);
    str_deinit(&header);
    free(entries);
}

static uint64_t peak_bytes(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        (void)sscanf(line, "VmHWM: %llu", &kib);
    if (file)
        fclose(file);
    return kib << 10;
}

/* The test acts as one of sixteen ranks with sharded weights. */
static void sharded_weights_are_read_group_by_group(void **state)
{
    char path[TEST_PATH_BYTES_MAX + 64];
    struct train_config config = {0};
    struct trainer_options options = {.config = &config};
    struct run run = {.config = &config, .options = &options};
    struct model_config model = case_gpt2;
    const struct partition_options one_of_many = {.rank = 3, .ranks = 16, .shards = 16};
    struct err err;
    (void)state;
    if (test_is_sanitized())
        test_skip("a sanitizer's own memory is counted too");
    model.width = WIDTH;
    model.layers = LAYERS;
    open_test_ops(DTYPE_F32, 1, &run.compute.device, &run.compute.ops);
    assert_ok(model_open(&model, run.compute.ops, 2, &run.compute.model, &err), &err);
    run.compute.params = model_params(run.compute.model);
    run.compute.stage =
        (struct model_stage){.blocks_count = LAYERS, .has_embedding = true, .has_head = true};
    assert_ok(partition_init(&run.compute.partition, &one_of_many, run.compute.params, &err), &err);
    const struct weights_options weights = {.ops = run.compute.ops,
                                            .partition = &run.compute.partition,
                                            .shards = true,
                                            .reshards = true};
    assert_ok(
        weights_init(&run.compute.weights, &weights, run.compute.model, &run.compute.stage, &err),
        &err);
    model_path(path, "zeros.safetensors");
    write_zero_weights(run.compute.params, path);
    /* allocates the memory of the weights themselves */
    assert_ok(run_init_weights(&run, NULL, &err), &err);
    uint64_t before = peak_bytes(),
             group_bytes = run.compute.partition.group_elements_max * sizeof(float);
    assert_ok(run_init_weights(&run, path, &err), &err);
    uint64_t more = peak_bytes() - before;
    assert_true(run.compute.params->elements * sizeof(float) >
                2 * (2 * group_bytes + READ_AHEAD_BYTES_MAX));
    if (more > 2 * group_bytes + READ_AHEAD_BYTES_MAX)
        fail_msg("reading took %llu more bytes; a group has %llu", (unsigned long long)more,
                 (unsigned long long)group_bytes);
    weights_deinit(&run.compute.weights);
    partition_deinit(&run.compute.partition);
    model_close(run.compute.model);
    ops_close(run.compute.ops);
    device_close(run.compute.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(logits_match_transformers, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(qwen3_logits_match_transformers, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(weights_of_another_model_are_refused_with_the_difference,
                                        scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(sharded_weights_are_read_group_by_group, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(an_index_pointing_outside_its_folder_is_refused,
                                        scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
