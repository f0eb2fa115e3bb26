/*
 * augment — compares operations with Pillow, choices with their specification, and results with
 * golden hashes.
 */
#include "image/augment.h"

#include "base/hash.h"
#include "image/pipeline/pipeline.h"
#include "tests/image/fixtures.h"
#include "tests/support/test.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 61, HEIGHT = 47, BYTES = 3 * WIDTH * HEIGHT };

static const char *const op_names[AUGMENT_OPS_COUNT] = {
    "identity",  "shear_x",    "shear_y",       "translate_x", "translate_y",
    "rotate",    "brightness", "color",         "contrast",    "sharpness",
    "posterize", "solarize",   "auto_contrast", "equalize",    "hue"};

/* Renders dark, bright, gray and colored areas with many, but not all, levels. */
static uint8_t *render(void)
{
    uint8_t *rgb = test_render_rgb(WIDTH, HEIGHT);
    for (size_t i = 0; i < BYTES; i++)
        rgb[i] = (uint8_t)(20 + rgb[i] * 5 / 6);
    memset(rgb + 3 * 100, 90, 60);
    return rgb;
}

static void write_file(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[TEST_PATH_BYTES_MAX + 20];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void operations_match_pillow(void **state)
{
    (void)state;
    static const int32_t values[AUGMENT_OPS_COUNT][7] = {
        [AUGMENT_SHEAR_X] = {9, -9, 30, -30, 1, -20},
        [AUGMENT_SHEAR_Y] = {9, -9, 30, -30, 1, -20},
        [AUGMENT_TRANSLATE_X] = {5, -5, 27, -27, 61, 1},
        [AUGMENT_TRANSLATE_Y] = {5, -5, 21, -21, 47, 1},
        [AUGMENT_ROTATE] = {9, -9, 30, -30, 1, -17},
        [AUGMENT_BRIGHTNESS] = {6554, 47841, 65536, 83231, 124518, 131072},
        [AUGMENT_COLOR] = {6554, 47841, 65536, 83231, 124518, 131072},
        [AUGMENT_CONTRAST] = {6554, 47841, 65536, 83231, 124518, 131072},
        [AUGMENT_SHARPNESS] = {6554, 47841, 65536, 83231, 124518, 131072},
        [AUGMENT_POSTERIZE] = {1, 2, 4, 6, 7, 8},
        [AUGMENT_SOLARIZE] = {0, 17, 357, 250, 493, 510},
        [AUGMENT_HUE] = {39321, -39321, 65536, -65536, 196608, -1},
    };
    const char *python = test_need_python("PIL");
    char folder[TEST_PATH_BYTES_MAX], steps[AUGMENT_OPS_COUNT * 6 * 32];
    size_t used = 0, count = 0;
    uint8_t *source = render(), *given = malloc((size_t)AUGMENT_OPS_COUNT * 6 * BYTES);
    static uint8_t scratch[BYTES];
    assert_non_null(given);
    for (int op = 0; op < AUGMENT_OPS_COUNT; op++) {
        for (int i = 0; i < 6; i++, count++) {
            uint8_t *rgb = given + count * BYTES;
            memcpy(rgb, source, BYTES);
            augment_apply((struct augment_step){(enum augment_op)op, values[op][i]}, rgb, WIDTH,
                          HEIGHT, 3 * WIDTH, scratch);
            used += (size_t)snprintf(steps + used, sizeof steps - used, "%s %d\n", op_names[op],
                                     values[op][i]);
        }
    }
    test_make_folder(folder);
    write_file(folder, "source.rgb", source, BYTES);
    write_file(folder, "given.rgb", given, count * BYTES);
    write_file(folder, "steps", steps, used);
    assert_int_equal(test_run("'%s' -W ignore '%s/tests/image/augment_pillow.py' '%s' %d %d",
                              python, TEST_SOURCE_DIR, folder, WIDTH, HEIGHT),
                     0);
    test_remove_folder(folder);
    free(source);
    free(given);
}

static void rows_may_have_a_stride(void **state)
{
    (void)state;
    enum { STRIDE = 3 * WIDTH + 5 };
    static uint8_t scratch[BYTES], apart[STRIDE * HEIGHT];
    for (int op = 0; op < AUGMENT_OPS_COUNT; op++) {
        struct augment_step step = {(enum augment_op)op, op == AUGMENT_POSTERIZE ? 3 : 11};
        uint8_t *packed = render();
        memset(apart, 0x5a, sizeof apart);
        for (size_t y = 0; y < HEIGHT; y++)
            memcpy(apart + y * STRIDE, packed + y * 3 * WIDTH, 3 * WIDTH);
        augment_apply(step, packed, WIDTH, HEIGHT, 3 * WIDTH, scratch);
        augment_apply(step, apart, WIDTH, HEIGHT, STRIDE, scratch);
        for (size_t y = 0; y < HEIGHT; y++) {
            assert_memory_equal(apart + y * STRIDE, packed + y * 3 * WIDTH, 3 * WIDTH);
            assert_int_equal(apart[y * STRIDE + 3 * WIDTH], 0x5a);
        }
        free(packed);
    }
}

/* Checks that an operation gives the same pixels with contiguous and with padded rows, and does not
 * write the padding. */
static void check_size(struct augment_step step, uint32_t width, uint32_t height)
{
    enum { PADDING = 7, FILLER = 0x5a };
    size_t row_bytes = 3 * (size_t)width, stride_bytes = row_bytes + PADDING;
    /* exact sizes, so that a sanitizer detects overruns */
    uint8_t *rgb = malloc(row_bytes * height), *scratch = malloc(row_bytes * height);
    uint8_t *apart = malloc(stride_bytes * height);
    assert_true(rgb && scratch && apart);
    memset(apart, FILLER, stride_bytes * height);
    for (uint32_t y = 0; y < height; y++) {
        for (size_t i = 0; i < row_bytes; i++)
            rgb[y * row_bytes + i] = (uint8_t)(20 + (y * row_bytes + i) * 73 % 211);
        memcpy(apart + y * stride_bytes, rgb + y * row_bytes, row_bytes);
    }
    augment_apply(step, rgb, width, height, row_bytes, scratch);
    memset(scratch, 0, row_bytes * height);
    augment_apply(step, apart, width, height, stride_bytes, scratch);
    for (uint32_t y = 0; y < height; y++) {
        if (memcmp(apart + y * stride_bytes, rgb + y * row_bytes, row_bytes) != 0)
            fail_msg("%s of %u x %u: row %u differs", op_names[step.op], width, height, y);
        for (size_t i = row_bytes; i < stride_bytes; i++)
            assert_int_equal(apart[y * stride_bytes + i], FILLER);
    }
    free(rgb);
    free(scratch);
    free(apart);
}

static void all_sizes_are_augmented(void **state)
{
    (void)state;
    for (uint32_t width = 1; width < 5; width++)
        for (uint32_t height = 1; height < 5; height++)
            for (int op = 0; op < AUGMENT_OPS_COUNT; op++) {
                int32_t value = op == AUGMENT_POSTERIZE    ? 1
                                : op >= AUGMENT_BRIGHTNESS ? 83231
                                                           : -30;
                check_size((struct augment_step){(enum augment_op)op, value}, width, height);
            }
}

static void randaugment_draws_operations_and_signs_uniformly(void **state)
{
    (void)state;
    enum { SAMPLES = 14000 };
    struct augment_options options = {.randaugment_ops = 2, .randaugment_magnitude = 9};
    struct augment_step steps[AUGMENT_STEPS_MAX];
    unsigned counts[AUGMENT_OPS_COUNT] = {0}, negative = 0, signed_count = 0;
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
        assert_int_equal(augment_choose(&options, 224, 200, 1, 0, 0, sample, steps), 2);
        for (int i = 0; i < 2; i++) {
            counts[steps[i].op]++;
            if (steps[i].op == AUGMENT_ROTATE) {
                assert_int_equal(abs(steps[i].value), 9);
                signed_count++;
                negative += steps[i].value < 0;
            }
            if (steps[i].op == AUGMENT_TRANSLATE_X)
                assert_int_equal(abs(steps[i].value), (int)(150.0 / 331 * 224 * 9 / 30));
            if (steps[i].op == AUGMENT_TRANSLATE_Y)
                assert_int_equal(abs(steps[i].value), (int)(150.0 / 331 * 200 * 9 / 30));
            if (steps[i].op == AUGMENT_COLOR)
                assert_true(steps[i].value == 83231 || steps[i].value == 47841); /* 1.27, 0.73 */
        }
    }
    for (int op = 0; op < AUGMENT_HUE; op++)
        assert_true(counts[op] > 1800 && counts[op] < 2200); /* 2000 +- 4.6 sigma */
    assert_int_equal(counts[AUGMENT_HUE], 0);
    assert_true(negative > signed_count * 2 / 5 && negative < signed_count * 3 / 5);
}

