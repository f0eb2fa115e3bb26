/*
 * ops_case — see ops_case.h.
 */
#include "tests/trainer/ops_case.h"

#include "base/philox.h"

struct ops *ops_case_open(enum dtype compute, unsigned threads)
{
    struct ops *ops;
    struct err err;
    assert_ok(ops_cpu_open(NULL, compute, threads, &ops, &err), &err);
    return ops;
}

double *ops_case_values(uint64_t seed, size_t count, double scale)
{
    double *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = (double)(float)((2 * philox_uniform(philox(seed, 0, i).word[0]) - 1) * scale);
    return values;
}

void *ops_case_from_doubles(const struct ops *ops, const double *values, size_t count)
{
    void *real = malloc(count * ops_compute_bytes(ops));
    assert_non_null(real);
    for (size_t i = 0; i < count; i++) {
        if (ops->compute == DTYPE_F32)
            ((float *)real)[i] = (float)values[i];
        else
            ((double *)real)[i] = values[i];
    }
    return real;
}

void *ops_case_random(const struct ops *ops, uint64_t seed, size_t count, double scale)
{
    double *values = ops_case_values(seed, count, scale);
    void *real = ops_case_from_doubles(ops, values, count);
    free(values);
    return real;
}

void *ops_case_blank(const struct ops *ops, size_t count)
{
    void *real = malloc(count * ops_compute_bytes(ops));
    assert_non_null(real);
    memset(real, 0xff, count * ops_compute_bytes(ops)); /* a NaN in either type */
    return real;
}

double *ops_case_to_doubles(const struct ops *ops, const void *real, size_t count)
{
    double *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = ops->compute == DTYPE_F32 ? (double)((const float *)real)[i]
                                              : ((const double *)real)[i];
    return values;
}

int32_t *ops_case_ids(uint64_t seed, size_t count, uint32_t bound)
{
    int32_t *ids = malloc(count * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)(philox(seed, 0, i).word[0] % bound);
    return ids;
}

void ops_case_assert_near(const char *what, const double *found, const double *expected,
                          size_t count, double tolerance)
{
    for (size_t i = 0; i < count; i++) {
        if (fabs(found[i] - expected[i]) <= tolerance * (1 + fabs(expected[i])))
            continue;
        print_error("%s: element %zu of %zu is %.17g, expected %.17g\n", what, i, count, found[i],
                    expected[i]);
        fail();
    }
}

static void *add_output(struct ops_case_run *run, const char *name, void *data, size_t count,
                        size_t element_bytes, bool is_real)
{
    assert_true(run->count < OPS_CASE_OUTPUTS_MAX);
    run->outputs[run->count++] =
        (struct ops_case_output){name, data, count, element_bytes, is_real};
    return data;
}

static void *add_blank_output(struct ops *ops, struct ops_case_run *run, const char *name,
                              size_t count)
{
    return add_output(run, name, ops_case_blank(ops, count), count, ops_compute_bytes(ops), true);
}

static void *add_random_output(struct ops *ops, struct ops_case_run *run, const char *name,
                               uint64_t seed, size_t count)
{
    return add_output(run, name, ops_case_random(ops, seed, count, 1), count,
                      ops_compute_bytes(ops), true);
}

static void run_gemm(struct ops *ops, struct ops_case_run *run, const char *name,
                     const struct gemm_shape *shape)
{
    struct gemm_plan plan;
    struct err err;
    assert_ok(ops->table->plan_gemm(ops, shape, &plan, &err), &err);
    void *a = ops_case_random(ops, 1, shape->m * shape->k, 1),
         *b = ops_case_random(ops, 2, shape->k * shape->n, 1);
    void *bias = ops_case_random(ops, 3, shape->n, 1);
    void *c = add_random_output(ops, run, name, 4, shape->m * shape->n);
    ops->table->gemm(ops, &plan, a, b, bias, c);
    free(a), free(b), free(bias);
}

static void run_gemms(struct ops *ops, struct ops_case_run *run)
{
    run_gemm(ops, run, "gemm",
             &(struct gemm_shape){.m = 1037, .n = 93, .k = 71, .trans_b = true, .bias = true});
    run_gemm(ops, run, "gemm small", &(struct gemm_shape){.m = 3, .n = 5, .k = 7});
    run_gemm(ops, run, "gemm split", /* m and n small, k long: the sum is split */
             &(struct gemm_shape){.m = 67, .n = 129, .k = 2063, .trans_a = true});
    run_gemm(
        ops, run, "gemm split, accumulated",
        &(struct gemm_shape){.m = 67, .n = 129, .k = 2063, .trans_a = true, .accumulate = true});
    run_gemm(ops, run, "gemm of columns",
             &(struct gemm_shape){.m = 33, .n = 1601, .k = 400, .bias = true, .accumulate = true});
}

