/*
 * config (test) — valid configurations, and the error messages for invalid ones.
 */
#include "tests/support/test.h"

#include "base/json/jsonx.h"
#include "trainer/config/config.h"
#include "trainer/config/strategy.h"
#include "trainer/optim/schedule.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int parse(const char *text, const char *set, struct train_config *config, struct err *err)
{
    const char *sets[] = {set};
    return config_parse(text, strlen(text), "a.yaml", sets, set ? 1 : 0, config, err);
}

#define REQUIRED_KEYS "data: {train: x}\nrun: {steps: 5}\n"

static void missing_keys_have_defaults(void **state)
{
    (void)state;
    struct train_config config;
    struct err err;
    assert_ok(parse(REQUIRED_KEYS, NULL, &config, &err), &err);
    assert_int_equal(config.batch.global, 256);
    assert_int_equal(config.data.memory_bytes, 256 << 20);
    assert_true(config.data.image.flip);
    assert_true(config.optimizer.beta2 == 0.95);
    assert_string_equal(config.data.image.field, "jpg;jpeg;png;webp;ppm");
}

static void values_of_all_kinds_are_read(void **state)
{
    (void)state;
    struct train_config config;
    struct err err;
    assert_ok(
        parse("run: {dir: r, steps: 9, seed: 3}\n"
              "data:\n  train: t\n  memory: 1GiB\n  timeout: 90s\n  bad_samples: {limit: 2%}\n  "
              "window: auto\n"
              "  image:\n    scale: [0.25, 0.5]\n    flip: false\n"
              "model: {type: gpt2}\nschedule: {type: linear, min_lr: 0}\noptimizer: {betas: [0.8, "
              "0.9], lr: 1e-2}\n",
              "checkpoint.keep.last=7", &config, &err),
        &err);
    assert_int_equal(config.data.memory_bytes, 1 << 30);
    assert_int_equal(config.data.timeout_ns, 90000000000u);
    assert_true(fabs(config.data.bad_samples.limit - 0.02) < 1e-12);
    assert_true(config.data.image.scale_min == 0.25 && config.data.image.scale_max == 0.5);
    assert_false(config.data.image.flip);
    assert_int_equal(config.model.type, 1);
    assert_true(config.optimizer.beta1 == 0.8 && config.optimizer.lr == 1e-2);
    assert_int_equal(config.checkpoint.keep.last, 7);
    assert_int_equal(config.checkpoint.staging_bytes, 0);
    assert_ok(parse(REQUIRED_KEYS
                    "checkpoint: {staging: 8MiB}\nparallel: {offload: {optimizer: true}}\n",
                    "model.offload=3", &config, &err),
              &err);
    assert_int_equal(config.checkpoint.staging_bytes, 8 << 20);
    assert_true(config.parallel.offload.optimizer);
    assert_int_equal(config.model.offload, 3);
    assert_ok(parse(REQUIRED_KEYS "checkpoint: {staging: 8MiB}\n", "checkpoint.staging=auto",
                    &config, &err),
              &err);
    assert_int_equal(config.checkpoint.staging_bytes, 0);
}

static void expect_refusal(const char *text, const char *set, const char *what, const char *advice)
{
    struct train_config config;
    struct err err = {0};
    char line[ERR_LINE_BYTES_MAX];
    assert_int_equal(parse(text, set, &config, &err), -EINVAL);
    err_format(&err, line, sizeof line);
    if (!strstr(line, what) || (advice && !strstr(line, advice)))
        fail_msg("%s: lacks %s or %s", line, what, advice ? advice : "");
}

struct differences {
    int count;
    char last[64];
};

static void record_difference(void *context, const struct config_field *field, const char *saved,
                              const char *now)
{
    struct differences *differences = context;
    assert_string_not_equal(saved, now);
    differences->count++;
    snprintf(differences->last, sizeof differences->last, "%s", field->key);
}