static void magnitudes_match_torchvision(void **state)
{
    (void)state;
    struct augment_step steps[AUGMENT_STEPS_MAX];
    for (uint32_t magnitude = 0; magnitude <= RANDAUGMENT_MAGNITUDE_MAX; magnitude++) {
        struct augment_options options = {.randaugment_ops = 16,
                                          .randaugment_magnitude = magnitude};
        for (uint64_t sample = 0; sample < 20; sample++) {
            uint32_t count = augment_choose(&options, 100, 100, 2, 0, 0, sample, steps);
            for (uint32_t i = 0; i < count; i++) {
                if (steps[i].op == AUGMENT_POSTERIZE)
                    assert_int_equal(steps[i].value, 8 - (int)nearbyint(magnitude / 7.5));
                if (steps[i].op == AUGMENT_SOLARIZE)
                    assert_true(steps[i].value == 2 * 255.0 * (30 - magnitude) / 30);
                if (steps[i].op == AUGMENT_BRIGHTNESS)
                    assert_true(fabs(fabs(steps[i].value / 65536.0 - 1) - 0.9 * magnitude / 30) <
                                1e-5);
            }
        }
    }
}

static void jitter_draws_factors_and_orders_uniformly(void **state)
{
    (void)state;
    enum { SAMPLES = 24000 };
    struct augment_options options = {
        .brightness = 0.4, .contrast = 0.3, .saturation = 0.2, .hue = 0.1};
    struct augment_step steps[AUGMENT_STEPS_MAX];
    static unsigned orders[AUGMENT_OPS_COUNT][AUGMENT_OPS_COUNT];
    double least = 9, most = 0, mean = 0;
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
        assert_int_equal(augment_choose(&options, 8, 8, 1, 0, 0, sample, steps), 4);
        orders[steps[0].op][steps[1].op]++;
        for (int i = 0; i < 4; i++) {
            double value = steps[i].value / 65536.0;
            double reach = steps[i].op == AUGMENT_HUE          ? 0.6
                           : steps[i].op == AUGMENT_BRIGHTNESS ? 0.4
                           : steps[i].op == AUGMENT_CONTRAST   ? 0.3
                                                               : 0.2;
            assert_true(fabs(value - (steps[i].op != AUGMENT_HUE)) <= reach + 1e-5);
            if (steps[i].op == AUGMENT_BRIGHTNESS) {
                least = value < least ? value : least;
                most = value > most ? value : most;
                mean += value / SAMPLES;
            }
        }
    }
    assert_true(least < 0.601 && most > 1.399 && fabs(mean - 1) < 0.01);
    unsigned kinds = 0;
    for (int a = 0; a < AUGMENT_OPS_COUNT; a++)
        for (int b = 0; b < AUGMENT_OPS_COUNT; b++) {
            kinds += orders[a][b] > 0;
            /* 2000 of each of 12 pairs expected */
            assert_true(orders[a][b] == 0 || (orders[a][b] > 1780 && orders[a][b] < 2220));
        }
    assert_int_equal(kinds, 12);
    options = (struct augment_options){.hue = 0.5};
    assert_int_equal(augment_choose(&options, 8, 8, 1, 0, 0, 0, steps), 1);
    options = (struct augment_options){0};
    assert_int_equal(augment_choose(&options, 8, 8, 1, 0, 0, 0, steps), 0);
}

