/*
 * head — tests that computing logits a few rows at a time, as for large vocabularies, gives the
 * same losses and gradients as computing all at once.
 */
#include "tests/cuda_on_cpu/order.h"
#include "tests/trainer/cuda/cuda_case.h"

#include "base/philox.h"
#include "trainer/models/model.h"

#include <stdlib.h>
#include <string.h>

enum { ITEMS = 3, BLOCK = 7, ROWS = ITEMS * BLOCK, VOCABULARY = 21 };

static const struct model_config GPT2 = {.type = MODEL_GPT2,
                                         .layers = 1,
                                         .heads = 2,
                                         .width = 16,
                                         .mlp_ratio = 2,
                                         .language.block = BLOCK,
                                         .language.vocabulary = VOCABULARY};
static const struct model_config LLAMA = {.type = MODEL_LLAMA,
                                          .layers = 1,
                                          .heads = 2,
                                          .width = 16,
                                          .mlp_width = 24,
                                          .language.block = BLOCK,
                                          .language.vocabulary = VOCABULARY,
                                          .language.rope_base = 10000,
                                          .language.norm_epsilon = 1e-5};

/* The results of a forward and a backward pass; malloc'ed. */
struct outcome {
    size_t elements;
    double *gradients;   /* [elements] */
    double *losses;      /* [ROWS] */
    uint8_t *correct;    /* [ROWS] */
    bool has_all_logits; /* in memory at once */
};

static void outcome_deinit(struct outcome *outcome)
{
    free(outcome->gradients);
    free(outcome->losses);
    free(outcome->correct);
}

/* Sorts rows by token, then by row. */
static void order_rows(const int32_t *tokens, int32_t *rows_by_token)
{
    int count = 0;
    for (int token = 0; token < VOCABULARY; token++)
        for (int row = 0; row < ROWS; row++)
            if (tokens[row / BLOCK * (BLOCK + 1) + row % BLOCK] == token)
                rows_by_token[count++] = row;
    assert_int_equal(count, ROWS);
}

static void *make_weights(const struct params *params, struct ops *ops)
{
    double *values = calloc(params->elements, sizeof *values);
    assert_non_null(values);
    params_init_values(params, 3, DTYPE_F64, values);
    void *weights = cuda_case_array(ops->compute, values, params->elements);
    free(values);
    return weights;
}

static void run_pass(struct model *model, struct ops *ops, struct outcome *outcome)
{
    static const double one = 1;
    const struct model_stage stage = {0, 1, true, true};
    const struct params *params = model_params(model);
    int32_t tokens[ITEMS * (BLOCK + 1)], rows_by_token[ROWS];
    struct err err;
    for (int i = 0; i < ITEMS * (BLOCK + 1); i++)
        tokens[i] = (int32_t)(philox(7, 3, (uint64_t)i).word[0] % VOCABULARY);
    order_rows(tokens, rows_by_token);
    double *zeros = calloc(params->trained_elements, sizeof *zeros);
    assert_non_null(zeros);
    void *weights = make_weights(params, ops);
    void *gradients = cuda_case_array(DTYPE_F32, zeros, params->trained_elements);
    void *losses = cuda_case_blank(DTYPE_F64, ROWS), *correct = cuda_case_bytes(zeros, ROWS);
    void *scale = cuda_case_bytes(&one, sizeof one), *ids = cuda_case_bytes(tokens, sizeof tokens),
         *rows = cuda_case_bytes(rows_by_token, sizeof rows_by_token);
    const struct model_activations activations = {
        .memory =
            cuda_case_blank(DTYPE_F32, model_activation_bytes(model, &stage) / sizeof(float))};
    const struct model_memory memory = {.weights = weights, .gradients = gradients};
    const struct model_input input = {
        .language.tokens = ids, .language.rows_by_token = rows, .loss_scale = scale};
    const struct model_result result = {losses, correct};
    /* the ops' stream does not wait until the arrays are initialized */
    cuda_ok(cudaDeviceSynchronize());
    model_forward(model, &stage, &memory, &activations, &input, NULL, NULL, NULL);
    model_backward(model, &stage, &memory, &activations, &input, &result, NULL, NULL);
    assert_ok(ops->table->sync(ops, &err), &err);
    *outcome = (struct outcome){
        .elements = params->trained_elements,
        .gradients = cuda_case_read(DTYPE_F32, gradients, params->trained_elements),
        .losses = cuda_case_read_bytes(losses, ROWS * sizeof(double)),
        .correct = cuda_case_read_bytes(correct, ROWS),
        .has_all_logits = model_logits(model, &stage, &activations) != NULL};
    void *const arrays[] = {weights, gradients, losses, correct,
                            scale,   ids,       rows,   activations.memory};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        cuda_case_free(arrays[i]);
    free(zeros);
}

static void compute_outcome(const struct model_config *plain, uint32_t head_rows,
                            enum dtype compute, struct outcome *outcome)
{
    struct model_config config = *plain;
    struct device *device;
    struct model *model;
    struct ops *ops;
    struct err err;
    config.language.head_rows = head_rows;
    assert_ok(device_open("cuda", &device, &err), &err);
    assert_ok(ops_open(device, compute, 0, &ops, &err), &err);
    assert_ok(model_open(&config, ops, ITEMS, &model, &err), &err);
    run_pass(model, ops, outcome);
    model_close(model);
    ops_close(ops);
    device_close(device);
}

/* Chunks of part of an item, with a remainder; one item; several items, with a remainder. */
static void assert_chunks_agree(const struct model_config *config, enum dtype compute,
                                double tolerance)
{
    static const uint32_t pieces[] = {1, BLOCK - 1, BLOCK, 2 * BLOCK + 1};
    struct outcome whole, cut;
    compute_outcome(config, 0, compute, &whole);
    assert_true(whole.has_all_logits);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        compute_outcome(config, pieces[i], compute, &cut);
        assert_false(cut.has_all_logits);
        double gradients = cuda_case_max_error(cut.gradients, whole.gradients, whole.elements);
        double losses = cuda_case_max_error(cut.losses, whole.losses, ROWS);
        if (!(gradients <= tolerance && losses <= tolerance))
            fail_msg("%u rows at a time: gradients differ by %.3g, losses by %.3g", pieces[i],
                     gradients, losses);
        assert_memory_equal(cut.correct, whole.correct, ROWS);
        outcome_deinit(&cut);
    }
    outcome_deinit(&whole);
}

static void logits_can_be_computed_a_few_rows_at_a_time(void **state)
{
    (void)state;
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        assert_chunks_agree(&GPT2, DTYPE_F32, 1e-5);
        assert_chunks_agree(&LLAMA, DTYPE_F32, 1e-5);
        assert_chunks_agree(&GPT2, DTYPE_BF16, 2e-2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_can_be_computed_a_few_rows_at_a_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
