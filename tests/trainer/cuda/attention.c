/*
 * attention — tests the attention kernels against attention in double: odd sizes, masks and element
 * types, in every order of threads and blocks. The tolerances are FlashAttention's: at most twice
 * (for gradients, three times) the largest error of plain attention that rounds its results to the
 * same type.
 */
#include "trainer/ops/cuda/attention/attention.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/trainer/cuda/attention_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The first key that each row attends to. */
enum start_pattern { STARTS_NONE, STARTS_ZERO, STARTS_DOCUMENTS, STARTS_SELF };

struct attention_variant {
    struct attn_shape shape;
    enum start_pattern starts;
};

static const enum dtype DTYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

enum { DTYPES_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

/* The sanitizers make kernels a hundred times slower. Under a sanitizer the tests skip F16, which
 * shares BF16's kernels, and the longest rows. */
static int dtypes_count(void)
{
    return test_is_sanitized() ? DTYPES_COUNT - 1 : DTYPES_COUNT;
}

static bool is_too_long(const struct attention_variant *variant)
{
    const struct attn_shape *s = &variant->shape;
    return test_is_sanitized() &&
           s->batch * s->heads * s->tokens * s->tokens * s->head_dim > 2200000;
}

/* Spreads scores over a few units, so that softmax is neither flat nor one-hot. */
static const double SCALE = 2;

/* A variant's arrays; starts is NULL if unused. */
struct inputs {
    double *qkv, *d_out;
    int32_t *starts;
};

static struct inputs inputs_init(enum dtype dtype, const struct attention_variant *variant)
{
    const struct attn_shape *shape = &variant->shape;
    struct attention_sizes sizes = attention_sizes_of(shape);
    struct inputs inputs = {cuda_case_values(dtype, 1, sizes.qkv, SCALE),
                            cuda_case_values(dtype, 2, sizes.out, 1), NULL};
    if (variant->starts == STARTS_NONE)
        return inputs;
    /* the documents' ends; shifted for each item */
    static const int32_t ends[] = {13, 70, 71, 128, 150};
    int32_t tokens = (int32_t)shape->tokens;
    inputs.starts = calloc(shape->batch * shape->tokens, sizeof *inputs.starts);
    assert_non_null(inputs.starts);
    for (int32_t row = 0; row < (int32_t)shape->batch * tokens; row++) {
        int32_t token = row % tokens, item = row / tokens;
        if (variant->starts == STARTS_SELF)
            inputs.starts[row] = token;
        for (size_t i = 0; variant->starts == STARTS_DOCUMENTS && i < sizeof ends / sizeof ends[0];
             i++)
            if (token >= ends[i] - 5 * item)
                inputs.starts[row] = ends[i] - 5 * item;
    }
    return inputs;
}

static void inputs_deinit(struct inputs *inputs)
{
    free(inputs->qkv), free(inputs->d_out), free(inputs->starts);
}

static void name_of(char name[128], enum dtype dtype, const struct attention_variant *variant)
{
    const struct attn_shape *s = &variant->shape;
    snprintf(name, 128, "%s batch %d tokens %d heads %d/%d dim %d %s starts %d", dtype_name(dtype),
             (int)s->batch, (int)s->tokens, (int)s->heads, (int)s->kv_heads, (int)s->head_dim,
             s->causal ? "causal" : "full", (int)variant->starts);
}

static double max_magnitude(const double *x, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(x[i]));
    return largest;
}

/* Columns first to first + count - 1 of a matrix's rows. */
static double *columns_of(const double *matrix, size_t rows, size_t width, size_t first,
                          size_t count)
{
    double *columns = malloc(rows * count * sizeof *columns);
    assert_non_null(columns);
    for (size_t row = 0; row < rows; row++)
        memcpy(columns + row * count, matrix + row * width + first, count * sizeof *columns);
    return columns;
}

/* Errors of float sums of a few hundred numbers near one, and of sums with scores in the
 * thousands. */