static void the_pipeline_augments_the_resized_image(void **state)
{
    (void)state;
    enum { SIDE = 40 };
    struct err err;
    struct image_options options = {SIDE, SIDE, crop_options_default(CROP_RANDOM)};
    struct image_pipeline *plain, *augmented;
    struct augment_step steps[AUGMENT_STEPS_MAX];
    static uint8_t wanted[3 * SIDE * SIDE], given[3 * SIDE * SIDE], scratch[3 * SIDE * SIDE];
    size_t bytes, changed = 0;
    unsigned char *jpeg = test_render_jpeg(120, 90, 90, &bytes);
    assert_ok(image_pipeline_open(&options, &plain, &err), &err);
    options.augment = (struct augment_options){2, 9, 0.4, 0.4, 0.4, 0.1};
    assert_ok(image_pipeline_open(&options, &augmented, &err), &err);
    for (uint64_t sample = 0; sample < 30; sample++) {
        struct image_key key = {7, 1, 2, sample};
        assert_ok(image_pipeline_run(plain, jpeg, bytes, "a", key, wanted, 3 * SIDE, &err), &err);
        assert_ok(image_pipeline_run(augmented, jpeg, bytes, "a", key, given, 3 * SIDE, &err),
                  &err);
        changed += memcmp(wanted, given, sizeof given) != 0;
        uint32_t count = augment_choose(&options.augment, SIDE, SIDE, 7, 1, 2, sample, steps);
        for (uint32_t i = 0; i < count; i++)
            augment_apply(steps[i], wanted, SIDE, SIDE, 3 * SIDE, scratch);
        assert_memory_equal(wanted, given, sizeof given);
    }
    assert_int_equal(changed, 30);
    image_pipeline_close(plain);
    image_pipeline_close(augmented);
    free(jpeg);
}

