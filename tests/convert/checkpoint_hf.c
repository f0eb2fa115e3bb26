/*
 * checkpoint_hf (test) — transformers loads the output of `--to hf` and computes the same logits.
 */
#include "ckpt/ckpt.h"
#include "convert/checkpoint/checkpoint.h"
#include "io/faults/io_fault.h"
#include "tests/support/scratch.h"
#include "tests/trainer/hf_case.h"
#include "tests/trainer/model_case.h"
#include "trainer/config/config.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char steps[TEST_PATH_BYTES_MAX + 16], target[TEST_PATH_BYTES_MAX + 16];

static int set_up(void **state)
{
    scratch_set_up(state);
    snprintf(steps, sizeof steps, "%s/ckpt", folder);
    snprintf(target, sizeof target, "%s/hf", folder);
    return 0;
}

static int tear_down(void **state)
{
    return scratch_tear_down(state);
}

/* Appends the state of a training run with this model. */
static void describe_run(const struct model_config *model, struct str *out)
{
    struct train_config config;
    config_set_defaults(&config);
    config.model.type = model->type;
    config.model.layers = model->layers;
    config.model.heads = model->heads;
    config.model.width = model->width;
    config.model.mlp_width = model->mlp_width;
    config.model.kv_heads = model->language.kv_heads;
    config.data.text.block = model->language.block;
    if (model_is_rotary(model->type)) {
        config.model.rope_base = model->language.rope_base;
        config.model.norm_epsilon = model->language.norm_epsilon;
        config.model.head_dim = model->language.head_dim;
        config.model.tied = model->language.tied;
        config.model.qk_norm = model->language.qk_norm;
    }
    if (model->language.rope_scaling.factor > 0) {
        config.model.rope_scaling.factor = model->language.rope_scaling.factor;
        config.model.rope_scaling.original_max_position_embeddings =
            model->language.rope_scaling.original_positions;
    }
    str_add_text(out, "{\"config\":");
    config_print_json(&config, out);
    str_add_text(out, "}");
}