static const double FLOAT_LOSS = 4e-6, FLOAT_LOSS_OF_LARGE = 4e-3;

/* Checks that the error of found is at most ratio_max times that of plain, plus the float error. */
static void check_near(const char *variant, const char *what, const double *found,
                       const double *exact, const double *plain, size_t count, double ratio_max,
                       double float_loss)
{
    double error = cuda_case_max_error(found, exact, count),
           of_plain = cuda_case_max_error(plain, exact, count);
    double limit = ratio_max * of_plain + float_loss * (1 + max_magnitude(exact, count));
    if (!(error <= limit))
        fail_msg("%s: %s differs by %g; plain attention by %g", variant, what, error, of_plain);
}

static void check_result(enum dtype dtype, const struct attention_variant *variant,
                         const struct attention_result *found, const struct inputs *inputs,
                         double float_loss)
{
    const struct attn_shape *s = &variant->shape;
    struct attention_sizes sizes = attention_sizes_of(s);
    struct attention_result exact =
        attention_reference(DTYPE_F64, s, inputs->qkv, inputs->d_out, inputs->starts);
    struct attention_result plain =
        attention_reference(dtype, s, inputs->qkv, inputs->d_out, inputs->starts);
    char name[128];
    name_of(name, dtype, variant);
    check_near(name, "out", found->out, exact.out, plain.out, sizes.out, 2, float_loss);
    for (size_t i = 0; i < sizes.lse; i++)
        if (!(fabs(found->lse[i] - exact.lse[i]) <= 1e-5 * (1 + fabs(exact.lse[i]))))
            fail_msg("%s: log-sum-exp %zu is %.9g, not %.9g", name, i, found->lse[i], exact.lse[i]);
    static const char *const parts[] = {"d_q", "d_k", "d_v"};
    size_t rows = s->batch * s->tokens, width = sizes.qkv / rows, first = 0;
    for (int part = 0; part < 3; part++) {
        size_t count = (part == 0 ? s->heads : s->kv_heads) * s->head_dim;
        double *of_found = columns_of(found->d_qkv, rows, width, first, count);
        double *of_exact = columns_of(exact.d_qkv, rows, width, first, count);
        double *of_plain = columns_of(plain.d_qkv, rows, width, first, count);
        check_near(name, parts[part], of_found, of_exact, of_plain, rows * count, 3, float_loss);
        free(of_found), free(of_exact), free(of_plain);
        first += count;
    }
    attention_result_deinit(&exact);
    attention_result_deinit(&plain);
}

static void check_same(const char *name, const struct attn_shape *shape,
                       const struct attention_result *a, const struct attention_result *b)
{
    struct attention_sizes sizes = attention_sizes_of(shape);
    if (memcmp(a->out, b->out, sizes.out * sizeof(double)) != 0 ||
        memcmp(a->lse, b->lse, sizes.lse * sizeof(double)) != 0 ||
        memcmp(a->d_qkv, b->d_qkv, sizes.qkv * sizeof(double)) != 0)
        fail_msg("%s: the bits differ", name);
}

static void check_attention(enum dtype dtype, const struct attention_variant *variant)
{
    struct inputs inputs = inputs_init(dtype, variant);
    struct attention_result found =
        attention_on_device(dtype, &variant->shape, inputs.qkv, inputs.d_out, inputs.starts);
    check_result(dtype, variant, &found, &inputs, FLOAT_LOSS);
    attention_result_deinit(&found);
    inputs_deinit(&inputs);
}

