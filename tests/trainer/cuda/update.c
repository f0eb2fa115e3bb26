/*
 * update — tests the optimizer's step on the device against the CPU ops in double, and exact sums
 * against the host's, word by word.
 */
#include "trainer/ops/cuda/update.h"
#include "base/numeric/exact_sum.h"
#include "base/philox.h"
#include "tests/cuda_on_cpu/order.h"
#include "tests/trainer/cuda/cuda_case.h"
#include "trainer/ops/gradient_clip.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype DTYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

enum { DTYPES_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

/* Rules whose steps are at most 0.1, computed with about ten float operations. */
static const struct rule {
    enum update_rule rule;
    struct update_options options;
} ADAMW = {UPDATE_ADAMW, {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1}},
  SGD = {UPDATE_SGD, {.momentum = 0.9, .weight_decay = 0.1}},
  NESTEROV = {UPDATE_SGD, {.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}},
  PLAIN = {UPDATE_SGD, {.weight_decay = 0.1}},
  LION = {UPDATE_LION, {.beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1}};
static const struct update_scalars SCALARS = {
    .lr = 0.01,
    .correction1 = 1 / (1 - 0.9 * 0.9),
    .correction2 = 1 / (1 - 0.95 * 0.95),
    .gradient_scale = 0.25,
    .gradient_limit = 0.2,
};
static const double FLOAT_LOSS = 1e-6;

enum array { PARAMS, MOMENT1, MOMENT2, GRADIENTS, ARRAYS };

static const char *const NAMES[ARRAYS] = {"parameter", "first moment", "second moment", "gradient"};

struct update_state {
    const struct rule *rule;
    size_t count;
    double *array[ARRAYS];
    uint8_t *decays;
};

static size_t decays_count(size_t count)
{
    return (count + OPS_DECAY_ELEMENTS - 1) / OPS_DECAY_ELEMENTS;
}

/* Second moments are at least 0.5, so that no step is large. */
static struct update_state state_init(const struct rule *rule, size_t count)
{
    struct update_state s = {rule, count, {0}, malloc(decays_count(count))};
    assert_non_null(s.decays);
    for (int i = 0; i < ARRAYS; i++)
        s.array[i] = cuda_case_values(DTYPE_F32, 1 + (uint64_t)i, count, 1);
    for (size_t i = 0; i < count; i++)
        s.array[MOMENT2][i] = cuda_case_round(DTYPE_F32, 0.5 + fabs(s.array[MOMENT2][i]));
    for (size_t i = 0; i < decays_count(count); i++)
        s.decays[i] = i % 3 != 1;
    return s;
}

static void state_deinit(struct update_state *s)
{
    for (int i = 0; i < ARRAYS; i++)
        free(s->array[i]);
    free(s->decays);
}

/* Runs one step. *ret_compute receives the updated compute copy, malloc'ed. ret_compute NULL: there
 * is no compute copy. */
static void step_on_device(struct update_state *s, const struct update_scalars *scalars,
                           enum dtype type, double **ret_compute)
{
    void *device[ARRAYS], *decays = cuda_case_bytes(s->decays, decays_count(s->count));
    for (int i = 0; i < ARRAYS; i++)
        device[i] = cuda_case_array(DTYPE_F32, s->array[i], s->count);
    void *compute = ret_compute ? cuda_case_blank(type, s->count) : NULL;
    struct update_scalars *on_device = cuda_case_bytes(scalars, sizeof *scalars);
    const struct update_arrays arrays = {
        .params = device[PARAMS],
        .compute = compute,
        .moment1 = device[MOMENT1],
        .moment2 = device[MOMENT2],
        .gradients = device[GRADIENTS],
        .decays = decays,
        .count = s->count,
    };
    cuda_ok(cuda_update(s->rule->rule, &s->rule->options, &arrays, type, on_device, NULL));
    for (int i = 0; i < ARRAYS; i++) {
        free(s->array[i]);
        s->array[i] = cuda_case_read(DTYPE_F32, device[i], s->count);
        cuda_case_free(device[i]);
    }
    if (ret_compute)
        *ret_compute = cuda_case_read(type, compute, s->count);
    cuda_case_free(on_device);
    cuda_case_free(decays);
    cuda_case_free(compute);
}

static void step_on_cpu(struct update_state *s)
{
    struct ops *ops = cuda_case_cpu_open();
    const struct update_arrays arrays = {
        s->array[PARAMS],    NULL,      s->array[MOMENT1], s->array[MOMENT2],
        s->array[GRADIENTS], s->decays, s->count};
    ops->table->update(ops, s->rule->rule, &s->rule->options, &arrays, &SCALARS);
    cuda_case_cpu_close(ops);
}

static void check_step(const struct rule *rule, size_t count, enum dtype type, bool has_compute)
{
    struct update_state expected = state_init(rule, count), first = {0};
    step_on_cpu(&expected);
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        struct update_state found = state_init(rule, count);
        double *compute = NULL;
        step_on_device(&found, &SCALARS, type, has_compute ? &compute : NULL);
        for (int i = 0; i < ARRAYS; i++)
            cuda_case_near(NAMES[i], DTYPE_F32, found.array[i], expected.array[i], count,
                           FLOAT_LOSS);
        for (size_t i = 0; compute && i < count; i++)
            assert_true(compute[i] == cuda_case_round(type, found.array[PARAMS][i]));
        for (int i = 0; order > 0 && i < ARRAYS; i++)
            assert_memory_equal(found.array[i], first.array[i], count * sizeof(double));
        free(compute);
        state_deinit(&first);
        first = found;
    }
    order_set(0);
    state_deinit(&first);
    state_deinit(&expected);
}

