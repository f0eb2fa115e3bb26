/*
 * pointwise — tests activations, sums and conversions on the device against the CPU ops in double.
 */
#include "trainer/ops/cuda/pointwise.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/trainer/cuda/cuda_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype DTYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

enum { DTYPES_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

/* Inputs cover the curved parts of the activations. FLOAT_LOSS covers the error of expf and of
 * about ten float operations on products of three inputs. */
static const double SCALE = 4, FLOAT_LOSS = 4e-5;

enum function { GELU_FWD, GELU_BWD, SUM, SUM_INTO_A, SUM_INTO_B, SWIGLU_FWD, SWIGLU_BWD };

static const char *const NAMES[] = {"gelu",           "gelu backward", "sum",
                                    "sum into a",     "sum into b",    "swiglu forward",
                                    "swiglu backward"};

/* The kernel under test, of two arrays; only SwiGLU has several rows. */
struct kernel_under_test {
    enum function function;
    uint64_t rows, cols;
};

static size_t count_of(const struct kernel_under_test *s)
{
    return s->rows * s->cols;
}

/* a is x (GELU forward) or d_out (backward); b is x or gate_up. */
static size_t count_of_b(const struct kernel_under_test *s)
{
    return s->function >= SWIGLU_FWD ? 2 * count_of(s) : count_of(s);
}

static size_t count_of_out(const struct kernel_under_test *s)
{
    return s->function == SWIGLU_BWD ? 2 * count_of(s) : count_of(s);
}

static double *run_on_cpu(const struct kernel_under_test *s, const double *a, const double *b)
{
    double *out = malloc(count_of_out(s) * sizeof *out);
    assert_non_null(out);
    struct ops *ops = cuda_case_cpu_open();
    switch (s->function) {
    case GELU_FWD:
        ops->table->gelu_fwd(ops, out, a, s->cols);
        break;
    case GELU_BWD:
        ops->table->gelu_bwd(ops, out, a, b, s->cols);
        break;
    case SUM:
    case SUM_INTO_A:
    case SUM_INTO_B:
        ops->table->add(ops, out, a, b, s->cols);
        break;
    case SWIGLU_FWD:
        ops->table->swiglu_fwd(ops, out, b, s->rows, s->cols);
        break;
    case SWIGLU_BWD:
        ops->table->swiglu_bwd(ops, out, a, b, s->rows, s->cols);
        break;
    }
    cuda_case_cpu_close(ops);
    return out;
}

static cudaError_t launch(enum dtype dtype, const struct kernel_under_test *s, void *out,
                          const void *a, const void *b)
{
    switch (s->function) {
    case GELU_FWD:
        return cuda_gelu_fwd(dtype, out, a, s->cols, NULL);
    case GELU_BWD:
        return cuda_gelu_bwd(dtype, out, a, b, s->cols, NULL);
    case SWIGLU_FWD:
        return cuda_swiglu_fwd(dtype, out, b, s->rows, s->cols, NULL);
    case SWIGLU_BWD:
        return cuda_swiglu_bwd(dtype, out, a, b, s->rows, s->cols, NULL);
    default:
        return cuda_add(dtype, out, a, b, s->cols, NULL);
    }
}

static double *run_on_device(enum dtype dtype, const struct kernel_under_test *s,
                             const double *a_values, const double *b_values)
{
    void *a = cuda_case_array(dtype, a_values, count_of(s));
    void *b = cuda_case_array(dtype, b_values, count_of_b(s));
    void *blank = cuda_case_blank(dtype, count_of_out(s));
    void *out = s->function == SUM_INTO_A ? a : s->function == SUM_INTO_B ? b : blank;
    cuda_ok(launch(dtype, s, out, a, b));
    double *found = cuda_case_read(dtype, out, count_of_out(s));
    cuda_case_free(a);
    cuda_case_free(b);
    cuda_case_free(blank);
    return found;
}

static void check_kernel(const struct kernel_under_test *s)
{
    size_t bytes = count_of_out(s) * sizeof(double);
    for (int d = 0; d < DTYPES_COUNT; d++) {
        double *a = cuda_case_values(DTYPES[d], 1, count_of(s), SCALE);
        double *b = cuda_case_values(DTYPES[d], 2, count_of_b(s), SCALE);
        double *expected = run_on_cpu(s, a, b), *first = NULL;
        for (size_t order = 0; order < order_count(); order++) {
            order_set(order);
            double *found = run_on_device(DTYPES[d], s, a, b);
            cuda_case_near(NAMES[s->function], DTYPES[d], found, expected, count_of_out(s),
                           FLOAT_LOSS);
            if (first)
                assert_memory_equal(found, first, bytes);
            free(first);
            first = found;
        }
        order_set(0);
        free(a), free(b), free(expected), free(first);
    }
}

/* Below, at and above the numbers of elements per thread and per block. */
static const uint64_t COUNTS[] = {1, 7, 8, 63, 64, 257, 768, 1000, 2048, 2049, 5003};

enum { COUNTS_COUNT = sizeof COUNTS / sizeof COUNTS[0] };

static void check_counts(enum function function)
{
    for (int i = 0; i < COUNTS_COUNT; i++)
        check_kernel(&(struct kernel_under_test){function, 1, COUNTS[i]});
}

static void gelu_and_its_gradient_match_the_cpu(void **state)
{
    (void)state;
    check_counts(GELU_FWD);
    check_counts(GELU_BWD);
}

static void sums_match_the_cpu_even_in_place(void **state)
{
    (void)state;
    check_counts(SUM);
    check_counts(SUM_INTO_A);
    check_counts(SUM_INTO_B);
}

static void swiglu_matches_the_cpu_at_any_width(void **state)
{
    (void)state;
    static const uint64_t sizes[][2] = {{1, 1},   {15, 7},   {17, 64},  {300, 4},  {5, 257},
                                        {3, 768}, {3, 1000}, {2, 2049}, {5000, 1}, {7, 12}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_kernel(&(struct kernel_under_test){SWIGLU_FWD, sizes[i][0], sizes[i][1]});
        check_kernel(&(struct kernel_under_test){SWIGLU_BWD, sizes[i][0], sizes[i][1]});
    }
}

/* Far from 0, an activation becomes the identity or 0, even where an exponential overflows. */
static void extreme_inputs_give_no_nan(void **state)
{
    (void)state;
    static const double x[] = {-60000, -10000, -500, -100, -50, 50, 100, 500, 10000, 60000};
    enum { COUNT = sizeof x / sizeof x[0] };
    double ones[2 * COUNT], gate_up[2 * COUNT];
    for (int i = 0; i < COUNT; i++) {
        ones[i] = ones[COUNT + i] = gate_up[COUNT + i] = 1;
        gate_up[i] = x[i];
    }
    for (int d = 0; d < DTYPES_COUNT; d++) {
        const struct kernel_under_test kernels[] = {{GELU_FWD, 1, COUNT},
                                                    {GELU_BWD, 1, COUNT},
                                                    {SWIGLU_FWD, 1, COUNT},
                                                    {SWIGLU_BWD, 1, COUNT}};
        for (int i = 0; i < 4; i++) {
            const struct kernel_under_test *s = &kernels[i];
            const double *a = s->function == GELU_FWD ? x : ones, *b = i < 2 ? x : gate_up;
            double *found = run_on_device(DTYPES[d], s, a, b);
            for (int j = 0; j < COUNT; j++) {
                bool slope = s->function == GELU_BWD || s->function == SWIGLU_BWD;
                double expected = x[j] < 0 ? 0 : slope ? 1 : cuda_case_round(DTYPES[d], x[j]);
                if (!(fabs(found[j] - expected) <= 1e-18))
                    fail_msg("%s of %g is %g in %s", NAMES[s->function], x[j], found[j],
                             dtype_name(DTYPES[d]));
            }
            free(found);
        }
    }
}

static double *convert_floats(enum dtype dtype, const double *values, size_t count)
{
    float *x = cuda_case_array(DTYPE_F32, values, count);
    void *out = cuda_case_blank(dtype, count);
    cuda_ok(cuda_from_f32(dtype, out, x, count, NULL));
    double *found = cuda_case_read(dtype, out, count);
    cuda_case_free(x);
    cuda_case_free(out);
    return found;
}

static void floats_are_rounded_to_nearest(void **state)
{
    (void)state;
    for (int i = 0; i < COUNTS_COUNT; i++)
        for (int d = 0; d < DTYPES_COUNT; d++) {
            double *x = cuda_case_values(DTYPE_F32, 3, COUNTS[i], 100);
            for (size_t order = 0; order < order_count(); order++) {
                order_set(order);
                double *found = convert_floats(DTYPES[d], x, COUNTS[i]);
                for (size_t j = 0; j < COUNTS[i]; j++)
                    assert_true(found[j] == cuda_case_round(DTYPES[d], x[j]));
                free(found);
            }
            order_set(0);
            free(x);
        }
}

static void ties_round_to_even_and_overflow_to_infinity(void **state)
{
    (void)state;
    /* half a unit in the last place above 1, and above the next number; the smallest subnormal
     * half, and half of it; infinities */
    static const double x[] = {
        1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1p-11, 1 + 0x3p-11,      -1 - 0x1p-8,
        0x1p-24,    0x1p-25,    0x3p-25,     (double)INFINITY, -(double)INFINITY,
        0};
    static const double large[] = {65519.996, 65520, -65520, 0x1.fffffep127};
    for (int d = 0; d < DTYPES_COUNT; d++) {
        double *found = convert_floats(DTYPES[d], x, sizeof x / sizeof x[0]);
        for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
            assert_true(found[i] == cuda_case_round(DTYPES[d], x[i]));
        free(found);
    }
    double *half = convert_floats(DTYPE_F16, large, 4),
           *bf16 = convert_floats(DTYPE_BF16, large, 4);
    assert_true(half[0] == 65504 && half[1] == (double)INFINITY && half[2] == -(double)INFINITY);
    assert_true(half[3] == (double)INFINITY && bf16[3] == (double)INFINITY);
    free(half), free(bf16);
    double nan = (double)NAN;
    for (int d = 0; d < DTYPES_COUNT; d++) {
        double *found = convert_floats(DTYPES[d], &nan, 1);
        assert_true(isnan(found[0]));
        free(found);
    }
}

/* Gradients are sent scaled by a power of two. */
static void halves_of_scaled_floats_round_trip(void **state)
{
    (void)state;
    for (int i = 0; i < COUNTS_COUNT; i++)
        for (int d = 1; d < DTYPES_COUNT; d++) {
            double *x = cuda_case_values(DTYPE_F32, 3, COUNTS[i], 100);
            float *wide = cuda_case_array(DTYPE_F32, x, COUNTS[i]);
            void *half = cuda_case_blank(DTYPES[d], COUNTS[i]);
            cuda_ok(cuda_narrow(DTYPES[d], half, wide, 0.125f, COUNTS[i], NULL));
            cuda_ok(cuda_widen(DTYPES[d], wide, half, 8, COUNTS[i], NULL));
            double *found = cuda_case_read(DTYPE_F32, wide, COUNTS[i]);
            for (size_t j = 0; j < COUNTS[i]; j++)
                assert_true(found[j] == 8 * cuda_case_round(DTYPES[d], x[j] / 8));
            cuda_case_free(wide);
            cuda_case_free(half);
            free(x), free(found);
        }
}

static void types_without_kernels_are_refused(void **state)
{
    (void)state;
    assert_int_equal(cuda_gelu_fwd(DTYPE_F64, NULL, NULL, 1, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_gelu_bwd(DTYPE_I32, NULL, NULL, NULL, 1, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_add(DTYPE_F64, NULL, NULL, NULL, 1, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_from_f32(DTYPE_U8, NULL, NULL, 1, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_swiglu_fwd(DTYPE_F64, NULL, NULL, 1, 1, NULL), cudaErrorInvalidValue);
    assert_int_equal(cuda_swiglu_bwd(DTYPE_F64, NULL, NULL, NULL, 1, 1, NULL),
                     cudaErrorInvalidValue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gelu_and_its_gradient_match_the_cpu),
        cmocka_unit_test(sums_match_the_cpu_even_in_place),
        cmocka_unit_test(swiglu_matches_the_cpu_at_any_width),
        cmocka_unit_test(extreme_inputs_give_no_nan),
        cmocka_unit_test(floats_are_rounded_to_nearest),
        cmocka_unit_test(ties_round_to_even_and_overflow_to_infinity),
        cmocka_unit_test(halves_of_scaled_floats_round_trip),
        cmocka_unit_test(types_without_kernels_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