static void the_reference_equals_the_cpu_attention(void **state)
{
    (void)state;
    static const struct attention_variant variants[] = {
        {{2, 37, 4, 2, 8, true}, STARTS_DOCUMENTS},
        {{2, 37, 3, 1, 10, false}, STARTS_DOCUMENTS},
        {{1, 90, 2, 2, 16, true}, STARTS_NONE}};
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        const struct attn_shape *shape = &variants[i].shape;
        struct attention_sizes sizes = attention_sizes_of(shape);
        struct inputs inputs = inputs_init(DTYPE_F32, &variants[i]);
        struct attention_result ours =
            attention_reference(DTYPE_F64, shape, inputs.qkv, inputs.d_out, inputs.starts);
        struct attention_result cpu =
            attention_on_cpu(shape, inputs.qkv, inputs.d_out, inputs.starts);
        assert_true(cuda_case_max_error(ours.out, cpu.out, sizes.out) < 1e-12);
        assert_true(cuda_case_max_error(ours.lse, cpu.lse, sizes.lse) < 1e-12);
        assert_true(cuda_case_max_error(ours.d_qkv, cpu.d_qkv, sizes.qkv) < 1e-12);
        attention_result_deinit(&ours);
        attention_result_deinit(&cpu);
        inputs_deinit(&inputs);
    }
}

static void attention_matches_doubles(void **state)
{
    (void)state;
    static const struct attention_variant variants[] = {
        {{1, 1, 1, 1, 8, true}, STARTS_NONE},         {{3, 7, 2, 1, 16, false}, STARTS_NONE},
        {{1, 64, 1, 1, 64, true}, STARTS_NONE},       {{1, 65, 2, 2, 32, true}, STARTS_NONE},
        {{2, 65, 3, 3, 24, false}, STARTS_NONE},      {{1, 129, 4, 2, 64, true}, STARTS_NONE},
        {{1, 129, 1, 1, 96, false}, STARTS_NONE},     {{1, 65, 2, 1, 128, true}, STARTS_NONE},
        {{1, 200, 1, 1, 128, false}, STARTS_NONE},    {{1, 200, 4, 1, 8, true}, STARTS_NONE},
        {{2, 200, 2, 2, 64, true}, STARTS_DOCUMENTS}, {{1, 200, 2, 1, 32, false}, STARTS_DOCUMENTS},
        {{1, 200, 1, 1, 96, true}, STARTS_DOCUMENTS}, {{1, 129, 1, 1, 128, true}, STARTS_DOCUMENTS},
        {{1, 129, 2, 2, 64, true}, STARTS_SELF},      {{1, 129, 2, 2, 40, false}, STARTS_SELF},
        {{1, 70, 2, 1, 256, true}, STARTS_DOCUMENTS}, {{1, 70, 1, 1, 136, false}, STARTS_NONE},
    };
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        for (int dtype = 0; dtype < dtypes_count() && !is_too_long(&variants[i]); dtype++)
            check_attention(DTYPES[dtype], &variants[i]);
}

static void float_kernels_support_heads_of_any_width(void **state)
{
    (void)state;
    check_attention(DTYPE_F32, &(struct attention_variant){{1, 40, 2, 1, 1, true}, STARTS_NONE});
    check_attention(DTYPE_F32,
                    &(struct attention_variant){{1, 40, 3, 3, 5, false}, STARTS_DOCUMENTS});
    check_attention(DTYPE_F32,
                    &(struct attention_variant){{1, 40, 1, 1, 77, true}, STARTS_DOCUMENTS});
}

static void results_do_not_depend_on_thread_order(void **state)
{
    (void)state;
    static const struct attention_variant variants[] = {{{2, 70, 2, 1, 64, true}, STARTS_DOCUMENTS},
                                                        {{1, 130, 2, 2, 32, false}, STARTS_NONE},
                                                        {{1, 70, 1, 1, 128, true}, STARTS_NONE}};
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        for (int dtype = 0; dtype < dtypes_count(); dtype++) {
            struct inputs inputs = inputs_init(DTYPES[dtype], &variants[i]);
            const struct attn_shape *shape = &variants[i].shape;
            struct attention_result first = {0};
            char name[128];
            name_of(name, DTYPES[dtype], &variants[i]);
            for (size_t order = 0; order < order_count(); order++) {
                order_set(order);
                struct attention_result next = attention_on_device(DTYPES[dtype], shape, inputs.qkv,
                                                                   inputs.d_out, inputs.starts);
                if (order == 0) {
                    check_result(DTYPES[dtype], &variants[i], &next, &inputs, FLOAT_LOSS);
                    first = next;
                    continue;
                }
                check_same(name, shape, &first, &next);
                attention_result_deinit(&next);
            }
            attention_result_deinit(&first);
            inputs_deinit(&inputs);
            order_set(0);
        }
}

