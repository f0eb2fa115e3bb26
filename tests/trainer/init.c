/*
 * init (test) — weights of Hugging Face's transformers compute here what they compute there.
 */
#include "trainer/init.h"

#include "tests/support/scratch.h"
#include "tests/trainer/hf_case.h"
#include "tests/trainer/model_case.h"

#include <errno.h>
#include <string.h>

static void make_models(void)
{
    const char *python = hf_need_python();
    assert_int_equal(test_run("'%s' %s/tests/oracle/hf.py make '%s'", python, TEST_SOURCE_DIR, folder), 0);
}

static void place(char path[TEST_PATH_BYTES_MAX + 64], const char *name)
{
    snprintf(path, TEST_PATH_BYTES_MAX + 64, "%s/%s", folder, name);
}

static void check(const struct model_config *config, const char *name)
{
    char path[TEST_PATH_BYTES_MAX + 64];
    place(path, name);
    hf_check_logits(config, io, path, path);
}

static int load(const struct model_config *config, const char *name, struct err *err)
{
    char path[TEST_PATH_BYTES_MAX + 64];
    struct model_case c;
    place(path, name);
    case_open(&c, config, 1, DTYPE_F32, 1);
    int status = init_load(io, path, config, model_params(c.model), c.weights, NULL, err);
    case_close(&c);
    return status;
}

static void models_of_transformers_give_its_logits(void **state)
{
    (void)state;
    char file[TEST_PATH_BYTES_MAX + 64], beside[TEST_PATH_BYTES_MAX + 64];
    make_models();
    check(&hf_gpt2, "gpt2");
    check(&hf_gpt2, "gpt2-bf16-sharded");
    check(&hf_llama, "llama");
    check(&hf_llama, "llama-f16-sharded");
    check(&hf_llama, "llama-tied");
    check(&hf_gpt2, "gpt2-save-model");
    check(&hf_llama, "llama-save-model");
    place(file, "gpt2/model.safetensors");
    place(beside, "gpt2");
    hf_check_logits(&hf_gpt2, io, file, beside);
    place(file, "llama-f16-sharded/model.safetensors.index.json");
    place(beside, "llama-f16-sharded");
    hf_check_logits(&hf_llama, io, file, beside);
}

static void weights_of_another_model_are_refused_by_what_differs(void **state)
{
    (void)state;
    struct model_config config = hf_llama;
    struct err err;
    make_models();
    config.layers = 1;
    assert_int_equal(load(&config, "llama", &err), -EINVAL);
    assert_non_null(strstr(err.what, "num_hidden_layers"));
    assert_int_equal(load(&config, "llama/model.safetensors", &err), -EINVAL);
    config = hf_llama;
    config.heads = 8;
    assert_int_equal(load(&config, "llama", &err), -EINVAL);
    assert_non_null(strstr(err.what, "num_attention_heads"));
    config = hf_llama;
    config.rope_base = 10000;
    assert_int_equal(load(&config, "llama", &err), -EINVAL);
    assert_non_null(strstr(err.what, "rope_theta"));
    config = hf_llama;
    config.mlp_width = 40;
    assert_int_equal(load(&config, "llama", &err), -EINVAL);
    assert_non_null(strstr(err.what, "gate_proj"));
    assert_string_equal(err.expected, "[40, 32]");
    assert_string_equal(err.found, "[48, 32]");
    config = hf_gpt2;
    config.block = 21; /* it has 20 positions */
    assert_int_equal(load(&config, "gpt2", &err), -EINVAL);
    assert_int_equal(load(&hf_gpt2, "llama", &err), -EINVAL);
    assert_int_equal(load(&hf_gpt2, "absent", &err), -ENOENT);
}

static void an_index_that_leads_elsewhere_is_refused(void **state)
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
    place(path, "model.safetensors.index.json");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_write_file(path, bad[i], strlen(bad[i]));
        assert_int_equal(load(&hf_gpt2, "model.safetensors.index.json", &err), -EBADMSG);
        assert_non_null(strstr(err.path, "index.json"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(models_of_transformers_give_its_logits, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(weights_of_another_model_are_refused_by_what_differs, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(an_index_that_leads_elsewhere_is_refused, scratch_set_up,
                                        scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