static void training_data_may_be_a_mix(void **state)
{
    (void)state;
    struct train_config config, reparsed;
    struct err err;
    assert_ok(
        parse(
            "run: {steps: 5}\ndata:\n  train:\n    - {path: a, weight: 3}\n    - path: b c\n    - "
            "{weight: 0.250, path: \"d\"}\n",
            NULL, &config, &err),
        &err);
    const struct config_mix *train = &config.data.train;
    assert_int_equal(train->count, 3);
    assert_string_equal(train->sources[1].path, "b c");
    assert_int_equal(train->sources[0].weight, 3000000);
    assert_int_equal(train->sources[1].weight, 1000000);
    assert_int_equal(train->sources[2].weight, 250000);
    struct str text = {0}, json = {0};
    config_print(&config, &text);
    assert_non_null(strstr(str_text(&text),
                           "train: [{\"path\":\"a\",\"weight\":3},{\"path\":\"b c\",\"weight\":1},"
                           "{\"path\":\"d\",\"weight\":0.25}]\n"));
    assert_ok(parse(str_text(&text), NULL, &reparsed, &err), &err);
    assert_memory_equal(&config, &reparsed, sizeof config);
    config_print_json(&config, &json);
    struct json_t *saved;
    struct differences differences = {0};
    assert_ok(jsonx_parse(json.data, json.bytes, "saved", 0, &saved, &err), &err);
    assert_ok(config_compare(&config, saved, record_difference, &differences, &err), &err);
    assert_int_equal(differences.count, 0);
    assert_ok(parse(str_text(&text), "data.train[1].weight=2", &reparsed, &err), &err);
    assert_int_equal(reparsed.data.train.sources[1].weight, 2000000);
    assert_ok(config_compare(&reparsed, saved, record_difference, &differences, &err), &err);
    assert_int_equal(differences.count, 1);
    assert_string_equal(differences.last, "data.train");
    jsonx_free(saved);
    assert_ok(
        parse(str_text(&text), "data.train=[{path: x}, {path: y, weight: 7}]", &reparsed, &err),
        &err);
    assert_int_equal(reparsed.data.train.count, 2);
    assert_string_equal(reparsed.data.train.sources[1].path, "y");
    assert_ok(parse(str_text(&text), "data.train[3].path=z", &reparsed, &err), &err);
    assert_int_equal(reparsed.data.train.count, 4);
    assert_ok(parse(str_text(&text), "data.train=x", &reparsed, &err), &err);
    assert_int_equal(reparsed.data.train.count, 1);
    str_deinit(&text);
    str_deinit(&json);
}

#define TWO_DATASETS "run: {steps: 5}\ndata:\n  train:\n  - {path: a}\n  - path: b\n    "

static void wrong_mixes_are_reported_with_their_line(void **state)
{
    (void)state;
    expect_refusal(TWO_DATASETS "weight: much\n", NULL, "data.train[1].weight at line 6",
                   "a number above 0");
    expect_refusal(TWO_DATASETS "weight: 0\n", NULL, "data.train[1].weight at line 6", NULL);
    expect_refusal(TWO_DATASETS "weigth: 2\n", NULL, "data.train[1].weigth at line 6",
                   "did you mean weight");
    expect_refusal(TWO_DATASETS "weight: [2]\n", NULL, "data.train[1].weight at line 6", NULL);
    expect_refusal(TWO_DATASETS "weight: 0.333333\n", NULL, "too fine-grained at line 3",
                   "the nearest are");
    expect_refusal("run: {steps: 5}\ndata: {train: [{path: a}, {weight: 2}]}\n", NULL,
                   "data.train[1].path is not set at line 2", NULL);
    expect_refusal("run: {steps: 5}\ndata: {train: [{path: a}, b]}\n", NULL, "a list mixes", NULL);
    expect_refusal("run: {steps: 5}\ndata: {train: []}\n", NULL,
                   "wrong value of data.train at line 2", "{path: text");
    expect_refusal("run: {steps: 5}\ndata: {train: {path: a}}\n", NULL,
                   "unknown key data.train.path", NULL);
    expect_refusal("run: {steps: 5}\n", NULL, "data.train is not set", NULL);
    expect_refusal(REQUIRED_KEYS "batch: [{global: 3}]\n", NULL, "batch at line 3", NULL);
    expect_refusal(REQUIRED_KEYS, "data.train[7].path=a", "unknown key data.train[7].path", NULL);
    expect_refusal(REQUIRED_KEYS, "data.train[0]=a", "unknown key data.train[0]", NULL);
}