static void row_starts_of_zero_mask_nothing(void **state)
{
    (void)state;
    static const struct attention_variant zero = {{2, 131, 2, 1, 64, true}, STARTS_ZERO};
    for (int dtype = 0; dtype < dtypes_count(); dtype++) {
        struct inputs inputs = inputs_init(DTYPES[dtype], &zero);
        struct attention_result with = attention_on_device(DTYPES[dtype], &zero.shape, inputs.qkv,
                                                           inputs.d_out, inputs.starts);
        struct attention_result without =
            attention_on_device(DTYPES[dtype], &zero.shape, inputs.qkv, inputs.d_out, NULL);
        check_same(dtype_name(DTYPES[dtype]), &zero.shape, &with, &without);
        attention_result_deinit(&with);
        attention_result_deinit(&without);
        inputs_deinit(&inputs);
    }
}

/* The document begins at a tile boundary; skipping the documents before it must not affect the
 * result. */
static void a_documents_attention_does_not_depend_on_those_before_it(void **state)
{
    (void)state;
    enum { BEFORE = 256, TOKENS = 75 };
    static const struct attention_variant packed = {{1, BEFORE + TOKENS, 2, 1, 32, true},
                                                    STARTS_ZERO};
    struct attn_shape alone = packed.shape;
    alone.tokens = TOKENS;
    struct attention_sizes sizes = attention_sizes_of(&packed.shape),
                           of_alone = attention_sizes_of(&alone);
    for (int dtype = 0; dtype < dtypes_count(); dtype++) {
        struct inputs inputs = inputs_init(DTYPES[dtype], &packed);
        for (int32_t row = 0; row < BEFORE + TOKENS; row++)
            inputs.starts[row] = row < 100 ? 0 : row < BEFORE ? 100 : BEFORE;
        const double *qkv = inputs.qkv + sizes.qkv - of_alone.qkv,
                     *d_out = inputs.d_out + sizes.out - of_alone.out;
        struct attention_result behind = attention_on_device(
            DTYPES[dtype], &packed.shape, inputs.qkv, inputs.d_out, inputs.starts);
        struct attention_result expected =
            attention_on_device(DTYPES[dtype], &alone, qkv, d_out, NULL);
        assert_memory_equal(behind.out + sizes.out - of_alone.out, expected.out,
                            of_alone.out * sizeof(double));
        assert_memory_equal(behind.d_qkv + sizes.qkv - of_alone.qkv, expected.d_qkv,
                            of_alone.qkv * sizeof(double));
        for (size_t head = 0; head < alone.heads; head++)
            assert_memory_equal(behind.lse + head * (BEFORE + TOKENS) + BEFORE,
                                expected.lse + head * TOKENS, TOKENS * sizeof(double));
        attention_result_deinit(&behind);
        attention_result_deinit(&expected);
        inputs_deinit(&inputs);
    }
}

/* Scores in the thousands: exp is applied only to differences, so nothing overflows. */
static void large_scores_do_not_overflow(void **state)
{
    (void)state;
    static const struct attention_variant variant = {{1, 140, 1, 1, 64, true}, STARTS_DOCUMENTS};
    for (int dtype = 0; dtype < dtypes_count(); dtype++) {
        struct inputs inputs = inputs_init(DTYPES[dtype], &variant);
        size_t count = attention_sizes_of(&variant.shape).qkv;
        for (size_t i = 0; i < count; i++)
            inputs.qkv[i] *= 16;
        struct attention_result found = attention_on_device(
            DTYPES[dtype], &variant.shape, inputs.qkv, inputs.d_out, inputs.starts);
        check_result(DTYPES[dtype], &variant, &found, &inputs, FLOAT_LOSS_OF_LARGE);
        attention_result_deinit(&found);
        inputs_deinit(&inputs);
    }
}

