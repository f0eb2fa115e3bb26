/*
 * resample — compares coefficients with their definition in real numbers, the passes of all
 * supported kernels with a plain sum and with each other, and results with golden hashes.
 */
#include "image/kernels/resample.h"

#include "base/hash.h"
#include "base/philox.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ONE = 1 << RESAMPLE_FRACTION_BITS };

struct shape {
    struct resample_span span;
    uint32_t source_count, count;
};

static const struct shape shapes[] = {
    {{0, 400, 1}, 400, 224},
    {{17, 301, 1}, 400, 224},
    {{17, 301, 2}, 200, 224},
    {{3, 1, 1}, 4, 64},
    {{0, 1, 1}, 1, 1},
    {{0, 1, 1}, 1, 224},
    {{0, 7, 4}, 2, 3},
    {{5, 3997, 3}, 1334, 64},
    {{0, 65500, 1}, 65500, 1},
    {{1, 65000, 1}, 65500, 2},
    {{0, 65500, 1}, 65500, 4096},
    {{0, 2, 3}, 1, 5},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static uint8_t *noise(size_t count, uint64_t seed)
{
    uint8_t *data = malloc(count);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++)
        data[i] = (uint8_t)(philox(seed, 0, i).word[0] >> 24);
    return data;
}

static void coefficients_sum_to_one_exactly(void **state)
{
    (void)state;
    struct err err;
    struct resample_plan plan = {0};
    for (int flip = 0; flip < 2; flip++) {
        for (size_t k = 0; k < SHAPES; k++) {
            const struct shape *shape = &shapes[k];
            assert_ok(resample_plan_init(&plan, shape->span, shape->source_count, shape->count,
                                         flip, &err),
                      &err);
            assert_int_equal(plan.count, shape->count);
            for (uint32_t i = 0; i < plan.count; i++) {
                int64_t sum = 0;
                assert_true(plan.taps[i] >= 1 && plan.taps[i] <= plan.taps_max);
                assert_true(plan.first[i] + plan.taps[i] <= shape->source_count);
                assert_true(plan.first[i] >= plan.source_first &&
                            plan.first[i] + plan.taps[i] <= plan.source_end);
                for (uint32_t t = 0; t < plan.taps_max; t++) {
                    int16_t coefficient = plan.coefficients[(size_t)i * plan.taps_max + t];
                    assert_true(coefficient >= 0 && (t < plan.taps[i] || coefficient == 0));
                    sum += coefficient;
                }
                assert_int_equal(sum, ONE);
            }
        }
    }
    resample_plan_deinit(&plan);
}

static void coefficients_follow_the_triangle_filter(void **state)
{
    (void)state;
    struct err err;
    struct resample_plan plan = {0};
    for (size_t k = 0; k < SHAPES; k++) {
        const struct shape *shape = &shapes[k];
        double scale = (double)shape->span.length_num / (double)shape->span.den / shape->count;
        double half_width = scale > 1 ? scale : 1;
        assert_ok(
            resample_plan_init(&plan, shape->span, shape->source_count, shape->count, false, &err),
            &err);
        for (uint32_t i = 0; i < plan.count; i += 1 + plan.count / 50) {
            double center =
                       (double)shape->span.begin_num / (double)shape->span.den + (i + 0.5) * scale,
                   total = 0;
            for (uint32_t x = 0; x < shape->source_count; x++)
                total += fmax(0, half_width - fabs(x + 0.5 - center));
            for (uint32_t x = 0; x < shape->source_count; x++) {
                double wanted = fmax(0, half_width - fabs(x + 0.5 - center)) / total * ONE;
                bool inside = x >= plan.first[i] && x < plan.first[i] + plan.taps[i];
                double actual =
                    inside ? plan.coefficients[(size_t)i * plan.taps_max + x - plan.first[i]] : 0;
                assert_true(fabs(actual - wanted) <= 1.0001);
            }
        }
    }
    resample_plan_deinit(&plan);
}

