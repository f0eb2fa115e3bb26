/*
 * xent — tests softmax cross-entropy on the device against the CPU ops in double, in every order of
 * threads and blocks.
 */
#include "trainer/ops/cuda/xent.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/trainer/cuda/cuda_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype DTYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

enum { DTYPES_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

/* The error of float exponentials and their sums, relative to the loss and to the gradient's
 * scale. */
static const double FLOAT_LOSS = 2e-6;

/* Logits [rows, classes] and one target per row. The array of targets has one extra target per
 * item, which must not be read. Second targets and weights have the same layout; NULL if rows have
 * a single target. */
struct xent_inputs {
    struct xent_shape shape;
    double *logits;
    int32_t *targets, *second_targets;
    float *weights;
};

struct result {
    double *logits; /* or their gradient, with each row's padding */
    double *losses;
    uint8_t *correct;
};

static uint64_t row_count(const struct xent_inputs *s)
{
    return s->shape.items * s->shape.tokens;
}

static int32_t *target_of(const struct xent_inputs *s, uint64_t row)
{
    return &s->targets[row / s->shape.tokens * s->shape.target_stride + row % s->shape.tokens];
}

/* Every fifth row has no target. In every third row, the target is among the largest logits, so
 * some predictions are correct. */
static struct xent_inputs xent_inputs_init(enum dtype dtype, uint64_t items, uint64_t tokens,
                                           uint64_t classes, uint64_t stride)
{
    struct xent_inputs s = {{items, tokens, tokens + 1, classes, stride},
                            cuda_case_values(dtype, 1, items * tokens * classes, 5),
                            malloc(items * (tokens + 1) * sizeof(int32_t)),
                            NULL,
                            NULL};
    assert_non_null(s.targets);
    for (uint64_t i = 0; i < items * (tokens + 1); i++)
        s.targets[i] = INT32_MAX;
    double *random = cuda_case_values(DTYPE_F64, 2, items * tokens, 1);
    for (uint64_t row = 0; row < items * tokens; row++) {
        int32_t target = (int32_t)(fabs(random[row]) * (double)classes);
        if (row % 3 == 1)
            s.logits[row * classes + (uint64_t)target] = 5;
        *target_of(&s, row) = row % 5 == 4 ? -1 - (int32_t)row : target;
    }
    free(random);
    return s;
}

/* Adds second targets, some equal to the first, and various weights. Values that must not be read
 * would change the result. */
static void xent_inputs_mix(struct xent_inputs *s)
{
    static const float weights[] = {1, 0.25f, 0.5f, 0, 0.99609375f, 0.7f};
    uint64_t count = s->shape.items * s->shape.target_stride;
    s->second_targets = malloc(count * sizeof *s->second_targets);
    s->weights = malloc(count * sizeof *s->weights);
    assert_non_null(s->second_targets);
    assert_non_null(s->weights);
    for (uint64_t i = 0; i < count; i++) {
        s->second_targets[i] = INT32_MIN;
        s->weights[i] = NAN;
    }
    double *random = cuda_case_values(DTYPE_F64, 3, row_count(s), 1);
    for (uint64_t row = 0; row < row_count(s); row++) {
        uint64_t at = (uint64_t)(target_of(s, row) - s->targets);
        int32_t second = (int32_t)(fabs(random[row]) * (double)s->shape.classes);
        s->second_targets[at] = row % 7 == 3 ? s->targets[at] : second;
        s->weights[at] = weights[row % 6];
    }
    free(random);
}

static void xent_inputs_deinit(struct xent_inputs *s)
{
    free(s->logits), free(s->targets), free(s->second_targets), free(s->weights);
}

static void result_deinit(struct result *r)
{
    free(r->logits), free(r->losses), free(r->correct);
}

/* Copies rows of width `from` to rows of width `to`, malloc'ed; fills the rest with value. */
static double *pad_rows(const double *x, uint64_t rows, uint64_t from, uint64_t to, double value)
{
    double *wide = malloc(rows * to * sizeof *wide);
    assert_non_null(wide);
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t col = 0; col < to; col++)
            wide[row * to + col] = col < from ? x[row * from + col] : value;
    return wide;
}

/* gradient_scale 0: computes no gradient. The gradient's padding is 0. */
static struct result xent_on_cpu(const struct xent_inputs *s, double gradient_scale)
{
    const struct xent_shape *shape = &s->shape;
    uint64_t rows = row_count(s);
    double *x = pad_rows(s->logits, rows, shape->classes, shape->classes, 0);
    struct result result = {NULL, malloc(rows * sizeof(double)), malloc(rows)};
    assert_non_null(result.losses);
    assert_non_null(result.correct);
    struct ops *ops = cuda_case_cpu_open();
    struct xent_shape dense = *shape;
    dense.stride = dense.classes;
    const struct xent_mix mix = {s->second_targets, s->weights};
    ops->table->xent(ops, &dense, x, result.losses, result.correct, s->targets,
                     s->second_targets ? &mix : NULL, gradient_scale != 0 ? &gradient_scale : NULL);
    cuda_case_cpu_close(ops);
    result.logits = pad_rows(x, rows, shape->classes, shape->stride, 0);
    free(x);
    return result;
}

