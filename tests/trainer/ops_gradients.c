/*
 * ops_gradients — tests every backward op against central differences of its forward op, in double.
 *
 * With weights u on the outputs, f(x) = sum of u * op(x) has the gradient that the backward op
 * computes for d_out = u. Its slope is checked along random directions through all inputs at once,
 * and along each coordinate if there are few.
 */
#include "tests/trainer/ops_case.h"

static const double STEP = 1e-5, TOLERANCE = 2e-9, ONE = 1;

enum { DIRECTIONS = 12 };

/* One op, with count inputs x and out_count outputs. */
struct op_under_test {
    struct ops *ops;
    const void *shape;
    size_t count, out_count;
    void (*forward)(const struct op_under_test *op, const double *x, double *out);
    void (*backward)(const struct op_under_test *op, const double *x, const double *d_out,
                     double *d_x);
};

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static double weighted_output_at(const struct op_under_test *s, const double *x,
                                 const double *direction, double step, const double *u)
{
    double *moved = malloc(s->count * sizeof *moved), *out = malloc(s->out_count * sizeof *out);
    for (size_t i = 0; i < s->count; i++)
        moved[i] = x[i] + step * direction[i];
    s->forward(s, moved, out);
    double f = dot(u, out, s->out_count);
    free(moved), free(out);
    return f;
}

static void check_op(const char *name, const struct op_under_test *s)
{
    double *x = ops_case_values(1, s->count, 1), *u = ops_case_values(2, s->out_count, 1);
    double *d_x = ops_case_blank(s->ops, s->count);
    s->backward(s, x, u, d_x);
    size_t coordinates = s->count <= 400 ? s->count : 0;
    for (size_t d = 0; d < DIRECTIONS + coordinates; d++) {
        double *direction = ops_case_values(3 + d, s->count, 1);
        if (d >= DIRECTIONS) {
            memset(direction, 0, s->count * sizeof *direction);
            direction[d - DIRECTIONS] = 1;
        }
        double slope = (weighted_output_at(s, x, direction, STEP, u) -
                        weighted_output_at(s, x, direction, -STEP, u)) /
                       (2 * STEP);
        double expected = dot(d_x, direction, s->count), scale = 1 + sqrt(dot(d_x, d_x, s->count));
        if (!(fabs(slope - expected) <= TOLERANCE * scale))
            fail_msg("%s: slope %.12g along direction %zu, the gradient says %.12g", name, slope, d,
                     expected);
        free(direction);
    }
    free(x), free(u), free(d_x);
}

struct attention {
    struct attn_shape shape;
    const int32_t *row_starts;
};

static void attention_forward(const struct op_under_test *s, const double *x, double *out)
{
    const struct attention *attention = s->shape;
    const struct attn_shape *shape = &attention->shape;
    double *lse = malloc(shape->batch * shape->heads * shape->tokens * sizeof *lse);
    s->ops->table->attn_fwd(s->ops, shape, out, lse, x, attention->row_starts);
    free(lse);
}

static void attention_backward(const struct op_under_test *s, const double *x, const double *d_out,
                               double *d_x)
{
    const struct attention *attention = s->shape;
    const struct attn_shape *shape = &attention->shape;
    double *lse = malloc(shape->batch * shape->heads * shape->tokens * sizeof *lse);
    double *out = malloc(s->out_count * sizeof *out);
    double *scratch =
        malloc((s->ops->table->attn_bwd_scratch_elements(s->ops, shape) + 1) * sizeof *scratch);
    s->ops->table->attn_fwd(s->ops, shape, out, lse, x, attention->row_starts);
    s->ops->table->attn_bwd(s->ops, shape, d_x, d_out, x, out, lse, attention->row_starts, scratch);
    free(lse), free(out), free(scratch);
}

static void check_masked_attention(const char *name, const struct attn_shape *shape,
                                   const int32_t *row_starts)
{
    struct ops *ops = ops_case_open(DTYPE_F64, 2);
    struct attention attention = {*shape, row_starts};
    struct err err;
    assert_ok(ops->table->plan_attn(ops, shape, &err), &err);
    size_t rows = shape->batch * shape->tokens;
    check_op(name,
             &(struct op_under_test){
                 ops, &attention, rows * (shape->heads + 2 * shape->kv_heads) * shape->head_dim,
                 rows * shape->heads * shape->head_dim, attention_forward, attention_backward});
    ops_close(ops);
}

static void check_attention(const char *name, const struct attn_shape *shape)
{
    check_masked_attention(name, shape, NULL);
}