static void a_plan_does_not_depend_on_earlier_plans(void **state)
{
    (void)state;
    struct err err;
    struct resample_plan reused = {0}, fresh = {0};
    struct resample_span large = {0, 4000, 1}, small = {10, 90, 2};
    assert_ok(resample_plan_init(&reused, large, 4000, 300, true, &err), &err);
    assert_ok(resample_plan_init(&reused, small, 60, 40, false, &err), &err);
    assert_ok(resample_plan_init(&fresh, small, 60, 40, false, &err), &err);
    assert_int_equal(reused.taps_max, fresh.taps_max);
    assert_int_equal(reused.source_first, fresh.source_first);
    assert_int_equal(reused.source_end, fresh.source_end);
    assert_memory_equal(reused.first, fresh.first, 40 * sizeof *fresh.first);
    assert_memory_equal(reused.coefficients, fresh.coefficients,
                        40 * fresh.taps_max * sizeof *fresh.coefficients);
    resample_plan_deinit(&reused);
    resample_plan_deinit(&fresh);
}

static void flip_reverses_the_outputs(void **state)
{
    (void)state;
    struct err err;
    struct resample_plan straight = {0}, flipped = {0};
    for (size_t k = 0; k < SHAPES; k++) {
        const struct shape *shape = &shapes[k];
        uint32_t count = shape->count;
        assert_ok(
            resample_plan_init(&straight, shape->span, shape->source_count, count, false, &err),
            &err);
        assert_ok(resample_plan_init(&flipped, shape->span, shape->source_count, count, true, &err),
                  &err);
        size_t row = straight.taps_max;
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(straight.first[i], flipped.first[count - 1 - i]);
            assert_memory_equal(straight.coefficients + i * row,
                                flipped.coefficients + (count - 1 - i) * row,
                                row * sizeof(int16_t));
        }
    }
    resample_plan_deinit(&straight);
    resample_plan_deinit(&flipped);
}

static void check_passes(enum image_kernels kernels, struct resample_span span)
{
    enum { ROWS = 90, COLUMNS_MAX = 150, COUNT = 37, STRIDE = 160 };
    struct err err;
    struct resample_plan plan = {0};
    uint8_t *source = noise((size_t)ROWS * STRIDE, 1), *turned = malloc(COLUMNS_MAX * (COUNT + 1));
    uint8_t *straight = malloc(COUNT * (COLUMNS_MAX + 1));
    assert_true(turned && straight);
    assert_ok(resample_plan_init(&plan, span, ROWS, COUNT, true, &err), &err);
    for (uint32_t columns = 1; columns <= COLUMNS_MAX; columns++) {
        /* exactly as much data as the plan needs, so that a sanitizer detects overreads */
        uint32_t rows = plan.source_end - plan.source_first;
        size_t bytes = (size_t)(rows - 1) * STRIDE + columns;
        uint8_t *needed = malloc(bytes);
        assert_non_null(needed);
        memcpy(needed, source + (size_t)plan.source_first * STRIDE, bytes);
        struct resample_rows given = {needed, STRIDE, plan.source_first, columns};
        memset(turned, 0x5a, COLUMNS_MAX * (COUNT + 1));
        memset(straight, 0x5a, COUNT * (COLUMNS_MAX + 1));
        resample_columns(kernels, &plan, &given, true, turned, COUNT + 1);
        resample_columns(kernels, &plan, &given, false, straight, COLUMNS_MAX + 1);
        for (uint32_t i = 0; i < COUNT; i++) {
            for (uint32_t c = 0; c < columns; c++) {
                int32_t sum = ONE / 2;
                for (uint32_t t = 0; t < plan.taps[i]; t++)
                    sum += plan.coefficients[i * plan.taps_max + t] *
                           source[(plan.first[i] + t) * STRIDE + c];
                assert_int_equal(turned[c * (COUNT + 1) + i], sum >> RESAMPLE_FRACTION_BITS);
                assert_int_equal(straight[i * (COLUMNS_MAX + 1) + c],
                                 sum >> RESAMPLE_FRACTION_BITS);
            }
            assert_int_equal(straight[i * (COLUMNS_MAX + 1) + columns], 0x5a);
        }
        for (uint32_t c = 0; c < columns; c++)
            assert_int_equal(turned[c * (COUNT + 1) + COUNT], 0x5a);
        free(needed);
    }
    free(source);
    free(turned);
    free(straight);
    resample_plan_deinit(&plan);
}