/* Fills the logits' padding with `padding`. */
static struct result xent_on_device(enum dtype dtype, const struct xent_inputs *s, double padding,
                                    double gradient_scale)
{
    const struct xent_shape *shape = &s->shape;
    uint64_t rows = row_count(s);
    uint64_t targets_bytes = shape->items * shape->target_stride * sizeof(int32_t);
    double *wide = pad_rows(s->logits, rows, shape->classes, shape->stride, padding);
    struct cuda_xent_arrays arrays = {
        cuda_case_array(dtype, wide, rows * shape->stride),
        cuda_case_blank(DTYPE_F64, rows),
        cuda_case_blank(DTYPE_U8, rows),
        cuda_case_bytes(s->targets, targets_bytes),
        s->second_targets ? cuda_case_bytes(s->second_targets, targets_bytes) : NULL,
        s->weights ? cuda_case_bytes(s->weights, targets_bytes) : NULL,
        gradient_scale != 0 ? cuda_case_bytes(&gradient_scale, sizeof gradient_scale) : NULL};
    cuda_ok(cuda_xent(dtype, shape, &arrays, NULL));
    struct result result = {cuda_case_read(dtype, arrays.logits, rows * shape->stride),
                            cuda_case_read_bytes(arrays.losses, rows * sizeof(double)),
                            cuda_case_read_bytes(arrays.correct, rows)};
    cuda_case_free(arrays.logits), cuda_case_free(arrays.losses), cuda_case_free(arrays.correct);
    cuda_case_free((void *)arrays.targets);
    if (arrays.second_targets) {
        cuda_case_free((void *)arrays.second_targets);
        cuda_case_free((void *)arrays.weights);
    }
    if (arrays.gradient_scale)
        cuda_case_free((void *)arrays.gradient_scale);
    free(wide);
    return result;
}

static void check_losses(const struct xent_inputs *s, const struct result *found,
                         const struct result *expected)
{
    for (uint64_t row = 0; row < row_count(s); row++) {
        double limit = FLOAT_LOSS * (1 + expected->losses[row]);
        if (!(fabs(found->losses[row] - expected->losses[row]) <= limit))
            fail_msg("%d classes: the loss of row %d is %.9g, not %.9g", (int)s->shape.classes,
                     (int)row, found->losses[row], expected->losses[row]);
        if (found->correct[row] != expected->correct[row])
            fail_msg("%d classes: row %d, target %d: correct is %d", (int)s->shape.classes,
                     (int)row, *target_of(s, row), found->correct[row]);
    }
}

static void check_same(const struct xent_inputs *s, const struct result *a, const struct result *b)
{
    uint64_t rows = row_count(s);
    if (memcmp(a->logits, b->logits, rows * s->shape.stride * sizeof(double)) != 0 ||
        memcmp(a->losses, b->losses, rows * sizeof(double)) != 0 ||
        memcmp(a->correct, b->correct, rows) != 0)
        fail_msg("%d classes: the bits depend on the order", (int)s->shape.classes);
}

static void check_xent(enum dtype dtype, const struct xent_inputs *s, double gradient_scale)
{
    size_t count = row_count(s) * s->shape.stride;
    struct result expected = xent_on_cpu(s, gradient_scale), first = {0};
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        struct result found = xent_on_device(dtype, s, 60000, gradient_scale);
        if (order > 0) {
            check_same(s, &first, &found);
            result_deinit(&found);
        } else {
            first = found;
        }
    }
    order_set(0);
    check_losses(s, &first, &expected);
    cuda_case_near("gradient", dtype, first.logits, expected.logits, count,
                   FLOAT_LOSS * gradient_scale);
    for (uint64_t row = 0; row < row_count(s); row++)
        for (uint64_t col = *target_of(s, row) < 0 ? 0 : s->shape.classes; col < s->shape.stride;
             col++)
            if (first.logits[row * s->shape.stride + col] != 0)
                fail_msg("%d classes: the gradient of row %d is not 0 at %d", (int)s->shape.classes,
                         (int)row, (int)col);
    result_deinit(&first), result_deinit(&expected);
}

/* Rows for a warp, a small block and a large block; with and without 16-byte accesses and
 * padding. */