static void attention_gradients_match_central_differences(void **state)
{
    (void)state;
    check_attention("full", &(struct attn_shape){2, 5, 2, 2, 4, false});
    check_attention("causal", &(struct attn_shape){2, 5, 2, 2, 4, true});
    check_attention("grouped", &(struct attn_shape){1, 6, 4, 2, 3, true});
    check_attention("one key-value head", &(struct attn_shape){1, 6, 3, 1, 5, false});
    check_attention("full, several blocks of queries",
                    &(struct attn_shape){1, 170, 2, 2, 8, false});
    check_attention("causal and grouped, several blocks of queries",
                    &(struct attn_shape){2, 190, 4, 2, 6, true});
}

static void document_attention_gradients_match_central_differences(void **state)
{
    (void)state;
    const int32_t few[12] = {0, 0, 2, 2, 4, 4, /* the second item's ids */ 0, 1, 1, 1, 1, 5};
    check_masked_attention("few", &(struct attn_shape){2, 6, 2, 2, 4, true}, few);
    check_masked_attention("few, full", &(struct attn_shape){2, 6, 4, 2, 4, false}, few);
    int32_t many[2 * 190];
    for (int32_t row = 0; row < 2 * 190; row++) {
        int32_t token = row % 190;
        many[row] = token < 61 ? 0 : token < 79 ? 61 : token < 80 ? 79 : token - token % 37;
    }
    check_masked_attention("several blocks of queries", &(struct attn_shape){2, 190, 4, 2, 6, true},
                           many);
}

/* x holds the norm's input, then its weight, then its bias. */
static void norm_forward(const struct op_under_test *s, const double *x, double *out)
{
    const struct norm_shape *shape = s->shape;
    double *mean = malloc(shape->rows * sizeof *mean), *rstd = malloc(shape->rows * sizeof *rstd);
    const double *weight = x + shape->rows * shape->cols;
    s->ops->table->norm_fwd(s->ops, shape, out, mean, rstd, x, weight,
                            shape->kind == NORM_LAYER ? weight + shape->cols : NULL);
    free(mean), free(rstd);
}

static void norm_backward(const struct op_under_test *s, const double *x, const double *d_out,
                          double *d_x)
{
    const struct norm_shape *shape = s->shape;
    size_t count = shape->rows * shape->cols;
    double *mean = malloc(shape->rows * sizeof *mean), *rstd = malloc(shape->rows * sizeof *rstd);
    double *out = malloc(count * sizeof *out);
    const double *weight = x + count;
    bool layer = shape->kind == NORM_LAYER;
    s->ops->table->norm_fwd(s->ops, shape, out, mean, rstd, x, weight,
                            layer ? weight + shape->cols : NULL);
    memset(d_x, 0, count * sizeof *d_x); /* norm_bwd adds to its output */
    s->ops->table->norm_bwd(s->ops, shape, d_x, d_x + count,
                            layer ? d_x + count + shape->cols : NULL, d_out, x, mean, rstd, weight,
                            false);
    free(mean), free(rstd), free(out);
}

static void check_norm(const char *name, enum norm_kind kind, uint64_t rows, uint64_t cols)
{
    struct ops *ops = ops_case_open(DTYPE_F64, 2);
    const struct norm_shape shape = {kind, rows, cols, 1e-3};
    size_t parameters = kind == NORM_LAYER ? 2 * cols : cols;
    check_op(name, &(struct op_under_test){ops, &shape, rows * cols + parameters, rows * cols,
                                           norm_forward, norm_backward});
    ops_close(ops);
}

static void norm_gradients_match_central_differences(void **state)
{
    (void)state;
    check_norm("LayerNorm", NORM_LAYER, 3, 19);
    check_norm("RMSNorm", NORM_RMS, 3, 19);
    check_norm("LayerNorm, several chunks of rows", NORM_LAYER, 300, 37);
    check_norm("RMSNorm, several chunks of rows", NORM_RMS, 300, 37);
}

static void gelu_forward(const struct op_under_test *s, const double *x, double *out)
{
    s->ops->table->gelu_fwd(s->ops, out, x, s->count);
}

static void gelu_backward(const struct op_under_test *s, const double *x, const double *d_out,
                          double *d_x)
{
    s->ops->table->gelu_bwd(s->ops, d_x, d_out, x, s->count);
}

enum { SWIGLU_ROWS = 7, SWIGLU_COLS = 11 };

static void swiglu_forward(const struct op_under_test *s, const double *x, double *out)
{
    s->ops->table->swiglu_fwd(s->ops, out, x, SWIGLU_ROWS, SWIGLU_COLS);
}

static void swiglu_backward(const struct op_under_test *s, const double *x, const double *d_out,
                            double *d_x)
{
    s->ops->table->swiglu_bwd(s->ops, d_x, d_out, x, SWIGLU_ROWS, SWIGLU_COLS);
}