/* A run prepares all its attention operations, in any order, before any of them runs. */
static void preparing_a_narrower_head_keeps_the_workspace_of_a_wider_one(void **state)
{
    (void)state;
    static const struct attn_shape wide = {1, 16, 1, 1, 256, true},
                                   narrow = {1, 16, 1, 1, 72, true};
    struct cuda_attention_fwd_arrays arrays;
    struct attention_sizes sizes = attention_sizes_of(&wide);
    double *qkv = cuda_case_values(DTYPE_F32, 1, sizes.qkv, 1);
    void *out = cuda_case_blank(DTYPE_F32, sizes.out), *lse = cuda_case_blank(DTYPE_F32, sizes.lse);
    arrays = (struct cuda_attention_fwd_arrays){out, lse,
                                                cuda_case_array(DTYPE_F32, qkv, sizes.qkv), NULL};
    order_set(0);
    cuda_ok(cuda_attention_prepare(DTYPE_F32, &wide));
    cuda_ok(cuda_attention_prepare(DTYPE_F32, &narrow));
    cuda_ok(cuda_attention_fwd(DTYPE_F32, &wide, &arrays, NULL));
    free(cuda_case_read(DTYPE_F32, out, sizes.out)); /* waits for the device */
    cuda_case_free((void *)(uintptr_t)arrays.qkv), cuda_case_free(out), cuda_case_free(lse);
    free(qkv);
}

static void the_workspace_is_linear_in_tokens(void **state)
{
    (void)state;
    struct attn_shape shape = {2, 1 << 10, 4, 2, 64, true};
    uint64_t floats = cuda_attention_bwd_workspace_floats(&shape);
    assert_true(floats <= 3 * shape.batch * shape.tokens * shape.heads);
    shape.tokens = 1 << 20;
    assert_int_equal(cuda_attention_bwd_workspace_floats(&shape), floats << 10);
}

static void unsupported_shapes_are_refused(void **state)
{
    (void)state;
    static const struct attn_shape fine = {2, 16, 4, 2, 64, true};
    assert_true(cuda_attention_supports(DTYPE_BF16, &fine));
    assert_false(cuda_attention_supports(DTYPE_F64, &fine));
    struct attn_shape shape = fine;
    shape.head_dim = 12;
    assert_false(cuda_attention_supports(DTYPE_BF16, &shape));
    assert_true(cuda_attention_supports(DTYPE_F32, &shape));
    shape.head_dim = 264;
    assert_false(cuda_attention_supports(DTYPE_BF16, &shape));
    assert_false(cuda_attention_supports(DTYPE_F32, &shape));
    shape = fine;
    shape.kv_heads = 3;
    assert_false(cuda_attention_supports(DTYPE_BF16, &shape));
    shape = fine;
    shape.tokens = 1ull << 32;
    assert_false(cuda_attention_supports(DTYPE_BF16, &shape));
    assert_int_equal(cuda_attention_prepare(DTYPE_BF16, &shape), cudaErrorInvalidValue);
    assert_int_equal(
        cuda_attention_fwd(DTYPE_BF16, &shape, &(struct cuda_attention_fwd_arrays){0}, NULL),
        cudaErrorInvalidValue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_equals_the_cpu_attention),
        cmocka_unit_test(attention_matches_doubles),
        cmocka_unit_test(float_kernels_support_heads_of_any_width),
        cmocka_unit_test(results_do_not_depend_on_thread_order),
        cmocka_unit_test(row_starts_of_zero_mask_nothing),
        cmocka_unit_test(a_documents_attention_does_not_depend_on_those_before_it),
        cmocka_unit_test(large_scores_do_not_overflow),
        cmocka_unit_test(preparing_a_narrower_head_keeps_the_workspace_of_a_wider_one),
        cmocka_unit_test(the_workspace_is_linear_in_tokens),
        cmocka_unit_test(unsupported_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