static void steps_match_the_cpu(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 3, 7, 63, 64, 65, 257, 768, 1000, 1024, 2049, 5003};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int d = 0; d < DTYPES_COUNT; d++) {
            check_step(&ADAMW, counts[i], DTYPES[d], true);
            check_step(&ADAMW, counts[i], DTYPES[d], false);
        }
}

static void steps_of_other_rules_match_the_cpu(void **state)
{
    (void)state;
    static const struct rule *const rules[] = {&SGD, &NESTEROV, &PLAIN, &LION};
    static const size_t counts[] = {1, 3, 64, 65, 1000, 2049};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
            check_step(rules[r], counts[i], DTYPES[i % DTYPES_COUNT], true);
            check_step(rules[r], counts[i], DTYPE_F32, false);
        }
}

static void decaying_moments_are_flushed_to_zero(void **state)
{
    (void)state;
    struct update_state s = state_init(&ADAMW, 70);
    for (size_t i = 0; i < s.count; i++) {
        s.array[GRADIENTS][i] = 0;
        s.array[MOMENT1][i] = i % 2 ? FLT_MIN : -FLT_MIN;
        s.array[MOMENT2][i] = FLT_MIN;
    }
    s.array[MOMENT1][5] = 4 * (double)FLT_MIN;
    s.array[MOMENT2][69] = 4 * (double)FLT_MIN;
    step_on_device(&s, &SCALARS, DTYPE_BF16, NULL);
    for (size_t i = 0; i < s.count; i++) {
        assert_true(i == 5 ? s.array[MOMENT1][i] > 3 * (double)FLT_MIN : s.array[MOMENT1][i] == 0);
        assert_true(i == 69 ? s.array[MOMENT2][i] > 3 * (double)FLT_MIN : s.array[MOMENT2][i] == 0);
    }
    state_deinit(&s);
}

static void a_skipped_step_changes_nothing(void **state)
{
    (void)state;
    struct update_state before = state_init(&ADAMW, 1000), s = state_init(&ADAMW, 1000);
    struct update_scalars scalars = SCALARS;
    scalars.is_skipped = true;
    scalars.gradient_scale = NAN;
    step_on_device(&s, &scalars, DTYPE_BF16, NULL);
    for (int i = 0; i < ARRAYS; i++)
        assert_memory_equal(s.array[i], before.array[i], s.count * sizeof(double));
    state_deinit(&s);
    state_deinit(&before);
}