static void activation_gradients_match_central_differences(void **state)
{
    (void)state;
    struct ops *ops = ops_case_open(DTYPE_F64, 2);
    check_op("GELU", &(struct op_under_test){ops, NULL, 151, 151, gelu_forward, gelu_backward});
    check_op("SwiGLU",
             &(struct op_under_test){ops, NULL, 2 * SWIGLU_ROWS * SWIGLU_COLS,
                                     SWIGLU_ROWS * SWIGLU_COLS, swiglu_forward, swiglu_backward});
    ops_close(ops);
}

static const struct attn_shape ROPE = {2, 6, 2, 1, 8, true};

static void rope_forward(const struct op_under_test *s, const double *x, double *out)
{
    memcpy(out, x, s->count * sizeof *x);
    s->ops->table->rope(s->ops, &ROPE, out, &(struct rope_spec){.base = 100}, false);
}

static void rope_backward(const struct op_under_test *s, const double *x, const double *d_out,
                          double *d_x)
{
    (void)x;
    memcpy(d_x, d_out, s->count * sizeof *d_x);
    s->ops->table->rope(s->ops, &ROPE, d_x, &(struct rope_spec){.base = 100}, true);
}

static void rope_gradients_match_central_differences(void **state)
{
    (void)state;
    struct ops *ops = ops_case_open(DTYPE_F64, 2);
    check_op("rope", &(struct op_under_test){ops, NULL, 2 * 6 * 4 * 8, 2 * 6 * 4 * 8, rope_forward,
                                             rope_backward});
    ops_close(ops);
}

enum { CLASSES = 13, XENT_ROWS = 9 };

static const int32_t TARGETS[XENT_ROWS] = {0, 12, -1, 3, 3, 7, -1, 11, 5};

static const int32_t SECOND_TARGETS[XENT_ROWS] = {3, 1, 4, 3, 12, 0, -1, 10, 6};
static const float WEIGHTS[XENT_ROWS] = {0.25f, 1, 0.5f, 0.7f, 0.125f, 0, 0.5f, 0.9f, 0.5f};

/* The only output is the sum of losses, so only its single weight in d_out is used. */
static void xent_forward_with_mix(const struct op_under_test *s, const struct xent_mix *mix,
                                  const double *x, double *out)
{
    double *logits = malloc(s->count * sizeof *logits), losses[XENT_ROWS];
    uint8_t correct[XENT_ROWS];
    memcpy(logits, x, s->count * sizeof *logits);
    s->ops->table->xent(s->ops, &(struct xent_shape){3, 3, 3, CLASSES, CLASSES}, logits, losses,
                        correct, TARGETS, mix, NULL);
    *out = 0;
    for (int i = 0; i < XENT_ROWS; i++)
        *out += losses[i];
    free(logits);
}

static void xent_backward_with_mix(const struct op_under_test *s, const struct xent_mix *mix,
                                   const double *x, const double *d_out, double *d_x)
{
    double losses[XENT_ROWS];
    uint8_t correct[XENT_ROWS];
    memcpy(d_x, x, s->count * sizeof *d_x);
    s->ops->table->xent(s->ops, &(struct xent_shape){3, 3, 3, CLASSES, CLASSES}, d_x, losses,
                        correct, TARGETS, mix, &ONE);
    for (size_t i = 0; i < s->count; i++)
        d_x[i] *= d_out[0];
}

static void xent_forward(const struct op_under_test *s, const double *x, double *out)
{
    xent_forward_with_mix(s, NULL, x, out);
}

static void xent_backward(const struct op_under_test *s, const double *x, const double *d_out,
                          double *d_x)
{
    xent_backward_with_mix(s, NULL, x, d_out, d_x);
}

static const struct xent_mix MIX = {SECOND_TARGETS, WEIGHTS};

static void mixed_xent_forward(const struct op_under_test *s, const double *x, double *out)
{
    xent_forward_with_mix(s, &MIX, x, out);
}

static void mixed_xent_backward(const struct op_under_test *s, const double *x, const double *d_out,
                                double *d_x)
{
    xent_backward_with_mix(s, &MIX, x, d_out, d_x);
}

static void cross_entropy_gradients_match_central_differences(void **state)
{
    (void)state;
    struct ops *ops = ops_case_open(DTYPE_F64, 2);
    check_op("xent", &(struct op_under_test){ops, NULL, XENT_ROWS * CLASSES, 1, xent_forward,
                                             xent_backward});
    check_op("xent of two targets",
             &(struct op_under_test){ops, NULL, XENT_ROWS * CLASSES, 1, mixed_xent_forward,
                                     mixed_xent_backward});
    ops_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_gradients_match_central_differences),
        cmocka_unit_test(document_attention_gradients_match_central_differences),
        cmocka_unit_test(norm_gradients_match_central_differences),
        cmocka_unit_test(activation_gradients_match_central_differences),
        cmocka_unit_test(rope_gradients_match_central_differences),
        cmocka_unit_test(cross_entropy_gradients_match_central_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