static void run_norm(struct ops *ops, struct ops_case_run *run, enum norm_kind kind)
{
    const struct norm_shape shape = {kind, 517, 101, 1e-5};
    size_t count = shape.rows * shape.cols;
    const struct ops_table *table = ops->table;
    void *x = ops_case_random(ops, 5, count, 2), *weight = ops_case_random(ops, 6, shape.cols, 1);
    void *bias = ops_case_random(ops, 7, shape.cols, 1), *d_out = ops_case_random(ops, 8, count, 1);
    void *mean = ops_case_random(ops, 9, shape.rows, 1); /* RMSNorm does not write it */
    void *out = add_blank_output(ops, run, "norm_fwd", count),
         *rstd = add_blank_output(ops, run, "norm rstd", shape.rows);
    void *d_x = add_random_output(ops, run, "norm_bwd d_x", 10, count);
    void *d_weight = add_random_output(ops, run, "norm_bwd d_weight", 11, shape.cols);
    void *d_bias = add_random_output(ops, run, "norm_bwd d_bias", 12, shape.cols);
    table->norm_fwd(ops, &shape, out, mean, rstd, x, weight, kind == NORM_LAYER ? bias : NULL);
    table->norm_bwd(ops, &shape, d_x, d_weight, kind == NORM_LAYER ? d_bias : NULL, d_out, x, mean,
                    rstd, weight, kind == NORM_LAYER);
    table->bias_bwd(ops, add_random_output(ops, run, "bias_bwd", 13, shape.cols), d_out, shape.rows,
                    shape.cols, true);
    free(x), free(weight), free(bias), free(d_out), free(mean);
}

static void run_attention(struct ops *ops, struct ops_case_run *run, const struct attn_shape *shape)
{
    struct err err;
    assert_ok(ops->table->plan_attn(ops, shape, &err), &err);
    size_t rows = shape->batch * shape->tokens,
           count = rows * (shape->heads + 2 * shape->kv_heads) * shape->head_dim;
    size_t out_count = rows * shape->heads * shape->head_dim;
    void *qkv = add_random_output(ops, run, "rope", 14, count),
         *d_out = ops_case_random(ops, 15, out_count, 1);
    void *out = add_blank_output(ops, run, "attn_fwd", out_count);
    void *lse = add_blank_output(ops, run, "attn_fwd lse", rows * shape->heads);
    void *d_qkv = add_blank_output(ops, run, "attn_bwd", count);
    void *scratch =
        malloc(ops->table->attn_bwd_scratch_elements(ops, shape) * ops_master_bytes(ops) + 1);
    ops->table->rope(ops, shape, qkv, &(struct rope_spec){.base = 10000}, false);
    ops->table->attn_fwd(ops, shape, out, lse, qkv, NULL);
    ops->table->attn_bwd(ops, shape, d_qkv, d_out, qkv, out, lse, NULL, scratch);
    ops->table->rope(ops, shape, d_qkv, &(struct rope_spec){.base = 10000}, true);
    free(d_out), free(scratch);
}

static void run_pointwise(struct ops *ops, struct ops_case_run *run)
{
    const struct ops_table *table = ops->table;
    enum { ROWS = 203, COLS = 211, COUNT = ROWS * COLS };
    void *x = ops_case_random(ops, 16, 2 * COUNT, 8), *y = ops_case_random(ops, 17, COUNT, 1);
    table->gelu_fwd(ops, add_blank_output(ops, run, "gelu_fwd", COUNT), x, COUNT);
    table->gelu_bwd(ops, add_blank_output(ops, run, "gelu_bwd", COUNT), y, x, COUNT);
    table->swiglu_fwd(ops, add_blank_output(ops, run, "swiglu_fwd", COUNT), x, ROWS, COLS);
    table->swiglu_bwd(ops, add_blank_output(ops, run, "swiglu_bwd", 2 * COUNT), y, x, ROWS, COLS);
    table->add(ops, add_blank_output(ops, run, "add", COUNT), x, y, COUNT);
    table->tree_add(ops, add_random_output(ops, run, "tree_add", 18, COUNT), y, COUNT);
    double *sums =
        add_output(run, "row_sumsq", malloc(ROWS * sizeof *sums), ROWS, sizeof *sums, false);
    table->row_sumsq(ops, sums, y, ROWS, COLS);
    const struct update_options adamw = {.beta1 = 0.9,
                                         .beta2 = 0.95,
                                         .epsilon = 1e-8,
                                         .weight_decay = 0.1},
                                sgd = {.momentum = 0.9, .weight_decay = 0.1, .nesterov = true},
                                plain = {.weight_decay = 0.1};
    const struct update_scalars scalars = {1e-3, 1 / 0.271, 1 / 0.142625, 0.25, 0.2, false};
    void *params = add_random_output(ops, run, "adamw params", 19, COUNT),
         *m = add_random_output(ops, run, "adamw m", 20, COUNT);
    double *squares = ops_case_values(21, COUNT, 1);
    for (size_t i = 0; i < COUNT; i++)
        squares[i] = fabs(squares[i]);
    void *v = add_output(run, "adamw v", ops_case_from_doubles(ops, squares, COUNT), COUNT,
                         ops_compute_bytes(ops), true);
    uint8_t decays[(COUNT + OPS_DECAY_ELEMENTS - 1) / OPS_DECAY_ELEMENTS];
    for (size_t i = 0; i < sizeof decays; i++)
        decays[i] = i / 7 % 2;
    struct update_arrays arrays = {params, NULL, m, v, y, decays, COUNT};
    table->update(ops, UPDATE_ADAMW, &adamw, &arrays, &scalars);
    arrays.params = add_random_output(ops, run, "sgd params", 22, COUNT);
    arrays.moment1 = add_random_output(ops, run, "sgd m", 23, COUNT);
    table->update(ops, UPDATE_SGD, &sgd, &arrays, &scalars);
    arrays.params = add_random_output(ops, run, "plain sgd params", 24, COUNT);
    table->update(ops, UPDATE_SGD, &plain, &arrays, &scalars);
    free(x), free(y), free(squares);
}

