/*
 * crop — tests the distribution of RandomResizedCrop (areas, aspect ratios, positions, the
 * fallback), and that choices depend only on their key.
 */
#include "image/crop.h"

#include "tests/support/test.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static bool is_inside(struct image_rect rect, uint32_t width, uint32_t height)
{
    return rect.width >= 1 && rect.height >= 1 && rect.x + rect.width <= width &&
           rect.y + rect.height <= height;
}

static void random_crops_lie_inside_images_of_any_size(void **state)
{
    (void)state;
    static const uint32_t sides[] = {1, 2, 3, 5, 16, 333, 1000, 65500};
    enum { SIDES = sizeof sides / sizeof sides[0] };
    struct crop_options options = crop_options_default(CROP_RANDOM);
    for (size_t i = 0; i < SIDES * SIDES; i++) {
        uint32_t width = sides[i / SIDES], height = sides[i % SIDES];
        for (uint64_t sample = 0; sample < 500; sample++) {
            struct crop crop = crop_choose(&options, width, height, 1, 0, 0, sample);
            assert_true(is_inside(crop.rect, width, height));
        }
    }
}

static void areas_and_ratios_follow_their_distributions(void **state)
{
    (void)state;
    enum { CROPS = 20000, BINS = 10 };
    struct crop_options options = crop_options_default(CROP_RANDOM);
    options.scale_max = 0.5; /* at most half of a square image: the first try always fits */
    uint32_t side = 2000, area_bins[BINS] = {0}, ratio_bins[BINS] = {0}, flips = 0;
    double x = 0, y = 0;
    for (uint64_t sample = 0; sample < CROPS; sample++) {
        struct crop crop = crop_choose(&options, side, side, 7, 1, 3, sample);
        double area = (double)crop.rect.width * crop.rect.height / ((double)side * side);
        double ratio = (double)crop.rect.width / crop.rect.height;
        assert_true(area > 0.08 - 0.001 && area < 0.5 + 0.001);
        assert_true(ratio > 3.0 / 4 - 0.003 && ratio < 4.0 / 3 + 0.003);
        int area_bin = (int)((area - 0.08) / 0.42 * BINS);
        int ratio_bin = (int)(log(ratio / 0.75) / log(16.0 / 9) * BINS);
        area_bins[area_bin < 0 ? 0 : area_bin >= BINS ? BINS - 1 : area_bin]++;
        ratio_bins[ratio_bin < 0 ? 0 : ratio_bin >= BINS ? BINS - 1 : ratio_bin]++;
        x += (double)crop.rect.x / (side - crop.rect.width);
        y += (double)crop.rect.y / (side - crop.rect.height);
        flips += crop.flip;
    }
    /* 2000 +- 42 expected; six sigma */
    for (int i = 0; i < BINS; i++) {
        assert_in_range(area_bins[i], 1740, 2260);
        assert_in_range(ratio_bins[i], 1740, 2260);
    }
    assert_true(fabs(x / CROPS - 0.5) < 0.0125 && fabs(y / CROPS - 0.5) < 0.0125);
    assert_in_range(flips, CROPS / 2 - 430, CROPS / 2 + 430);
}

static void extreme_shapes_fall_back_to_a_central_crop(void **state)
{
    (void)state;
    struct crop_options options = crop_options_default(CROP_RANDOM);
    for (uint64_t sample = 0; sample < 200; sample++) {
        struct image_rect tall = crop_choose(&options, 1, 1000, 5, 0, 0, sample).rect;
        struct image_rect wide = crop_choose(&options, 3000, 30, 5, 0, 0, sample).rect;
        assert_true(tall.x == 0 && tall.y == 499 && tall.width == 1 && tall.height == 1);
        assert_true(wide.x == 1480 && wide.y == 0 && wide.width == 40 && wide.height == 30);
    }
    options.scale_min = options.scale_max = 1; /* fits in a square only if the ratio is 1 */
    struct image_rect whole = crop_choose(&options, 999, 1000, 5, 0, 0, 4).rect;
    assert_true(whole.x == 0 && whole.y == 0 && whole.width == 999 && whole.height == 1000);
}