static void a_step_in_a_type_without_kernels_is_refused(void **state)
{
    (void)state;
    assert_int_equal(cuda_update(UPDATE_ADAMW, &ADAMW.options, &(struct update_arrays){.count = 1},
                                 DTYPE_F64, &SCALARS, NULL),
                     cudaErrorInvalidValue);
}

static void squares_of_rows_are_summed_in_double(void **state)
{
    (void)state;
    static const uint64_t sizes[][2] = {{1, 1},   {5000, 1}, {300, 7},  {257, 31},
                                        {17, 32}, {15, 33},  {9, 64},   {8, 257},
                                        {7, 768}, {3, 1000}, {2, 2049}, {1, 4096}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t rows = sizes[i][0], cols = sizes[i][1];
        double *x = cuda_case_values(DTYPE_F32, 1, rows * cols, 3), *first = NULL;
        for (size_t order = 0; order < order_count(); order++) {
            order_set(order);
            float *array = cuda_case_array(DTYPE_F32, x, rows * cols);
            double *sums = cuda_case_blank(DTYPE_F64, rows);
            cuda_ok(cuda_row_sumsq(sums, array, rows, cols, NULL));
            double *found = cuda_case_read_bytes(sums, rows * sizeof *sums);
            for (uint64_t row = 0; row < rows; row++) {
                double sum = 0;
                for (uint64_t col = 0; col < cols; col++)
                    sum += x[row * cols + col] * x[row * cols + col];
                /* squares of floats are exact in double; each addition loses at most half a unit in
                 * the last place */
                assert_true(fabs(found[row] - sum) <= ldexp(2 * (double)cols * sum, -53));
            }
            if (first)
                assert_memory_equal(found, first, rows * sizeof *found);
            free(first);
            first = found;
            cuda_case_free(array);
            cuda_case_free(sums);
        }
        order_set(0);
        free(x), free(first);
    }
}

/* Adds terms on the device to a nonzero sum, and compares all words with the host's sum. */
static void check_exact(const double *terms, size_t count)
{
    struct exact_sum before = {{0}}, expected;
    exact_sum_add(&before, -3.25);
    exact_sum_add(&before, 1e-300);
    expected = before;
    for (size_t i = 0; i < count; i++)
        exact_sum_add(&expected, terms[i]);
    for (size_t order = 0; order < order_count(); order++) {
        order_set(order);
        int64_t *words = cuda_case_bytes(&before, sizeof before);
        double *array = cuda_case_bytes(terms, count * sizeof *terms);
        cuda_ok(cuda_add_to_exact_sum(words, array, count, NULL));
        struct exact_sum *found = cuda_case_read_bytes(words, sizeof *found);
        assert_memory_equal(found, &expected, sizeof expected);
        free(found);
        cuda_case_free(words);
        cuda_case_free(array);
    }
    order_set(0);
}

static void doubles_of_any_size_are_added_exactly(void **state)
{
    (void)state;
    static const double special[] = {0,
                                     -0.0,
                                     DBL_TRUE_MIN,
                                     -DBL_TRUE_MIN,
                                     DBL_MIN,
                                     -DBL_MIN,
                                     DBL_MAX,
                                     DBL_MAX,
                                     DBL_MAX,
                                     -DBL_MAX,
                                     (double)NAN,
                                     (double)INFINITY,
                                     -(double)INFINITY,
                                     DBL_MIN / 3,
                                     1,
                                     0x1p-1022};
    check_exact(special, sizeof special / sizeof special[0]);
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        check_exact(&special[i], 1);
    static const size_t counts[] = {2, 31, 32, 33, 255, 257, 1000, 40000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        size_t count = test_is_sanitized() && counts[i] > 1000 ? 3000 : counts[i];
        double *terms = malloc(count * sizeof *terms);
        assert_non_null(terms);
        for (size_t j = 0; j < count;
             j++) { /* random bit patterns: all exponents, some not finite */
            struct philox_block random = philox(9, i, j);
            uint64_t bits = (uint64_t)random.word[0] << 32 | random.word[1];
            memcpy(&terms[j], &bits, sizeof bits);
        }
        check_exact(terms, count);
        for (size_t j = 0; j < count; j++) /* like losses: of similar size */
            terms[j] = 11 - philox_uniform(philox(10, i, j).word[0]);
        check_exact(terms, count);
        free(terms);
    }
}

