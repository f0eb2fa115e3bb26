/*
 * normalize — compares values with torch and Pillow and with a golden hash, and checks the options.
 */
#include "image/normalize.h"

#include "base/hash.h"
#include "base/philox.h"
#include "tests/support/test.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Not a multiple of a block of pixels. */
enum { SIDE = 61, PIXELS = SIDE * SIDE, BYTES_MAX = PIXELS * 3 * 4 };

static const enum dtype dtypes[] = {DTYPE_U8, DTYPE_F32, DTYPE_F16, DTYPE_BF16};

/* Mean and std of ImageNet, none, and others. */
static const double scales[][2][3] = {{{0, 0, 0}, {1, 1, 1}},
                                      {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
                                      {{0.5, -3, 1e-3}, {1 / 255., 1e3, 7e-5}}};
enum { SCALES_COUNT = sizeof scales / sizeof scales[0] };

/* number: of a layout, a type, channels and a scale. False: there is no such case. */
static bool make_case(uint32_t number, struct normalize_options *options)
{
    *options = normalize_options_default();
    options->layout = number % 2 ? IMAGE_LAYOUT_CHW : IMAGE_LAYOUT_HWC;
    options->channels = number / 2 % 2 ? 1 : 3;
    options->dtype = dtypes[number / 4 % 4];
    memcpy(options->mean, scales[number / 16][0], sizeof options->mean);
    memcpy(options->std, scales[number / 16][1], sizeof options->std);
    return options->dtype != DTYPE_U8 || number < 16;
}
enum { CASES_COUNT = 16 * SCALES_COUNT };

static void make_picture(uint8_t rgb[3 * PIXELS])
{
    for (uint32_t i = 0; i < 3 * PIXELS; i++)
        rgb[i] = (uint8_t)(i < 3 * 256 ? i / 3 : philox(1, 0, i).word[0]);
}

/* Returns the bytes written, and checks that no more were. */
static size_t apply(const struct normalize_options *options, const uint8_t *rgb, size_t pixels,
                    uint8_t values[BYTES_MAX + 1])
{
    struct normalize normalize;
    struct err err;
    size_t bytes = pixels * options->channels * dtype_bytes(options->dtype);
    assert_ok(normalize_options_check(options, &err), &err);
    normalize_init(&normalize, options);
    values[bytes] = 0xa5;
    normalize_apply(&normalize, rgb, pixels, values);
    assert_int_equal(values[bytes], 0xa5);
    return bytes;
}

static _Alignas(8) uint8_t values[BYTES_MAX + 1];
static uint8_t picture[3 * PIXELS];

static void write_bytes(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[TEST_PATH_BYTES_MAX + 20];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void values_match_torch_and_pillow(void **state)
{
    (void)state;
    const char *python = test_need_python("torch, PIL");
    char folder[TEST_PATH_BYTES_MAX], line[200];
    struct normalize_options options;
    test_make_folder(folder);
    make_picture(picture);
    write_bytes(folder, "picture.u8", picture, sizeof picture);
    for (uint32_t number = 0; number < CASES_COUNT; number++) {
        if (!make_case(number, &options))
            continue;
        const double *mean = options.mean, *std = options.std;
        bool is_gray = options.channels == 1;
        int bytes =
            snprintf(line, sizeof line, is_gray ? "%s %s 1 %.17g" : "%s %s 3 %.17g,%.17g,%.17g",
                     options.layout == IMAGE_LAYOUT_CHW ? "chw" : "hwc", dtype_name(options.dtype),
                     mean[0], mean[1], mean[2]);
        bytes += snprintf(line + bytes, sizeof line - (size_t)bytes,
                          is_gray ? " %.17g\n" : " %.17g,%.17g,%.17g\n", std[0], std[1], std[2]);
        write_bytes(folder, "cases", line, (size_t)bytes);
        write_bytes(folder, "values", values, apply(&options, picture, PIXELS, values));
    }
    assert_int_equal(test_run("'%s' -W ignore '%s/tests/image/normalize_oracle.py' '%s'", python,
                              TEST_SOURCE_DIR, folder),
                     0);
    test_remove_folder(folder);
}

static void values_are_the_same_on_every_machine(void **state)
{
    (void)state;
    struct normalize_options options;
    uint64_t hash = 0;
    make_picture(picture);
    for (uint32_t number = 0; number < CASES_COUNT; number++)
        if (make_case(number, &options))
            hash = hash * 31 + hash_64(values, apply(&options, picture, PIXELS, values));
    assert_true(hash == UINT64_C(0x5facb80d2d875bff));
}

static void floats_are_fractions_by_default(void **state)
{
    (void)state;
    struct normalize_options options = normalize_options_default();
    const float *floats = (const float *)(const void *)values;
    options.dtype = DTYPE_F32;
    make_picture(picture);
    apply(&options, picture, PIXELS, values);
    for (uint32_t i = 0; i < 3 * PIXELS; i++)
        assert_true(floats[i] == (float)picture[i] / 255.0f);
}

/* Each pixel by itself gives the same values as all of them, in blocks. */
static void pixels_are_independent(void **state)
{
    (void)state;
    static _Alignas(8) uint8_t alone[BYTES_MAX + 1];
    struct normalize_options options;
    make_picture(picture);
    for (uint32_t number = 0; number < CASES_COUNT; number++) {
        if (!make_case(number, &options))
            continue;
        size_t value_bytes = dtype_bytes(options.dtype);
        apply(&options, picture, PIXELS, values);
        for (size_t i = 0; i < PIXELS; i += 1 + i % 7) {
            apply(&options, picture + 3 * i, 1, alone);
            for (uint32_t c = 0; c < options.channels; c++) {
                size_t at =
                    options.layout == IMAGE_LAYOUT_CHW ? c * PIXELS + i : i * options.channels + c;
                assert_memory_equal(values + at * value_bytes, alone + c * value_bytes,
                                    value_bytes);
            }
        }
    }
}

static void gray_pixels_keep_their_level(void **state)
{
    (void)state;
    struct normalize_options options = normalize_options_default();
    options.channels = 1;
    for (uint32_t i = 0; i < 3 * 256; i++)
        picture[i] = (uint8_t)(i / 3);
    apply(&options, picture, 256, values);
    for (uint32_t i = 0; i < 256; i++)
        assert_int_equal(values[i], i);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct normalize_options options;
        const char *text;
    } cases[] = {
        {{.dtype = DTYPE_U8, .channels = 2, .std = {1, 1, 1}}, "number of channels"},
        {{.dtype = DTYPE_F64, .channels = 3, .std = {1, 1, 1}}, "that type"},
        {{.dtype = DTYPE_U8, .channels = 3, .std = {1, 1, 2}}, "bytes cannot be normalized"},
        {{.dtype = DTYPE_U8, .channels = 1, .mean = {0.5}, .std = {1}}, "cannot be normalized"},
        {{.dtype = DTYPE_F32, .channels = 3, .std = {1, 0, 1}}, "that mean and std"},
        {{.dtype = DTYPE_F32, .channels = 3, .std = {1, 1, -1}}, "that mean and std"},
        {{.dtype = DTYPE_F32, .channels = 1, .std = {1e-50}}, "that mean and std"},
        {{.dtype = DTYPE_F32, .channels = 1, .std = {1e50}}, "that mean and std"},
        {{.dtype = DTYPE_F32, .channels = 1, .std = {(double)NAN}}, "that mean and std"},
        {{.dtype = DTYPE_BF16, .channels = 1, .mean = {(double)INFINITY}, .std = {1}},
         "that mean and std"},
        {{.dtype = DTYPE_F16, .channels = 1, .std = {1.52e-5}}, "that mean and std"}};
    struct err err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(normalize_options_check(&cases[i].options, &err), -EINVAL);
        assert_non_null(strstr(err.what, cases[i].text));
        assert_true(err.expected[0] && err.found[0]);
    }
    struct normalize_options largest = cases[10].options;
    largest.std[0] = 1.53e-5; /* 65359 */
    assert_ok(normalize_options_check(&largest, &err), &err);
    /* other channels do not count */
    struct normalize_options gray = {.dtype = DTYPE_F32, .channels = 1, .std = {1}};
    assert_ok(normalize_options_check(&gray, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_match_torch_and_pillow),
        cmocka_unit_test(values_are_the_same_on_every_machine),
        cmocka_unit_test(floats_are_fractions_by_default),
        cmocka_unit_test(pixels_are_independent),
        cmocka_unit_test(gray_pixels_keep_their_level),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
