/*
 * color — compares all supported kernels with T.871's formula on every triple of bytes, and the
 * result with a golden hash.
 */
#include "image/kernels/color.h"

#include "base/hash.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int clamp(int value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

static void check_every_triple(enum image_kernels kernels)
{
    uint8_t y[256], cb[256], cr[256], rgb[768];
    for (int i = 0; i < 256; i++)
        y[i] = (uint8_t)i;
    for (int blue = 0; blue < 256; blue++) {
        for (int red = 0; red < 256; red++) {
            int b = blue - 128, r = red - 128;
            memset(cb, blue, sizeof cb);
            memset(cr, red, sizeof cr);
            color_ycbcr_to_rgb(kernels, y, cb, cr, rgb, 256);
            for (int i = 0; i < 256; i++) {
                bool same = rgb[3 * i] == clamp(i + ((91881 * r + 32768) >> 16)) &&
                            rgb[3 * i + 1] == clamp(i + ((-22554 * b - 46802 * r + 32768) >> 16)) &&
                            rgb[3 * i + 2] == clamp(i + ((116130 * b + 32768) >> 16));
                if (!same)
                    fail_msg("%s: Y %d Cb %d Cr %d gives %d %d %d", image_kernels_name(kernels), i,
                             blue, red, rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]);
            }
        }
    }
}

static void every_ycbcr_triple_matches_libjpeg(void **state)
{
    (void)state;
    for (enum image_kernels kernels = 0; kernels < IMAGE_KERNELS_COUNT; kernels++)
        if (image_kernels_supported(kernels))
            check_every_triple(kernels);
}

static void results_are_within_one_of_real_arithmetic(void **state)
{
    (void)state;
    for (int i = 0; i < 1 << 18; i++) {
        uint8_t y = (uint8_t)(i * 7), cb = (uint8_t)(i >> 5), cr = (uint8_t)(i >> 10), rgb[3];
        color_ycbcr_to_rgb(image_kernels_best(), &y, &cb, &cr, rgb, 1);
        double r = y + 1.402 * (cr - 128), b = y + 1.772 * (cb - 128);
        double g = y - 0.344136 * (cb - 128) - 0.714136 * (cr - 128);
        assert_true(fabs(fmin(fmax(r, 0), 255) - rgb[0]) < 1);
        assert_true(fabs(fmin(fmax(g, 0), 255) - rgb[1]) < 1);
        assert_true(fabs(fmin(fmax(b, 0), 255) - rgb[2]) < 1);
    }
}

static void check_any_count(enum image_kernels kernels)
{
    enum { COUNT_MAX = 200 };
    uint8_t y[COUNT_MAX], cb[COUNT_MAX], cr[COUNT_MAX], rgb[3 * COUNT_MAX + 3], one[3];
    for (size_t i = 0; i < sizeof y; i++) {
        y[i] = (uint8_t)(i * 37);
        cb[i] = (uint8_t)(i * 91 + 5);
        cr[i] = (uint8_t)(i * 53 + 77);
    }
    for (size_t count = 0; count <= COUNT_MAX; count++) {
        memset(rgb, 0xa5, sizeof rgb);
        color_ycbcr_to_rgb(kernels, y, cb, cr, rgb, count);
        for (size_t i = 0; i < count; i++) {
            color_ycbcr_to_rgb(IMAGE_KERNELS_PLAIN, y + i, cb + i, cr + i, one, 1);
            assert_memory_equal(one, rgb + 3 * i, 3);
        }
        assert_int_equal(rgb[3 * count], 0xa5);
        color_planes_to_rgb(kernels, y, cb, cr, rgb, count);
        for (size_t i = 0; i < count; i++)
            assert_true(rgb[3 * i] == y[i] && rgb[3 * i + 1] == cb[i] && rgb[3 * i + 2] == cr[i]);
        assert_int_equal(rgb[3 * count], 0xa5);
        color_gray_to_rgb(kernels, y, rgb, count);
        for (size_t i = 0; i < count; i++)
            assert_true(rgb[3 * i] == y[i] && rgb[3 * i + 1] == y[i] && rgb[3 * i + 2] == y[i]);
        assert_int_equal(rgb[3 * count], 0xa5);
    }
}

static void exactly_the_given_count_of_pixels_is_written(void **state)
{
    (void)state;
    for (enum image_kernels kernels = 0; kernels < IMAGE_KERNELS_COUNT; kernels++)
        if (image_kernels_supported(kernels))
            check_any_count(kernels);
}

static void pixels_are_the_same_on_any_machine(void **state)
{
    (void)state;
    enum { COUNT = 1 << 16 };
    uint8_t *planes = malloc(6 * COUNT);
    assert_non_null(planes);
    for (size_t i = 0; i < 3 * COUNT; i++)
        planes[i] = (uint8_t)((i * 2654435761u) >> 13);
    color_ycbcr_to_rgb(image_kernels_best(), planes, planes + COUNT, planes + 2 * COUNT,
                       planes + 3 * COUNT, COUNT);
    assert_true(hash_64(planes + 3 * COUNT, 3 * COUNT) == UINT64_C(0x0ba55227fa446d7e));
    free(planes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_ycbcr_triple_matches_libjpeg),
        cmocka_unit_test(results_are_within_one_of_real_arithmetic),
        cmocka_unit_test(exactly_the_given_count_of_pixels_is_written),
        cmocka_unit_test(pixels_are_the_same_on_any_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