static void center_crops_are_central_squares(void **state)
{
    (void)state;
    struct crop_options options = crop_options_default(CROP_CENTER);
    struct crop crop = crop_choose(&options, 400, 533, 0, 0, 0, 0);
    assert_true(crop.rect.x == 0 && crop.rect.y == 66 && crop.rect.width == 400 &&
                crop.rect.height == 400);
    assert_false(crop.flip);
    options.center_fraction = 224.0 / 256;
    crop = crop_choose(&options, 533, 400, 0, 0, 0, 0);
    assert_true(crop.rect.x == 91 && crop.rect.y == 25 && crop.rect.width == 350 &&
                crop.rect.height == 350);
    options.center_fraction = 0.001;
    crop = crop_choose(&options, 3, 2, 0, 0, 0, 0);
    assert_true(crop.rect.x == 1 && crop.rect.y == 0 && crop.rect.width == 1 &&
                crop.rect.height == 1);
}

static void crops_depend_on_every_part_of_the_key(void **state)
{
    (void)state;
    struct crop_options options = crop_options_default(CROP_RANDOM);
    struct crop a = crop_choose(&options, 4000, 3000, 1, 2, 3, 4), b[5];
    b[0] = crop_choose(&options, 4000, 3000, 1, 2, 3, 4);
    b[1] = crop_choose(&options, 4000, 3000, 9, 2, 3, 4);
    b[2] = crop_choose(&options, 4000, 3000, 1, 9, 3, 4);
    b[3] = crop_choose(&options, 4000, 3000, 1, 2, 9, 4);
    b[4] = crop_choose(&options, 4000, 3000, 1, 2, 3, 9);
    for (int i = 0; i < 5; i++)
        assert_int_equal(memcmp(&a.rect, &b[i].rect, sizeof a.rect) == 0, i == 0);
}

/* The golden crops come from a second implementation in Python, with Python's exp and log. */
static void golden_crops_are_unchanged(void **state)
{
    (void)state;
    static const struct {
        uint64_t sample;
        struct crop crop;
    } golden[] = {
        {0, {{16, 98, 362, 336}, false}},
        {1, {{65, 23, 221, 275}, true}},
        {2, {{32, 102, 122, 156}, true}},
        {UINT64_C(1) << 40, {{39, 2, 361, 378}, true}},
        {(UINT64_C(1) << 40) + 1, {{48, 18, 303, 286}, false}},
    };
    struct crop_options options = crop_options_default(CROP_RANDOM);
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        struct crop crop = crop_choose(&options, 400, 533, 7, 0, 1, golden[i].sample);
        assert_memory_equal(&crop.rect, &golden[i].crop.rect, sizeof crop.rect);
        assert_int_equal(crop.flip, golden[i].crop.flip);
    }
}

static void invalid_options_are_refused(void **state)
{
    (void)state;
    struct err err;
    struct crop_options good = crop_options_default(CROP_RANDOM), bad = good;
    assert_ok(crop_options_check(&good, &err), &err);
    bad.scale_min = 0;
    assert_int_equal(crop_options_check(&bad, &err), -EINVAL);
    bad = good;
    bad.scale_max = NAN;
    assert_int_equal(crop_options_check(&bad, &err), -EINVAL);
    bad = good;
    bad.ratio_min = 2;
    assert_int_equal(crop_options_check(&bad, &err), -EINVAL);
    bad = crop_options_default(CROP_CENTER);
    bad.center_fraction = 1.5;
    assert_int_equal(crop_options_check(&bad, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_crops_lie_inside_images_of_any_size),
        cmocka_unit_test(areas_and_ratios_follow_their_distributions),
        cmocka_unit_test(extreme_shapes_fall_back_to_a_central_crop),
        cmocka_unit_test(center_crops_are_central_squares),
        cmocka_unit_test(crops_depend_on_every_part_of_the_key),
        cmocka_unit_test(golden_crops_are_unchanged),
        cmocka_unit_test(invalid_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
