/*
 * ops_torch — tests the ops in double against torch (tests/oracle/ops.py), if installed.
 */
#include "tests/trainer/ops_case.h"

enum { ROWS = 70, COLS = 45, COUNT = ROWS * COLS, STEPS = 5 };

static char folder[TEST_PATH_BYTES_MAX];

static void *save(const char *name, void *values, size_t count)
{
    char path[TEST_PATH_BYTES_MAX + 80];
    snprintf(path, sizeof path, "%s/%.64s.f64", folder, name);
    test_write_file(path, values, count * sizeof(double));
    return values;
}

/* Documents of 17, 18, ... tokens, shifted for each item; malloc'ed. */
static int32_t *document_starts(const struct attn_shape *s)
{
    int32_t *starts = malloc(s->batch * s->tokens * sizeof *starts);
    for (uint64_t item = 0; item < s->batch; item++) {
        uint64_t start = 0, length = 17 + item;
        for (uint64_t t = 0; t < s->tokens; t++) {
            if (t - start == length) {
                start = t;
                length++;
            }
            starts[item * s->tokens + t] = (int32_t)start;
        }
    }
    return starts;
}

static void save_attention(struct ops *ops, const char *name, const struct attn_shape *s,
                           bool documents)
{
    size_t rows = s->batch * s->tokens, count = rows * (s->heads + 2 * s->kv_heads) * s->head_dim;
    size_t out_count = rows * s->heads * s->head_dim;
    double *qkv = ops_case_values(1, count, 2), *d_out = ops_case_values(2, out_count, 1);
    double *out = ops_case_blank(ops, out_count), *lse = ops_case_blank(ops, rows * s->heads);
    double *d_qkv = ops_case_blank(ops, count);
    int32_t *starts = documents ? document_starts(s) : NULL;
    struct err err;
    assert_ok(ops->table->plan_attn(ops, s, &err), &err);
    ops->table->attn_fwd(ops, s, out, lse, qkv, starts);
    ops->table->attn_bwd(ops, s, d_qkv, d_out, qkv, out, lse, starts, NULL);
    free(starts);
    const struct {
        const char *what;
        double *values;
        size_t count;
    } arrays[] = {{"qkv", qkv, count},
                  {"d_out", d_out, out_count},
                  {"out", out, out_count},
                  {"lse", lse, rows * s->heads},
                  {"d_qkv", d_qkv, count}};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        char file[64];
        snprintf(file, sizeof file, "%s.%s", name, arrays[i].what);
        free(save(file, arrays[i].values, arrays[i].count));
    }
}

static void save_norm_gelu_xent(struct ops *ops)
{
    const struct norm_shape shape = {NORM_LAYER, ROWS, COLS, 1e-5};
    const struct ops_table *table = ops->table;
    double *x = save("x", ops_case_values(3, COUNT, 3), COUNT),
           *d_out = save("d_out", ops_case_values(4, COUNT, 1), COUNT);
    double *weight = save("weight", ops_case_values(5, COLS, 1), COLS),
           *bias = save("bias", ops_case_values(6, COLS, 1), COLS);
    double out[COUNT], mean[ROWS], rstd[ROWS], d_x[COUNT] = {0}, d_weight[COLS], d_bias[COLS],
                                               targets[ROWS], correct[ROWS];
    table->norm_fwd(ops, &shape, out, mean, rstd, x, weight, bias);
    table->norm_bwd(ops, &shape, d_x, d_weight, d_bias, d_out, x, mean, rstd, weight, false);
    save("norm.out", out, COUNT), save("norm.d_x", d_x, COUNT);
    save("norm.d_weight", d_weight, COLS), save("norm.d_bias", d_bias, COLS);
    table->gelu_fwd(ops, out, x, COUNT);
    table->gelu_bwd(ops, d_x, d_out, x, COUNT);
    save("gelu.out", out, COUNT), save("gelu.d_x", d_x, COUNT);
    int32_t *ids = ops_case_ids(7, ROWS, COLS);
    uint8_t hits[ROWS];
    ids[0] = ids[33] = -1;
    table->xent(ops, &(struct xent_shape){ROWS, 1, 1, COLS, COLS}, x, mean, hits, ids, NULL,
                &(const double){1});
    for (int i = 0; i < ROWS; i++) {
        targets[i] = ids[i];
        correct[i] = hits[i];
    }
    save("xent.losses", mean, ROWS), save("xent.d_logits", x, COUNT);
    save("targets", targets, ROWS), save("xent.correct", correct, ROWS);
    free(x), free(d_out), free(weight), free(bias), free(ids);
}