static void wrong_keys_and_values_are_reported_with_their_line(void **state)
{
    (void)state;
    expect_refusal(REQUIRED_KEYS "optimiser:\n  lr: 1\n", NULL, "optimiser.lr at line 4",
                   "optimizer.lr");
    expect_refusal(REQUIRED_KEYS "batch:\n  micro: many\n", NULL, "batch.micro at line 4",
                   "a whole number");
    expect_refusal(REQUIRED_KEYS "batch:\n  micro: 0\n", NULL, "batch.micro at line 4", "from 1");
    expect_refusal(REQUIRED_KEYS "model: {type: lstm}\n", NULL, "model.type at line 3",
                   "one of vit, gpt2");
    expect_refusal(REQUIRED_KEYS, "model.heads", "--set needs key=value", NULL);
    expect_refusal(REQUIRED_KEYS, "model.head=3", "model.head", "model.heads");
    expect_refusal(REQUIRED_KEYS "run: {seed: 1}\n", NULL, "not valid YAML", "duplicate");
    expect_refusal("run: {steps: 5\n", NULL, "not valid YAML", "line");
    expect_refusal("- a\n- b\n", NULL, "mapping", NULL);
}

static void every_key_of_a_file_is_kept(void **state)
{
    (void)state;
    struct train_config config;
    struct err err;
    assert_ok(parse("# ours\n---\n" REQUIRED_KEYS "...\n# the end\n", NULL, &config, &err), &err);
    expect_refusal(REQUIRED_KEYS "---\nbatch: {micro: 8}\n", NULL, "one YAML document", "line 3");
    expect_refusal(REQUIRED_KEYS "...\nbatch: {micro: 8}\n", NULL, "one YAML document", "line 4");
    expect_refusal("%YAML 1.2\n---\n" REQUIRED_KEYS, NULL, "directives", "line 1");
    expect_refusal(REQUIRED_KEYS "%batch\n", NULL, "directives", "line 3");
}

static void invalid_utf8_is_refused_with_its_offset(void **state)
{
    (void)state;
    expect_refusal("%a\xf9"
                   "a: {train: x}\n",
                   NULL, "a.yaml at 2", "0xf9");
    expect_refusal("data: {train: \xed\xa0\x80}\n", NULL, "a.yaml at 14", "0xed");
    expect_refusal("data: {train: x\xc3", NULL, "a.yaml at 15", "0xc3");
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    expect_refusal("run: {steps: 5}\n", NULL, "data.train is not set", NULL);
    expect_refusal("data: {train: x}\n", NULL, "is not set", NULL);
    expect_refusal(REQUIRED_KEYS, "run.epochs=2", "both set at line 2 and by --set: a.yaml", NULL);
    expect_refusal(REQUIRED_KEYS, "batch.micro=7", "does not divide batch.global by --set: a.yaml",
                   NULL);
    expect_refusal(REQUIRED_KEYS "batch:\n  micro: 7\n", NULL, "batch.global at line 4: a.yaml",
                   NULL);
    expect_refusal(REQUIRED_KEYS "batch:\n  micro: 7\n  global: 16\n", NULL,
                   "at lines 4 and 5: a.yaml", NULL);
    expect_refusal(REQUIRED_KEYS "batch: {micro: 7, global: 16}\n", NULL, "at line 3: a.yaml",
                   NULL);
    expect_refusal(REQUIRED_KEYS "batch:\n  micro: 8\n", "batch.micro=7",
                   "batch.global by --set: a.yaml", NULL);
    expect_refusal(REQUIRED_KEYS "data.image:\n  scale: [1, 0.5]\n", NULL,
                   "is not in ascending order at line 4: a.yaml", NULL);
    expect_refusal(REQUIRED_KEYS "device: cpu\nprecision: {compute: bf16}\n", NULL,
                   "computes in fp32 only at lines 3 and 4: a.yaml", NULL);
    expect_refusal(REQUIRED_KEYS, "model.heads=7", "does not divide", NULL);
    expect_refusal(REQUIRED_KEYS, "model.patch=15", "does not divide", NULL);
    expect_refusal(REQUIRED_KEYS, "schedule.min_lr=1", "above optimizer.lr", NULL);
    expect_refusal(REQUIRED_KEYS, "precision.loss_scale.first=3",
                   "loss_scale.first is not a power of two", NULL);
    expect_refusal(REQUIRED_KEYS, "precision.loss_scale.least=12",
                   "loss_scale.least is not a power of two", NULL);
    expect_refusal(REQUIRED_KEYS "precision: {loss_scale: {first: 4, least: 8}}\n", NULL,
                   "is below", NULL);
    expect_refusal(REQUIRED_KEYS, "parallel.offload.params=true",
                   "parallel.offload.params needs a strategy", NULL);
}