/* Saves a step with random weights. */
static void save_step(const struct model_config *config)
{
    struct model_case c;
    struct err err;
    struct str state = {0};
    struct ckpt_saver *saver;
    case_open(&c, config, 1, DTYPE_F32, 1);
    const struct params *params = model_params(c.model);
    struct ckpt_tensor *tensors = calloc(params->count, sizeof *tensors);
    assert_non_null(tensors);
    for (uint64_t i = 0; i < params->count; i++) {
        const struct param *param = &params->list[i];
        tensors[i] = (struct ckpt_tensor){.name = param->name,
                                          .dtype = DTYPE_F32,
                                          .rank = param->rank,
                                          .replicated = true,
                                          .data = (float *)c.weights + param->offset};
        memcpy(tensors[i].shape, param->shape, sizeof param->shape);
        memcpy(tensors[i].extent, param->shape, sizeof param->shape);
    }
    describe_run(config, &state);
    struct ckpt_saver_options options = {
        .folder = steps, .io = io, .groups_count = 1, .run_id = "test", .numerics_id = "test"};
    assert_ok(ckpt_saver_open(&options, tensors, params->count, &saver, &err), &err);
    assert_ok(ckpt_saver_save(saver, 3, str_text(&state), &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
    ckpt_saver_close(saver);
    str_deinit(&state);
    free(tensors);
    case_close(&c);
}

static int convert(uint64_t max_file_bytes, bool force, struct err *err)
{
    struct convert_checkpoint_result result;
    struct convert_checkpoint_options options = {.source = steps,
                                                 .target = target,
                                                 .max_file_bytes = max_file_bytes,
                                                 .force = force,
                                                 .verify = true};
    return convert_checkpoint_hf(io, &options, &result, err);
}

/* All tensors are saved as F32. */
static void convert_cast(enum dtype dtype, uint64_t max_file_bytes)
{
    struct convert_checkpoint_result result;
    struct err err;
    struct convert_checkpoint_options options = {.source = steps,
                                                 .target = target,
                                                 .max_file_bytes = max_file_bytes,
                                                 .cast = {.is_wanted = true, .dtype = dtype},
                                                 .force = true,
                                                 .verify = true};
    assert_ok(convert_checkpoint_hf(io, &options, &result, &err), &err);
    assert_int_equal(result.cast_count, result.tensors_count);
}

static void write_tokens(const char *path)
{
    int32_t tokens[HF_ITEMS * HF_BLOCK];
    char file[sizeof target + 16];
    for (int i = 0; i < HF_ITEMS * HF_BLOCK; i++)
        tokens[i] = i * 7 % HF_VOCABULARY;
    snprintf(file, sizeof file, "%s/tokens.i32", path);
    test_write_file(file, tokens, sizeof tokens);
}

static bool target_has(const char *name)
{
    char path[sizeof target + 64];
    snprintf(path, sizeof path, "%s/%s", target, name);
    return access(path, F_OK) == 0;
}

/* Converts to one file, then to several. */
static void assert_logits_match_transformers(const struct model_config *config)
{
    struct err err;
    char one[sizeof target];
    const char *python = hf_need_python();
    save_step(config);
    assert_ok(convert(0, false, &err), &err);
    assert_true(target_has("model.safetensors"));
    assert_false(target_has("model.safetensors.index.json"));
    assert_int_equal(convert(0, false, &err), -EEXIST);
    snprintf(one, sizeof one, "%s/one", folder);
    assert_int_equal(test_run("cp -r '%s' '%s'", target, one), 0);
    assert_ok(convert(8000, true, &err), &err);
    assert_false(target_has("model.safetensors"));
    assert_true(target_has("model.safetensors.index.json"));
    write_tokens(one);
    write_tokens(target);
    assert_int_equal(test_run("'%s' %s/tests/oracle/hf.py logits '%s' '%s'", python,
                              TEST_SOURCE_DIR, one, target),
                     0);
    hf_check_logits(config, io, steps, one); /* with the step's weights */
    hf_check_logits(config, io, one, one);   /* converted back */
    hf_check_logits(config, io, target, target);
}

static void a_gpt2_is_loaded_by_transformers_with_our_logits(void **state)
{
    (void)state;
    assert_logits_match_transformers(&hf_gpt2);
}

static void a_llama_is_loaded_by_transformers_with_our_logits(void **state)
{
    (void)state;
    assert_logits_match_transformers(&hf_llama);
}

static void a_llama3_is_loaded_by_transformers_with_our_logits(void **state)
{
    (void)state;
    assert_logits_match_transformers(&hf_llama3);
}

static void a_qwen2_is_loaded_by_transformers_with_our_logits(void **state)
{
    (void)state;
    assert_logits_match_transformers(&hf_qwen2);
}

static void a_qwen3_is_loaded_by_transformers_with_our_logits(void **state)
{
    (void)state;
    if (test_run("'%s' -c 'from transformers import Qwen3Config' 2>/dev/null", hf_need_python()))
        test_skip("this transformers has no Qwen3");
    assert_logits_match_transformers(&hf_qwen3);
}

/* Writes folder/NAME without a cast, and folder/NAME-DTYPE for each cast. */
static void convert_casts(const struct model_config *config, const char *name)
{
    struct err err;
    assert_int_equal(test_run("rm -rf '%s'", steps), 0);
    save_step(config);
    assert_ok(convert(0, false, &err), &err);
    assert_int_equal(test_run("mv '%s' '%s/%s'", target, folder, name), 0);
    convert_cast(DTYPE_BF16, 0);
    assert_int_equal(test_run("mv '%s' '%s/%s-bfloat16'", target, folder, name), 0);
    convert_cast(DTYPE_F16, 8000);
    assert_int_equal(test_run("mv '%s' '%s/%s-float16'", target, folder, name), 0);
}

static void cast_folders_match_torch_and_load_with_tied_heads(void **state)
{
    (void)state;
    const char *python = hf_need_python();
    convert_casts(&hf_gpt2, "gpt2");
    convert_casts(&hf_llama, "llama");
    assert_int_equal(
        test_run("cd '%s' && '%s' %s/tests/convert/open_hf.py gpt2 bfloat16 gpt2 float16 llama "
                 "bfloat16 llama float16",
                 folder, python, TEST_SOURCE_DIR),
        0);
}

/* Each conversion flips a bit in a different write. The existing folder is kept. */
static void a_wrong_folder_never_gets_the_target_name(void **state)
{
    (void)state;
    struct err err = {0};
    struct io *original_io = io;
    char rule[32];
    int status = -EBADMSG;
    unsigned writes = 0;
    save_step(&hf_gpt2);
    assert_ok(convert(0, false, &err), &err);
    assert_int_equal(test_run("cp -r '%s' '%s/mine'", target, folder), 0);
    while (status == -EBADMSG) {
        snprintf(rule, sizeof rule, "write:flip@%u:hf/", ++writes);
        assert_ok(io_fault_open(folder, NULL, rule, &io, &err), &err);
        status = convert(0, true, &err);
        io_close(io);
        io = original_io;
        assert_true(status == 0 || (status == -EBADMSG && strstr(err.path, "/.tmp-")));
        assert_int_equal(test_run("diff -r '%s' '%s/mine'", target, folder), 0);
    }
    assert_true(writes > 10);
    assert_int_equal(test_run("test -z \"$(ls -A %s | grep tmp)\"", folder), 0);
}

/* The output has several files; some are finalized when the process dies. */
static void a_killed_folder_conversion_resumes_to_the_same_bytes(void **state)
{
    (void)state;
    enum { STEP = 7 };
    struct convert_checkpoint_options options = {.source = steps,
                                                 .target = target,
                                                 .max_file_bytes = 8000,
                                                 .workers_count = 2,
                                                 .resume = true};
    struct convert_checkpoint_result result;
    struct err err = {0};
    unsigned kills = 0, kept = 0;
    int status = -1;
    save_step(&hf_gpt2);
    assert_ok(convert(8000, false, &err), &err);
    assert_int_equal(test_run("mv '%s' '%s/mine'", target, folder), 0);
    for (; status != 0; kills++) {
        char rule[32];
        snprintf(rule, sizeof rule, "durable:kill@%u", 1 + kills * STEP);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct io *faulty;
            int opened = io_fault_open("file:", NULL, rule, &faulty, NULL);
            _exit(opened || convert_checkpoint_hf(faulty, &options, &result, NULL) ? 1 : 0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        assert_ok(convert_checkpoint_hf(io, &options, &result, &err), &err);
        kept += status != 0 && result.kept_bytes > 0;
        assert_int_equal(test_run("diff -r '%s' '%s/mine'", target, folder), 0);
        assert_int_equal(
            test_run("rm -r '%s' && test -z \"$(ls -A '%s' | grep tmp)\"", target, folder), 0);
    }
    print_message("%u kills, %u of them left something that was kept\n", kills - 1, kept);
    assert_true(kills > 8 && kept > 5);
}

/* --force may delete only a converted model, never a checkpoint. */
static void force_replaces_only_a_converted_model(void **state)
{
    (void)state;
    struct err err = {0};
    char path[2 * TEST_PATH_BYTES_MAX];
    struct convert_checkpoint_options options = {
        .source = steps, .target = target, .force = true, .workers_count = 2};
    struct convert_checkpoint_result result;
    save_step(&hf_gpt2);
    assert_ok(convert(0, false, &err), &err);
    assert_ok(convert_checkpoint_hf(io, &options, &result, &err), &err);
    assert_int_equal(test_run("echo '{}' >'%s/tokenizer.json'", target), 0);
    assert_int_equal(convert_checkpoint_hf(io, &options, &result, &err), -EEXIST);
    assert_string_equal(err.found, "tokenizer.json");
    options.target = folder; /* contains the checkpoints */
    assert_int_equal(convert_checkpoint_hf(io, &options, &result, &err), -EEXIST);
    options.target = path;
    assert_int_equal(test_run_output(path, sizeof path, "printf %%s '%s'/step-*", steps), 0);
    assert_int_equal(convert_checkpoint_hf(io, &options, &result, &err), -EINVAL);
    assert_int_equal(convert_checkpoint_full(io, &options, &result, &err), -EINVAL);
    options.target = target;
    assert_int_equal(convert_checkpoint_full(io, &options, &result, &err), -EISDIR);
    options.force = false;
    options.target = strcat(path, "/model.safetensors");
    assert_int_equal(convert_checkpoint_full(io, &options, &result, &err), -EINVAL);
    assert_int_equal(
        test_run("test -e '%s/tokenizer.json' && ls '%s'/step-*/manifest.json >/dev/null", target,
                 steps),
        0);
}

static void a_model_unknown_to_transformers_is_refused(void **state)
{
    (void)state;
    struct err err;
    save_step(&case_vit);
    assert_int_equal(convert(0, false, &err), -ENOTSUP);
    assert_non_null(strstr(err.found, "vit"));
    assert_int_not_equal(access(target, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_gpt2_is_loaded_by_transformers_with_our_logits, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_llama_is_loaded_by_transformers_with_our_logits, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_qwen3_is_loaded_by_transformers_with_our_logits, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_qwen2_is_loaded_by_transformers_with_our_logits, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_llama3_is_loaded_by_transformers_with_our_logits, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(cast_folders_match_torch_and_load_with_tied_heads, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_folder_never_gets_the_target_name, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_killed_folder_conversion_resumes_to_the_same_bytes,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(force_replaces_only_a_converted_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_model_unknown_to_transformers_is_refused, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
