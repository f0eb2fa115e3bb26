/*
 * ops_products — tests products, attention and rotary positions against naive loops in double.
 */
#include "tests/trainer/ops_case.h"

static const double TOLERANCE = 1e-12;

static void check_gemm(struct ops *ops, const struct gemm_shape *s)
{
    double *a = ops_case_values(1, s->m * s->k, 1), *b = ops_case_values(2, s->k * s->n, 1);
    double *bias = ops_case_values(3, s->n, 1), *c = ops_case_values(4, s->m * s->n, 1);
    double *expected = malloc(s->m * s->n * sizeof *expected);
    for (uint64_t i = 0; i < s->m; i++) {
        for (uint64_t j = 0; j < s->n; j++) {
            double sum = (s->accumulate ? c[i * s->n + j] : 0) + (s->bias ? bias[j] : 0);
            for (uint64_t l = 0; l < s->k; l++)
                sum += a[s->trans_a ? l * s->m + i : i * s->k + l] *
                       b[s->trans_b ? j * s->k + l : l * s->n + j];
            expected[i * s->n + j] = sum;
        }
    }
    if (!s->accumulate)
        /* fill with NaN: C's previous values must not matter */
        memset(c, 0xff, s->m * s->n * sizeof *c);
    struct gemm_plan plan;
    struct err err;
    assert_ok(ops->table->plan_gemm(ops, s, &plan, &err), &err);
    ops->table->gemm(ops, &plan, a, b, s->bias ? bias : NULL, c);
    ops_case_assert_near("gemm", c, expected, s->m * s->n, TOLERANCE);
    free(a), free(b), free(bias), free(c), free(expected);
}

/* Small, one row or column, many row tiles, column tiles, and a split inner dimension. */
static const uint64_t SIZES[][3] = {{1, 1, 1},      {5, 3, 7},       {1, 130, 17},  {130, 1, 33},
                                    {1100, 37, 61}, {77, 1203, 150}, {50, 70, 2300}};

static void products_match_their_definition(void **state)
{
    (void)state;
    struct ops *ops = ops_case_open(DTYPE_F64, 2);
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        for (unsigned bits = 0; bits < 16; bits++) {
            struct gemm_shape shape = {.m = SIZES[i][0], .n = SIZES[i][1], .k = SIZES[i][2]};
            shape.trans_a = bits & 1;
            shape.trans_b = bits & 2;
            shape.bias = bits & 4;
            shape.accumulate = bits & 8;
            check_gemm(ops, &shape);
        }
    }
    ops_close(ops);
}

static const struct attn_shape ATTENTIONS[] = {
    {2, 1, 2, 2, 4, true},   {2, 7, 3, 3, 5, false},    {2, 7, 4, 2, 6, true},
    {1, 83, 2, 1, 8, false}, {1, 197, 6, 3, 16, false}, {2, 200, 4, 4, 12, true},
};

/* Computes one query of one head. */
static void attend(const struct attn_shape *s, const double *qkv, uint64_t batch, uint64_t head,
                   uint64_t query, double *out, double *lse)
{
    uint64_t width = (s->heads + 2 * s->kv_heads) * s->head_dim, group = s->heads / s->kv_heads;
    const double *q = qkv + (batch * s->tokens + query) * width + head * s->head_dim;
    uint64_t keys = s->causal ? query + 1 : s->tokens;
    double *weights = malloc(keys * sizeof *weights), max = -INFINITY, sum = 0;
    for (uint64_t key = 0; key < keys; key++) {
        const double *k =
            qkv + (batch * s->tokens + key) * width + (s->heads + head / group) * s->head_dim;
        double dot = 0;
        for (uint64_t d = 0; d < s->head_dim; d++)
            dot += q[d] * k[d];
        weights[key] = dot / sqrt((double)s->head_dim);
        max = fmax(max, weights[key]);
    }
    for (uint64_t key = 0; key < keys; key++)
        sum += exp(weights[key] - max);
    *lse = max + log(sum);
    memset(out, 0, s->head_dim * sizeof *out);
    for (uint64_t key = 0; key < keys; key++) {
        const double *v = qkv + (batch * s->tokens + key) * width +
                          (s->heads + s->kv_heads + head / group) * s->head_dim;
        for (uint64_t d = 0; d < s->head_dim; d++)
            out[d] += exp(weights[key] - *lse) * v[d];
    }
    free(weights);
}