/* Aliases from DeepSpeed and FSDP; the canonical name is printed and saved. */
static void aliases_of_a_strategy_are_accepted(void **state)
{
    static const char *const names[][2] = {{"no_shard", "ddp"},
                                           {"full_shard", "zero3"},
                                           {"deepspeed_stage_0", "ddp"},
                                           {"deepspeed_stage_1", "zero1"},
                                           {"deepspeed_stage_2", "zero2"},
                                           {"deepspeed_stage_3", "zero3"}};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char set[64];
        struct train_config config;
        struct err err;
        snprintf(set, sizeof set, "parallel.strategy=%s", names[i][0]);
        assert_ok(parse(REQUIRED_KEYS, set, &config, &err), &err);
        assert_string_equal(strategy_at(config.parallel.strategy)->name, names[i][1]);
    }
    expect_refusal(REQUIRED_KEYS, "parallel.strategy=deepspeed_stage_4", "parallel.strategy", NULL);
}

static void printed_configuration_reads_back_the_same(void **state)
{
    (void)state;
    struct train_config config, reparsed;
    struct err err;
    struct str yaml = {0};
    assert_ok(parse(REQUIRED_KEYS, "optimizer.lr=0.00123456789", &config, &err), &err);
    config_print(&config, &yaml);
    assert_ok(config_parse(yaml.data, yaml.bytes, "printed", NULL, 0, &reparsed, &err), &err);
    assert_memory_equal(&config, &reparsed, sizeof config);
    str_deinit(&yaml);
}

/* The manifest is corrupt: an invalid weight is printed unchanged. */
static void saved_weights_of_any_size_are_reported(void **state)
{
    (void)state;
    static const struct {
        const char *saved, *printed;
    } weights[] = {{"-1", "-1"},
                   {"-0.5", "-0.5"},
                   {"1e300", "1e+300"},
                   {"1000000000", "1e+09"},
                   {"-1e300", "-1e+300"},
                   {"999999999.25", "999999999.25"},
                   {"0", "0"}};
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) {
        char json[128], printed[128];
        struct json_t *saved;
        struct str text = {0};
        struct err err;
        snprintf(json, sizeof json, "[{\"path\":\"a\",\"weight\":%s}]", weights[i].saved);
        snprintf(printed, sizeof printed, "[{\"path\":\"a\",\"weight\":%s}]", weights[i].printed);
        assert_ok(jsonx_parse(json, strlen(json), "saved", 0, &saved, &err), &err);
        config_mix_print_saved(saved, &text);
        assert_string_equal(str_text(&text), printed);
        str_deinit(&text);
        jsonx_free(saved);
    }
}