static void passes_match_a_naive_sum_for_any_number_of_columns(void **state)
{
    (void)state;
    /* a reduction, an enlargement at the end of the line, one row, the same size */
    const struct resample_span spans[] = {{11, 130, 2}, {130, 50, 2}, {7, 1, 1}, {20, 37, 1}};
    for (enum image_kernels kernels = 0; kernels < IMAGE_KERNELS_COUNT; kernels++)
        if (image_kernels_supported(kernels))
            for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++)
                check_passes(kernels, spans[i]);
}

struct pass {
    struct resample_plan plan;
    struct resample_rows source;
    size_t target_stride_bytes, target_bytes;
    uint8_t *memory;
};

static uint32_t draw(uint64_t seed, uint64_t number, uint32_t below)
{
    return philox(seed, 0, number).word[0] % below;
}

/* Draws a span of a source of up to 300 rows and columns, reduced or enlarged, mirrored or not. */
static void draw_pass(struct pass *pass, uint64_t seed, bool transposed)
{
    struct err err;
    uint32_t rows = 1 + draw(seed, 0, 300), columns = 1 + draw(seed, 1, 300),
             count = 1 + draw(seed, 2, 100);
    int64_t den = 1 + draw(seed, 3, 4), begin = draw(seed, 4, rows * (uint32_t)den);
    int64_t length = 1 + draw(seed, 5, rows * (uint32_t)den - (uint32_t)begin);
    assert_ok(resample_plan_init(&pass->plan, (struct resample_span){begin, length, den}, rows,
                                 count, draw(seed, 6, 2), &err),
              &err);
    size_t stride_bytes = columns + draw(seed, 7, 3),
           needed = pass->plan.source_end - pass->plan.source_first;
    pass->memory = noise(needed * stride_bytes, seed);
    pass->source =
        (struct resample_rows){pass->memory, stride_bytes, pass->plan.source_first, columns};
    pass->target_stride_bytes = (transposed ? count : columns) + draw(seed, 8, 3);
    pass->target_bytes = pass->target_stride_bytes * (transposed ? columns : count);
}

static void every_kernel_matches_plain_c(void **state)
{
    (void)state;
    const uint64_t first_seed = 20240917;
    struct pass pass = {0};
    print_message("seeds from %d\n", (int)first_seed);
    for (uint64_t i = 0; i < 400; i++) {
        bool transposed = i % 3 > 0;
        draw_pass(&pass, first_seed + i, transposed);
        uint8_t *wanted = malloc(pass.target_bytes), *given = malloc(pass.target_bytes);
        assert_true(wanted && given);
        memset(wanted, 0x5a, pass.target_bytes);
        resample_columns(IMAGE_KERNELS_PLAIN, &pass.plan, &pass.source, transposed, wanted,
                         pass.target_stride_bytes);
        for (enum image_kernels kernels = 0; kernels < IMAGE_KERNELS_COUNT; kernels++) {
            if (!image_kernels_supported(kernels))
                continue;
            memset(given, 0x5a, pass.target_bytes);
            resample_columns(kernels, &pass.plan, &pass.source, transposed, given,
                             pass.target_stride_bytes);
            if (memcmp(given, wanted, pass.target_bytes))
                fail_msg("%s differs from plain C, seed %d", image_kernels_name(kernels),
                         (int)(first_seed + i));
        }
        free(wanted);
        free(given);
        free(pass.memory);
    }
    resample_plan_deinit(&pass.plan);
}