static void flags_are_counted(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 7, 63, 257, 1000, 2049, 50000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        size_t count = test_is_sanitized() && counts[i] > 3000 ? 3000 : counts[i];
        uint8_t *flags = malloc(count);
        assert_non_null(flags);
        int64_t before = (INT64_C(1) << 40) - 1, expected = before;
        for (size_t j = 0; j < count; j++)
            expected += flags[j] = philox(4, i, j).word[0] & 1;
        for (size_t order = 0; order < order_count(); order++) {
            order_set(order);
            int64_t *word = cuda_case_bytes(&before, sizeof before);
            uint8_t *array = cuda_case_bytes(flags, count);
            cuda_ok(cuda_add_flag_count(word, array, count, NULL));
            int64_t *found = cuda_case_read_bytes(word, sizeof *found);
            assert_true(*found == expected);
            free(found);
            cuda_case_free(word);
            cuda_case_free(array);
        }
        order_set(0);
        free(flags);
    }
}

/* The kernel performs the host's arithmetic, so results are bit-identical. */
static void gradient_clipping_matches_the_host(void **state)
{
    (void)state;
    const struct scaler scaler = scaler_begin(true, 48);
    struct gradient_clip expected = gradient_clip_begin(&scaler, 11);
    struct gradient_clip *on_device = cuda_case_bytes(&expected, sizeof expected);
    for (uint64_t step = 0; step < 40; step++) {
        struct exact_sum losses = {{0}}, squares = {{0}};
        struct gradient_clip_input input = {.valid_count = 37 + (int64_t)step,
                                            .clip_norm = step % 3 ? 1e3 : 0,
                                            .first_update = expected.updates_count};
        for (int i = 0; i <= UNREAD_STEPS_MAX; i++)
            input.scheduled[i] = (struct scheduled_scalars){0.1 + i, 0.2 + i, 0.3 + i};
        for (uint64_t i = 0; i < 50; i++) {
            double unit = philox_uniform(philox(5, step, i).word[0]);
            exact_sum_add(&losses, 11 - unit);
            exact_sum_add(&squares, ldexp(unit, (int)(i % 90) + 20));
        }
        if (step % 7 == 6)
            exact_sum_add(step % 2 ? &losses : &squares,
                          step == 13 ? (double)NAN : (double)INFINITY);
        if (step == 29) /* far below the smallest normal number */
            squares = (struct exact_sum){{3}};
        order_set(step % order_count());
        int64_t *device_losses = cuda_case_bytes(&losses, sizeof losses);
        int64_t *device_squares = cuda_case_bytes(&squares, sizeof squares);
        cuda_ok(cuda_clip_gradients(on_device, device_losses, device_squares, &input, NULL));
        struct gradient_clip *found = cuda_case_read_bytes(on_device, sizeof *found);
        gradient_clip_compute(&expected, losses.limb, squares.limb, &input);
        assert_memory_equal(found, &expected, sizeof expected);
        free(found);
        cuda_case_free(device_losses);
        cuda_case_free(device_squares);
    }
    assert_int_equal(expected.updates_count, 11 + 40 - 5);
    cuda_case_free(on_device);
    order_set(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_match_the_cpu),
        cmocka_unit_test(steps_of_other_rules_match_the_cpu),
        cmocka_unit_test(decaying_moments_are_flushed_to_zero),
        cmocka_unit_test(a_skipped_step_changes_nothing),
        cmocka_unit_test(a_step_in_a_type_without_kernels_is_refused),
        cmocka_unit_test(squares_of_rows_are_summed_in_double),
        cmocka_unit_test(doubles_of_any_size_are_added_exactly),
        cmocka_unit_test(flags_are_counted),
        cmocka_unit_test(gradient_clipping_matches_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