static void comparing_saved_configurations_finds_exactly_the_changes(void **state)
{
    (void)state;
    struct train_config config;
    struct err err;
    struct str json = {0};
    assert_ok(parse(REQUIRED_KEYS, NULL, &config, &err), &err);
    config_print_json(&config, &json);
    struct json_t *saved;
    assert_ok(jsonx_parse(json.data, json.bytes, "saved", 0, &saved, &err), &err);
    struct differences differences = {0};
    assert_ok(config_compare(&config, saved, record_difference, &differences, &err), &err);
    assert_int_equal(differences.count, 0);
    assert_ok(parse(REQUIRED_KEYS, "optimizer.betas=[0.9, 0.951]", &config, &err), &err);
    assert_ok(config_compare(&config, saved, record_difference, &differences, &err), &err);
    assert_int_equal(differences.count, 1);
    assert_string_equal(differences.last, "optimizer.betas");
    jsonx_free(saved);
    str_deinit(&json);
}

static void every_field_has_a_default_that_it_accepts_and_a_help_text(void **state)
{
    (void)state;
    size_t count;
    const struct config_field *fields = config_fields(&count);
    for (size_t i = 0; i < count; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s=%s", fields[i].key, fields[i].default_text);
        struct train_config config;
        struct err err = {0};
        /* contradictions with missing keys are acceptable here, wrong values are not */
        int status = parse(REQUIRED_KEYS, text, &config, &err);
        if (status && strstr(err.what, "wrong value"))
            fail_msg("%s", text);
        assert_true(strlen(fields[i].help) > 10);
    }
}

static void schedules_warm_up_and_decay(void **state)
{
    (void)state;
    struct schedule cosine = {
        .type = SCHEDULE_COSINE, .lr = 1, .min_lr = 0.1, .warmup = 10, .steps = 110};
    assert_true(fabs(schedule_lr(&cosine, 0) - 0.1) < 1e-12);
    assert_true(fabs(schedule_lr(&cosine, 9) - 1) < 1e-12);
    assert_true(fabs(schedule_lr(&cosine, 10) - 1) < 1e-12);
    assert_true(fabs(schedule_lr(&cosine, 60) - 0.55) < 1e-12);
    assert_true(fabs(schedule_lr(&cosine, 110) - 0.1) < 1e-12);
    struct schedule linear = {
        .type = SCHEDULE_LINEAR, .lr = 1, .min_lr = 0, .warmup = 0, .steps = 100};
    assert_true(fabs(schedule_lr(&linear, 25) - 0.75) < 1e-12);
    struct schedule constant = {
        .type = SCHEDULE_CONSTANT, .lr = 1, .min_lr = 0, .warmup = 4, .steps = 100};
    assert_true(schedule_lr(&constant, 99) == 1);
    struct schedule epochs = {
        .type = SCHEDULE_COSINE, .lr = 1, .warmup = 2, .steps = 57, .unit_steps = 10};
    const double rates[] = {0.5, 1, 1, 0.8535533905932737, 0.5, 0.14644660940672624};
    for (uint64_t step = 0; step < 57; step++)
        assert_true(fabs(schedule_lr(&epochs, step) - rates[step / 10]) < 1e-12);
    struct schedule falling = {
        .type = SCHEDULE_WARMUP_LINEAR, .lr = 1, .min_lr = 0.5, .warmup = 10, .steps = 110};
    assert_true(fabs(schedule_lr(&falling, 4) - 0.5) < 1e-12);
    assert_true(fabs(schedule_lr(&falling, 60) - 0.5) < 1e-12);
    assert_true(fabs(schedule_lr(&falling, 110)) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_keys_have_defaults),
        cmocka_unit_test(values_of_all_kinds_are_read),
        cmocka_unit_test(training_data_may_be_a_mix),
        cmocka_unit_test(wrong_mixes_are_reported_with_their_line),
        cmocka_unit_test(wrong_keys_and_values_are_reported_with_their_line),
        cmocka_unit_test(every_key_of_a_file_is_kept),
        cmocka_unit_test(invalid_utf8_is_refused_with_its_offset),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(aliases_of_a_strategy_are_accepted),
        cmocka_unit_test(printed_configuration_reads_back_the_same),
        cmocka_unit_test(saved_weights_of_any_size_are_reported),
        cmocka_unit_test(comparing_saved_configurations_finds_exactly_the_changes),
        cmocka_unit_test(every_field_has_a_default_that_it_accepts_and_a_help_text),
        cmocka_unit_test(schedules_warm_up_and_decay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