static void attention_matches_its_definition(void **state)
{
    (void)state;
    struct ops *ops = ops_case_open(DTYPE_F64, 2);
    for (size_t i = 0; i < sizeof ATTENTIONS / sizeof ATTENTIONS[0]; i++) {
        const struct attn_shape *s = &ATTENTIONS[i];
        uint64_t rows = s->batch * s->tokens, out_count = rows * s->heads * s->head_dim;
        double *qkv = ops_case_values(5, rows * (s->heads + 2 * s->kv_heads) * s->head_dim, 2);
        double *out = ops_case_blank(ops, out_count), *lse = ops_case_blank(ops, rows * s->heads);
        double *expected_out = malloc(out_count * sizeof(double)),
               *expected_lse = malloc(rows * s->heads * sizeof(double));
        for (uint64_t batch = 0; batch < s->batch; batch++)
            for (uint64_t head = 0; head < s->heads; head++)
                for (uint64_t query = 0; query < s->tokens; query++)
                    attend(s, qkv, batch, head, query,
                           expected_out +
                               ((batch * s->tokens + query) * s->heads + head) * s->head_dim,
                           expected_lse + (batch * s->heads + head) * s->tokens + query);
        struct err err;
        assert_ok(ops->table->plan_attn(ops, s, &err), &err);
        ops->table->attn_fwd(ops, s, out, lse, qkv, NULL);
        ops_case_assert_near("attention", out, expected_out, out_count, TOLERANCE);
        ops_case_assert_near("log-sum-exp", lse, expected_lse, rows * s->heads, TOLERANCE);
        free(qkv), free(out), free(lse), free(expected_out), free(expected_lse);
    }
    ops_close(ops);
}

static void attention_with_huge_scores_is_finite(void **state)
{
    (void)state;
    struct ops *ops = ops_case_open(DTYPE_F32, 1);
    const struct attn_shape shape = {1, 5, 1, 1, 4, true};
    struct err err;
    assert_ok(ops->table->plan_attn(ops, &shape, &err), &err);
    float qkv[5 * 12], out[5 * 4], lse[5], d_out[5 * 4], d_qkv[5 * 12];
    for (int i = 0; i < 60; i++)
        qkv[i] = i % 12 < 8 ? (float)(i % 7 - 3) * 1000 : 1;
    for (int i = 0; i < 20; i++)
        d_out[i] = 1;
    ops->table->attn_fwd(ops, &shape, out, lse, qkv, NULL);
    ops->table->attn_bwd(ops, &shape, d_qkv, d_out, qkv, out, lse, NULL, NULL);
    for (int i = 0; i < 20; i++)
        assert_true(out[i] == 1); /* a weighted mean of ones is one */
    for (int i = 0; i < 60; i++)
        assert_true(isfinite(d_qkv[i]));
    ops_close(ops);
}

static void rope_rotates_pairs_and_its_gradient_rotates_back(void **state)
{
    (void)state;
    struct ops *ops = ops_case_open(DTYPE_F64, 2);
    const struct attn_shape s = {2, 9, 4, 2, 6, true};
    uint64_t width = 8 * 6, count = 18 * width;
    double *qkv = ops_case_values(6, count, 1), *expected = malloc(count * sizeof *expected);
    double *original = malloc(count * sizeof *original);
    memcpy(expected, qkv, count * sizeof *expected);
    memcpy(original, qkv, count * sizeof *original);
    for (uint64_t row = 0; row < 18; row++) {
        for (uint64_t head = 0; head < 6; head++) { /* only q and k are rotated; v is unchanged */
            double *x = expected + row * width + head * 6;
            for (int i = 0; i < 3; i++) {
                double angle = (double)(row % 9) / pow(500, i / 3.0), low = x[i], high = x[i + 3];
                x[i] = low * cos(angle) - high * sin(angle);
                x[i + 3] = high * cos(angle) + low * sin(angle);
            }
        }
    }
    ops->table->rope(ops, &s, qkv, &(struct rope_spec){.base = 500}, false);
    ops_case_assert_near("rope", qkv, expected, count, TOLERANCE);
    ops->table->rope(ops, &s, qkv, &(struct rope_spec){.base = 500}, true);
    ops_case_assert_near("rope and back", qkv, original, count, TOLERANCE);
    free(qkv), free(expected), free(original);
    ops_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_match_their_definition),
        cmocka_unit_test(attention_matches_its_definition),
        cmocka_unit_test(attention_with_huge_scores_is_finite),
        cmocka_unit_test(rope_rotates_pairs_and_its_gradient_rotates_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