static void losses_and_gradients_match_the_cpu(void **state)
{
    (void)state;
    static const uint64_t sizes[][4] = {{1, 1, 1, 1},       {3, 7, 10, 10},    {2, 11, 7, 8},
                                        {3, 5, 63, 80},     {2, 9, 256, 256},  {1, 10, 257, 264},
                                        {1, 5, 511, 511},   {2, 3, 512, 512},  {1, 5, 1000, 1000},
                                        {1, 3, 1003, 1008}, {1, 2, 4093, 4093}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int dtype = 0; dtype < DTYPES_COUNT; dtype++) {
            struct xent_inputs s =
                xent_inputs_init(DTYPES[dtype], sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
            check_xent(DTYPES[dtype], &s, 0.5);
            xent_inputs_deinit(&s);
        }
}

/* As with mixup; a row without a first target has no second one either. */
static void a_second_target_has_the_remaining_weight(void **state)
{
    (void)state;
    static const uint64_t sizes[][3] = {{1, 2, 2},     {23, 10, 10},    {12, 101, 104},
                                        {7, 700, 701}, {3, 1000, 1000}, {6, 4099, 4104}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int dtype = 0; dtype < DTYPES_COUNT; dtype++) {
            struct xent_inputs s =
                xent_inputs_init(DTYPES[dtype], sizes[i][0], 1, sizes[i][1], sizes[i][2]);
            xent_inputs_mix(&s);
            check_xent(DTYPES[dtype], &s, 0.5);
            xent_inputs_deinit(&s);
        }
}

static void a_first_target_of_full_weight_equals_a_single_target(void **state)
{
    (void)state;
    static const uint64_t counts[] = {10, 1000, 5000};
    for (int i = 0; i < 3 * DTYPES_COUNT; i++) {
        enum dtype dtype = DTYPES[i / 3];
        struct xent_inputs s = xent_inputs_init(dtype, 6, 1, counts[i % 3], counts[i % 3]);
        struct result alone = xent_on_device(dtype, &s, 0, 3);
        xent_inputs_mix(&s);
        for (uint64_t row = 0; row < row_count(&s); row++)
            s.weights[target_of(&s, row) - s.targets] = 1;
        struct result mixed = xent_on_device(dtype, &s, 0, 3);
        check_same(&s, &alone, &mixed);
        result_deinit(&alone), result_deinit(&mixed), xent_inputs_deinit(&s);
    }
}

/* GPT-2's vocabulary, unpadded and padded. */
static void a_large_vocabulary_uses_one_block_per_row(void **state)
{
    (void)state;
    static const uint64_t sizes[][2] = {{50257, 50304}, {4096, 4096}, {50257, 50257}};
    for (size_t i = 0; i < (test_is_sanitized() ? 2 : 3); i++) {
        struct xent_inputs s = xent_inputs_init(DTYPE_BF16, 1, 2, sizes[i][0], sizes[i][1]);
        check_xent(DTYPE_BF16, &s, 1);
        xent_inputs_deinit(&s);
    }
}

/* An F16 loss may have a large scale. */
static void gradients_are_scaled(void **state)
{
    (void)state;
    struct xent_inputs s = xent_inputs_init(DTYPE_F16, 2, 4, 40, 40);
    check_xent(DTYPE_F16, &s, 16384);
    check_xent(DTYPE_F16, &s, 1.0 / 7);
    xent_inputs_deinit(&s);
}

static void without_a_loss_scale_logits_are_unchanged(void **state)
{
    (void)state;
    static const uint64_t sizes[][2] = {{10, 16}, {600, 601}, {5000, 5000}};
    for (int i = 0; i < 3 * DTYPES_COUNT; i++) {
        enum dtype dtype = DTYPES[i / 3];
        struct xent_inputs s = xent_inputs_init(dtype, 1, 5, sizes[i % 3][0], sizes[i % 3][1]);
        struct result expected = xent_on_cpu(&s, 0), found = xent_on_device(dtype, &s, 3, 0);
        double *wide = pad_rows(s.logits, row_count(&s), s.shape.classes, s.shape.stride, 3);
        check_losses(&s, &found, &expected);
        assert_memory_equal(found.logits, wide, row_count(&s) * s.shape.stride * sizeof *wide);
        free(wide);
        result_deinit(&expected), result_deinit(&found), xent_inputs_deinit(&s);
    }
}

/* Among equal largest logits, the first counts, even if it is in another pack, with another thread
 * or far away. */
static void the_first_of_equal_logits_is_predicted(void **state)
{
    (void)state;
    static const uint64_t counts[] = {40, 700, 5000};
    static const uint64_t places[][2] = {{0, 1}, {3, 11}, {8, 15}, {1, 39}, {30, 31}};
    for (int i = 0; i < 3 * DTYPES_COUNT; i++) {
        enum dtype dtype = DTYPES[i / 3];
        uint64_t classes = counts[i % 3];
        struct xent_inputs s = xent_inputs_init(dtype, 5, 2, classes, (classes + 7) / 8 * 8);
        for (uint64_t pair = 0; pair < 5; pair++) {
            uint64_t first = places[pair][0], second = pair == 4 ? classes - 1 : places[pair][1];
            for (uint64_t row = 2 * pair; row < 2 * pair + 2; row++) {
                s.logits[row * classes + first] = s.logits[row * classes + second] = 6;
                *target_of(&s, row) = (int32_t)(row % 2 == 0 ? first : second);
            }
        }
        struct result found = xent_on_device(dtype, &s, 6, 1);
        for (uint64_t row = 0; row < 10; row++)
            assert_int_equal(found.correct[row], row % 2 == 0);
        result_deinit(&found), xent_inputs_deinit(&s);
    }
}

/* One logit of each row, at varying positions, is far above the others; some are -infinity. */
static void logits_may_be_far_apart(void **state)
{
    (void)state;
    static const uint64_t counts[] = {100, 900, 9000};
    for (int i = 0; i < 3; i++) {
        struct xent_inputs s = xent_inputs_init(DTYPE_F32, 1, 6, counts[i], counts[i]);
        for (uint64_t row = 0; row < 6; row++) {
            double *x = s.logits + row * counts[i];
            /* both are exact, and so are their differences */
            for (uint64_t col = 0; col < counts[i]; col++)
                x[col] = col < 8 ? -INFINITY : rint(x[col] * 6000) / 2;
            x[(row * 31 + 5) % counts[i]] = row < 3 ? 20000 : 15008;
            *target_of(&s, row) = (int32_t)(counts[i] - 1 - row);
        }
        check_xent(DTYPE_F32, &s, 1);
        xent_inputs_deinit(&s);
    }
}

/* If an invalid target has passed the data checks, it causes no out-of-bounds read and is
 * detected. */
static void an_invalid_target_has_a_nan_loss(void **state)
{
    (void)state;
    static const uint64_t counts[] = {10, 10, 600, 600, 5000, 5000};
    for (int i = 0; i < 6; i++) {
        struct xent_inputs s = xent_inputs_init(DTYPE_BF16, 1, 2, counts[i], counts[i] + 8);
        s.targets[0] = (int32_t)counts[i];
        s.targets[1] = INT32_MAX;
        if (i % 2) { /* an invalid second target, with a valid first one */
            xent_inputs_mix(&s);
            s.targets[0] = s.targets[1] = 1;
            s.second_targets[0] = (int32_t)counts[i];
            s.second_targets[1] = -1;
        }
        struct result found = xent_on_device(DTYPE_BF16, &s, 1, 1);
        for (int row = 0; row < 2; row++) {
            assert_true(isnan(found.losses[row]));
            assert_int_equal(found.correct[row], 0);
        }
        for (uint64_t col = 0; col < 2 * s.shape.stride; col++)
            assert_true(found.logits[col] == 0);
        result_deinit(&found), xent_inputs_deinit(&s);
    }
}

static void a_nan_logit_makes_the_loss_nan(void **state)
{
    (void)state;
    static const uint64_t counts[] = {10, 600, 5000};
    for (int i = 0; i < 3; i++) {
        struct xent_inputs s = xent_inputs_init(DTYPE_F32, 1, 1, counts[i], counts[i]);
        s.logits[counts[i] / 2] = NAN;
        struct result found = xent_on_device(DTYPE_F32, &s, 0, 1);
        assert_true(isnan(found.losses[0]));
        assert_true(isnan(found.logits[0]));
        result_deinit(&found), xent_inputs_deinit(&s);
    }
}

static void other_types_and_strides_are_refused(void **state)
{
    (void)state;
    static const struct xent_shape shape = {1, 1, 1, 8, 8}, too_short = {1, 1, 1, 8, 7},
                                   too_long = {1, 1, 1, 8, (UINT64_C(1) << 30) + 8};
    static const struct cuda_xent_arrays arrays = {0};
    assert_int_equal(cuda_xent(DTYPE_F64, &shape, &arrays, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_xent(DTYPE_F32, &too_short, &arrays, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_xent(DTYPE_F32, &too_long, &arrays, NULL), cudaErrorInvalidValue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_gradients_match_the_cpu),
        cmocka_unit_test(a_second_target_has_the_remaining_weight),
        cmocka_unit_test(a_first_target_of_full_weight_equals_a_single_target),
        cmocka_unit_test(a_large_vocabulary_uses_one_block_per_row),
        cmocka_unit_test(gradients_are_scaled),
        cmocka_unit_test(without_a_loss_scale_logits_are_unchanged),
        cmocka_unit_test(the_first_of_equal_logits_is_predicted),
        cmocka_unit_test(logits_may_be_far_apart),
        cmocka_unit_test(an_invalid_target_has_a_nan_loss),
        cmocka_unit_test(a_nan_logit_makes_the_loss_nan),
        cmocka_unit_test(other_types_and_strides_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