static void pixels_are_the_same_on_any_machine(void **state)
{
    (void)state;
    static uint8_t scratch[BYTES];
    struct augment_options options = {2, 9, 0.4, 0.4, 0.4, 0.1};
    struct augment_step steps[AUGMENT_STEPS_MAX];
    uint64_t hash = 0;
    for (uint64_t sample = 0; sample < 50; sample++) {
        uint8_t *rgb = render();
        uint32_t count = augment_choose(&options, WIDTH, HEIGHT, 5, 0, 1, sample, steps);
        for (uint32_t i = 0; i < count; i++)
            augment_apply(steps[i], rgb, WIDTH, HEIGHT, 3 * WIDTH, scratch);
        hash = hash * 31 + hash_64(rgb, BYTES);
        free(rgb);
    }
    assert_true(hash == UINT64_C(0x26ca3cae13622f6a));
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct augment_options bad[] = {
        {.randaugment_ops = 17},
        {.randaugment_magnitude = 31},
        {.brightness = -0.1},
        {.brightness = 1.1},
        {.contrast = NAN},
        {.saturation = 2},
        {.hue = 0.6},
    };
    struct err err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(augment_options_check(&bad[i], &err), -EINVAL);
    assert_ok(augment_options_check(&(struct augment_options){16, 30, 1, 1, 1, 0.5}, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_match_pillow),
        cmocka_unit_test(rows_may_have_a_stride),
        cmocka_unit_test(all_sizes_are_augmented),
        cmocka_unit_test(randaugment_draws_operations_and_signs_uniformly),
        cmocka_unit_test(magnitudes_match_torchvision),
        cmocka_unit_test(jitter_draws_factors_and_orders_uniformly),
        cmocka_unit_test(the_pipeline_augments_the_resized_image),
        cmocka_unit_test(pixels_are_the_same_on_any_machine),
        cmocka_unit_test(options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