static void constant_images_stay_constant(void **state)
{
    (void)state;
    enum { COLUMNS = 70 };
    struct err err;
    struct resample_plan plan = {0};
    for (int value = 0; value < 256; value += 51) {
        for (size_t k = 0; k < SHAPES; k++) {
            const struct shape *shape = &shapes[k];
            size_t bytes = (size_t)shape->source_count * COLUMNS,
                   out_bytes = (size_t)shape->count * COLUMNS;
            uint8_t *source = malloc(bytes), *target = malloc(out_bytes);
            assert_true(source && target);
            memset(source, value, bytes);
            assert_ok(resample_plan_init(&plan, shape->span, shape->source_count, shape->count,
                                         false, &err),
                      &err);
            struct resample_rows rows = {source, COLUMNS, 0, COLUMNS};
            resample_columns(image_kernels_best(), &plan, &rows, true, target, shape->count);
            for (size_t i = 0; i < out_bytes; i++)
                assert_int_equal(target[i], value);
            free(source);
            free(target);
        }
    }
    resample_plan_deinit(&plan);
}

static void resampling_to_the_same_size_is_the_identity(void **state)
{
    (void)state;
    enum { SIDE = 83 };
    struct err err;
    struct resample_plan plan = {0};
    uint8_t *source = noise(SIDE * SIDE, 2), turned[SIDE * SIDE], target[SIDE * SIDE];
    assert_ok(
        resample_plan_init(&plan, (struct resample_span){0, SIDE, 1}, SIDE, SIDE, false, &err),
        &err);
    resample_columns(image_kernels_best(), &plan, &(struct resample_rows){source, SIDE, 0, SIDE},
                     true, turned, SIDE);
    resample_columns(image_kernels_best(), &plan, &(struct resample_rows){turned, SIDE, 0, SIDE},
                     true, target, SIDE);
    assert_memory_equal(source, target, SIDE * SIDE);
    free(source);
    resample_plan_deinit(&plan);
}

static void pixels_are_the_same_on_any_machine(void **state)
{
    (void)state;
    enum { ROWS = 533, COLUMNS = 400, SIDE = 224 };
    struct err err;
    struct resample_plan down = {0}, across = {0};
    uint8_t *source = noise(ROWS * COLUMNS, 3), *turned = malloc(COLUMNS * SIDE),
            *target = malloc(SIDE * SIDE);
    assert_true(turned && target);
    assert_ok(
        resample_plan_init(&down, (struct resample_span){33, 417, 1}, ROWS, SIDE, false, &err),
        &err);
    assert_ok(
        resample_plan_init(&across, (struct resample_span){1, 751, 2}, COLUMNS, SIDE, true, &err),
        &err);
    resample_columns(image_kernels_best(), &down,
                     &(struct resample_rows){source, COLUMNS, 0, COLUMNS}, true, turned, SIDE);
    resample_columns(image_kernels_best(), &across, &(struct resample_rows){turned, SIDE, 0, SIDE},
                     true, target, SIDE);
    assert_true(hash_64(target, SIDE * SIDE) == UINT64_C(0x3a194dc71077f7b5));
    free(source);
    free(turned);
    free(target);
    resample_plan_deinit(&down);
    resample_plan_deinit(&across);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coefficients_sum_to_one_exactly),
        cmocka_unit_test(coefficients_follow_the_triangle_filter),
        cmocka_unit_test(a_plan_does_not_depend_on_earlier_plans),
        cmocka_unit_test(flip_reverses_the_outputs),
        cmocka_unit_test(passes_match_a_naive_sum_for_any_number_of_columns),
        cmocka_unit_test(every_kernel_matches_plain_c),
        cmocka_unit_test(constant_images_stay_constant),
        cmocka_unit_test(resampling_to_the_same_size_is_the_identity),
        cmocka_unit_test(pixels_are_the_same_on_any_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