static void run_rows(struct ops *ops, struct ops_case_run *run)
{
    const struct ops_table *table = ops->table;
    enum {
        ITEMS = 7,
        TOKENS = 33,
        STRIDE = 34,
        COLS = 131,
        VOCABULARY = 29,
        ROWS = ITEMS * TOKENS,
        COUNT = ROWS * COLS
    };
    void *x = ops_case_random(ops, 22, COUNT, 1),
         *entries = ops_case_random(ops, 23, VOCABULARY * COLS, 1);
    void *positions = ops_case_random(ops, 24, TOKENS * COLS, 1);
    int32_t *ids = ops_case_ids(25, ITEMS * STRIDE, VOCABULARY);
    table->embed_fwd(ops, add_blank_output(ops, run, "embed_fwd", COUNT), ids, STRIDE, entries,
                     positions, ITEMS, TOKENS, COLS);
    void *d_table = add_blank_output(ops, run, "embed_bwd", VOCABULARY * COLS);
    table->embed_bwd(ops, d_table, x, ids, STRIDE, NULL, ITEMS, TOKENS, COLS, VOCABULARY, false);
    table->positions_fwd(ops, add_blank_output(ops, run, "positions_fwd", COUNT), x, positions,
                         ITEMS, TOKENS, COLS);
    table->positions_bwd(ops, add_random_output(ops, run, "positions_bwd", 26, TOKENS * COLS), x,
                         ITEMS, TOKENS, COLS, true);
    table->pool_fwd(ops, add_blank_output(ops, run, "pool_fwd", ITEMS * COLS), x, ITEMS, TOKENS,
                    COLS);
    table->pool_bwd(ops, add_blank_output(ops, run, "pool_bwd", COUNT), x, ITEMS, TOKENS, COLS);
    uint8_t images[ITEMS * 12 * 12 * 3];
    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)philox(27, 0, i).word[0];
    const float mean[3] = {0.485f, 0.456f, 0.406f}, deviation[3] = {0.229f, 0.224f, 0.225f};
    table->patches(ops, add_blank_output(ops, run, "patches", sizeof images), images, ITEMS, 12, 4,
                   mean, deviation);
    double *losses =
        add_output(run, "xent losses", malloc(ROWS * sizeof *losses), ROWS, sizeof *losses, false);
    uint8_t *correct = add_output(run, "xent correct", malloc(ROWS), ROWS, 1, false);
    for (size_t i = 0; i < ITEMS * STRIDE; i += 5)
        ids[i] = -1;
    table->xent(ops, &(struct xent_shape){ITEMS, TOKENS, STRIDE, COLS, COLS},
                add_random_output(ops, run, "xent", 28, COUNT), losses, correct, ids, NULL,
                &(const double){1});
    int32_t *seconds = ops_case_ids(29, ITEMS * STRIDE, VOCABULARY);
    float weights[ITEMS * STRIDE];
    for (size_t i = 0; i < ITEMS * STRIDE; i++)
        weights[i] = (float)(i % 11) / 10;
    table->xent(ops, &(struct xent_shape){ITEMS, TOKENS, STRIDE, COLS, COLS},
                add_random_output(ops, run, "xent of two targets", 28, COUNT),
                add_output(run, "losses of two targets", malloc(ROWS * sizeof *losses), ROWS,
                           sizeof *losses, false),
                correct, ids, &(struct xent_mix){seconds, weights}, &(const double){1});
    free(x), free(entries), free(positions), free(ids), free(seconds);
}

void ops_case_run_all(struct ops *ops, struct ops_case_run *run)
{
    run->count = 0;
    run_gemms(ops, run);
    run_norm(ops, run, NORM_LAYER);
    run_norm(ops, run, NORM_RMS);
    run_attention(ops, run, &(struct attn_shape){3, 37, 4, 4, 10, false});
    run_attention(ops, run, &(struct attn_shape){2, 173, 6, 2, 12, true});
    run_pointwise(ops, run);
    run_rows(ops, run);
    struct err err;
    assert_ok(ops->table->sync(ops, &err), &err);
}

void ops_case_run_deinit(struct ops_case_run *run)
{
    for (size_t i = 0; i < run->count; i++)
        free(run->outputs[i].data);
    run->count = 0;
}