static void save_mixed_xent(struct ops *ops)
{
    double *x = save("mixed.logits", ops_case_values(3, COUNT, 3), COUNT), losses[ROWS],
           labels[2][ROWS], parts[ROWS];
    int32_t *firsts = ops_case_ids(20, ROWS, COLS), *seconds = ops_case_ids(21, ROWS, COLS);
    float weights[ROWS];
    uint8_t hits[ROWS];
    seconds[5] = firsts[5];
    for (int i = 0; i < ROWS; i++) {
        parts[i] = (double)(weights[i] = (float)(i % 9) / 8);
        labels[0][i] = firsts[i];
        labels[1][i] = seconds[i];
    }
    ops->table->xent(ops, &(struct xent_shape){ROWS, 1, 1, COLS, COLS}, x, losses, hits, firsts,
                     &(struct xent_mix){seconds, weights}, &(const double){1});
    save("mixed.targets", labels[0], ROWS), save("mixed.seconds", labels[1], ROWS),
        save("mixed.parts", parts, ROWS);
    save("mixed.losses", losses, ROWS), save("mixed.d_logits", x, COUNT);
    free(x), free(firsts), free(seconds);
}

static void save_updates(struct ops *ops)
{
    static const struct {
        const char *name;
        enum update_rule rule;
        struct update_options options;
    } rules[] = {
        {"adamw",
         UPDATE_ADAMW,
         {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1}},
        {"sgd", UPDATE_SGD, {.momentum = 0.9, .weight_decay = 0.1}},
        {"nesterov", UPDATE_SGD, {.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}},
        {"plain_sgd", UPDATE_SGD, {.weight_decay = 0.1}},
        {"lion", UPDATE_LION, {.beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1}},
    };
    double *start = save("weight.start", ops_case_values(8, COUNT, 1), COUNT), *gradients[STEPS];
    uint8_t decays[(COUNT + OPS_DECAY_ELEMENTS - 1) / OPS_DECAY_ELEMENTS];
    char name[64];
    memset(decays, 1, sizeof decays);
    for (int step = 0; step < STEPS; step++) {
        snprintf(name, sizeof name, "gradient.%d", step + 1);
        gradients[step] = save(name, ops_case_values(9 + (uint64_t)step, COUNT, 1), COUNT);
    }
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        double w[COUNT], m[COUNT] = {0}, v[COUNT] = {0};
        memcpy(w, start, sizeof w);
        for (int step = 1; step <= STEPS; step++) {
            const struct update_scalars scalars = {
                1e-2, 1 / (1 - pow(0.9, step)), 1 / (1 - pow(0.95, step)), 1.0 / 8, 0.1, false};
            const struct update_arrays arrays = {w, NULL, m, v, gradients[step - 1], decays, COUNT};
            ops->table->update(ops, rules[i].rule, &rules[i].options, &arrays, &scalars);
        }
        snprintf(name, sizeof name, "%s.params", rules[i].name), save(name, w, COUNT);
        snprintf(name, sizeof name, "%s.m", rules[i].name), save(name, m, COUNT);
        snprintf(name, sizeof name, "%s.v", rules[i].name), save(name, v, COUNT);
    }
    for (int step = 0; step < STEPS; step++)
        free(gradients[step]);
    free(start);
}

static void ops_match_torch(void **state)
{
    (void)state;
    const char *python = test_need_python("torch");
    test_make_folder(folder);
    struct ops *ops = ops_case_open(DTYPE_F64, 2);
    save_attention(ops, "full", &(struct attn_shape){2, 100, 4, 4, 12, false}, false);
    save_attention(ops, "causal", &(struct attn_shape){2, 97, 4, 2, 8, true}, false);
    save_attention(ops, "documents", &(struct attn_shape){2, 97, 4, 2, 8, true}, true);
    save_norm_gelu_xent(ops);
    save_mixed_xent(ops);
    save_updates(ops);
    ops_close(ops);
    assert_int_equal(test_run("OMP_NUM_THREADS=1 '%s' '%s/tests/oracle/ops.py' '%s'", python,
                              TEST_SOURCE_DIR, folder),
                     0);
    test_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_match_torch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
