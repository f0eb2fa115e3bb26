/*
 * geometry — compares masks with torch, and boxes and points with numpy, and checks that boxes,
 * masks and pixels stay together.
 */
#include "image/pipeline/geometry.h"

#include "base/philox.h"
#include "image/kernels/augment_ops.h"
#include "image/pipeline/pipeline.h"
#include "tests/image/fixtures.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCE_MAX = 400, TARGET_MAX = 160 };

static struct philox_block draw(uint64_t number, uint32_t index)
{
    return philox_sample(11, 0, 0, number, PHILOX_CROP, index);
}

static uint32_t below(uint32_t word, uint32_t count)
{
    return (uint32_t)((uint64_t)word * count >> 32);
}

/* A random crop of a random size; every second one has augmentations if with_steps. */
static struct image_geometry make_geometry(uint64_t number, bool with_steps)
{
    struct philox_block sizes = draw(number, 0), crop = draw(number, 1);
    struct image_geometry geometry = {.source_width = 1 + below(sizes.word[0], SOURCE_MAX),
                                      .source_height = 1 + below(sizes.word[1], SOURCE_MAX),
                                      .width = 1 + below(sizes.word[2], TARGET_MAX),
                                      .height = 1 + below(sizes.word[3], TARGET_MAX)};
    struct image_rect *rect = &geometry.crop.rect;
    rect->width = 1 + below(crop.word[0], geometry.source_width);
    rect->height = 1 + below(crop.word[1], geometry.source_height);
    rect->x = below(crop.word[2], geometry.source_width - rect->width + 1);
    rect->y = below(crop.word[3], geometry.source_height - rect->height + 1);
    geometry.crop.flip = number % 3 == 0;
    if (with_steps && number % 2) {
        const struct augment_options options = {.randaugment_ops = 1 + number / 2 % 3,
                                                .randaugment_magnitude = number / 8 % 31};
        geometry.steps_count = augment_choose(&options, geometry.width, geometry.height, 3, 0, 0,
                                              number, geometry.steps);
    }
    return geometry;
}

/* A box of whole pixels that meets the image, and perhaps ends outside it. */
static struct image_box make_box(uint64_t number, const struct image_geometry *geometry)
{
    struct philox_block random = draw(number, 2);
    struct image_box box = {.x0 = below(random.word[0], geometry->source_width),
                            .y0 = below(random.word[1], geometry->source_height)};
    box.x1 = box.x0 + 1 + below(random.word[2], geometry->source_width);
    box.y1 = box.y0 + 1 + below(random.word[3], geometry->source_height);
    return box;
}

static struct image_mask mask_of(const uint8_t *data, const struct image_geometry *geometry)
{
    return (struct image_mask){
        .data = data, .value_bytes = 1, .stride_bytes = geometry->source_width};
}

/* ---- Oracles. ---- */

static void print_case(FILE *file, const struct image_geometry *geometry, struct image_box box,
                       double x, double y)
{
    const struct image_rect *rect = &geometry->crop.rect;
    struct affine affine;
    fprintf(file, "%u %u %u %u %u %u %d %u %u", geometry->source_width, geometry->source_height,
            rect->x, rect->y, rect->width, rect->height, geometry->crop.flip, geometry->width,
            geometry->height);
    for (uint32_t i = 0; i < geometry->steps_count; i++)
        if (augment_find_affine(geometry->steps[i], geometry->width, geometry->height, &affine))
            fprintf(file, " %a %a %a %a %a %a", affine.a, affine.b, affine.c, affine.d, affine.e,
                    affine.f);
    fprintf(file, " | %a %a %a %a", box.x0, box.y0, box.x1, box.y1);
    double remaining = geometry_map_box(geometry, &box);
    fprintf(file, " %a %a %a %a %a %a %a", box.x0, box.y0, box.x1, box.y1, remaining, x, y);
    bool inside = geometry_map_point(geometry, &x, &y);
    fprintf(file, " %a %a %d\n", x, y, inside);
}

static bool moves(const struct image_geometry *geometry)
{
    struct affine affine;
    bool found = false;
    for (uint32_t i = 0; i < geometry->steps_count; i++)
        found = found ||
                augment_find_affine(geometry->steps[i], geometry->width, geometry->height, &affine);
    return found;
}

static FILE *create(const char *folder, const char *name)
{
    char path[TEST_PATH_BYTES_MAX + 20];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    return file;
}

static void masks_match_torch_and_boxes_numpy(void **state)
{
    (void)state;
    static uint8_t pool[SOURCE_MAX * SOURCE_MAX], target[TARGET_MAX * TARGET_MAX];
    const char *python = test_need_python("torch");
    char folder[TEST_PATH_BYTES_MAX];
    test_make_folder(folder);
    for (size_t i = 0; i < sizeof pool; i++)
        pool[i] = (uint8_t)draw(i, 9).word[0];
    FILE *file = create(folder, "mask.u8");
    assert_int_equal(fwrite(pool, 1, sizeof pool, file), sizeof pool);
    assert_int_equal(fclose(file), 0);
    FILE *cases = create(folder, "cases"), *masks = create(folder, "masks.u8");
    for (uint64_t number = 0; number < 3000; number++) {
        struct image_geometry geometry = make_geometry(number, true);
        struct image_box box = make_box(number, &geometry);
        print_case(cases, &geometry, box, box.x0 + 0.25, box.y0 + 0.5);
        if (moves(&geometry))
            continue;
        const struct image_mask mask = mask_of(pool, &geometry);
        geometry_sample_mask(&geometry, &mask, target, 1);
        fwrite(target, geometry.width, geometry.height, masks);
    }
    assert_int_equal(fclose(cases), 0);
    assert_int_equal(fclose(masks), 0);
    assert_int_equal(test_run("'%s' -W ignore '%s/tests/image/geometry_oracle.py' '%s'", python,
                              TEST_SOURCE_DIR, folder),
                     0);
    test_remove_folder(folder);
}

/* ---- What belongs together stays together. ---- */

/* Paints a box of whole pixels into a mask of zeros. */
static uint8_t *paint(const struct image_geometry *geometry, struct image_box box)
{
    uint8_t *mask = calloc(geometry->source_width, geometry->source_height);
    assert_non_null(mask);
    for (uint32_t y = (uint32_t)box.y0; y < box.y1 && y < geometry->source_height; y++)
        for (uint32_t x = (uint32_t)box.x0; x < box.x1 && x < geometry->source_width; x++)
            mask[y * geometry->source_width + x] = 1;
    return mask;
}

/* Distance of a pixel's center from the outside of the box; negative outside. */
static double depth_in(const struct image_box *box, uint32_t x, uint32_t y)
{
    return fmin(fmin(x + 0.5 - box->x0, box->x1 - x - 0.5),
                fmin(y + 0.5 - box->y0, box->y1 - y - 0.5));
}

/* Without augmentation, a pixel has the class of the box exactly if its center is inside. */
static void a_painted_box_has_the_pixels_in_its_mapped_box(void **state)
{
    (void)state;
    static uint8_t target[TARGET_MAX * TARGET_MAX];
    uint64_t painted = 0;
    for (uint64_t number = 0; number < 4000; number++) {
        struct image_geometry geometry = make_geometry(number, false);
        struct image_box box = make_box(number, &geometry);
        uint8_t *data = paint(&geometry, box);
        const struct image_mask mask = mask_of(data, &geometry);
        geometry_sample_mask(&geometry, &mask, target, 1);
        double remaining = geometry_map_box(&geometry, &box);
        for (uint32_t y = 0; y < geometry.height; y++)
            for (uint32_t x = 0; x < geometry.width; x++) {
                double depth = remaining > 0 ? depth_in(&box, x, y) : -1;
                bool is_painted = target[y * geometry.width + x];
                painted += is_painted;
                if (fabs(depth) > 1e-9)
                    assert_int_equal(is_painted, depth > 0);
            }
        free(data);
    }
    assert_true(painted > 1000000);
}

/* After shears, rotations and translations, the painted pixels are in the box, and reach its edges
 * unless part of it was lost. */
static void a_moved_box_encloses_its_pixels(void **state)
{
    (void)state;
    static uint8_t target[TARGET_MAX * TARGET_MAX];
    uint64_t whole = 0;
    for (uint64_t number = 1; number < 6000; number += 2) {
        struct image_geometry geometry = make_geometry(number, true);
        struct image_box box = make_box(number, &geometry), reached = {1e9, 1e9, -1e9, -1e9};
        uint8_t *data = paint(&geometry, box);
        const struct image_mask mask = mask_of(data, &geometry);
        geometry_sample_mask(&geometry, &mask, target, 1);
        double remaining = geometry_map_box(&geometry, &box);
        for (uint32_t y = 0; y < geometry.height; y++)
            for (uint32_t x = 0; x < geometry.width; x++) {
                if (!target[y * geometry.width + x])
                    continue;
                assert_true(remaining > 0 ? depth_in(&box, x, y) > -2.5 : geometry.steps_count > 0);
                reached = (struct image_box){fmin(reached.x0, x), fmin(reached.y0, y),
                                             fmax(reached.x1, x + 1), fmax(reached.y1, y + 1)};
            }
        if (remaining == 1 && geometry.steps_count == 1 && box.x1 - box.x0 > 8 &&
            box.y1 - box.y0 > 8) {
            whole++;
            assert_true(reached.x0 < box.x0 + 4 && reached.x1 > box.x1 - 4);
            assert_true(reached.y0 < box.y0 + 4 && reached.y1 > box.y1 - 4);
        }
        free(data);
    }
    assert_true(whole > 10);
}

/* The steps move a mask's numbers as they move the pixels of an image. */
static void masks_move_like_pixels(void **state)
{
    (void)state;
    static uint8_t source[SOURCE_MAX * SOURCE_MAX], rgb[3 * TARGET_MAX * TARGET_MAX],
        scratch[3 * TARGET_MAX * TARGET_MAX], plain[TARGET_MAX * TARGET_MAX],
        moved[TARGET_MAX * TARGET_MAX];
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)draw(i, 9).word[1];
    for (uint64_t number = 1; number < 2000; number += 2) {
        struct image_geometry geometry = make_geometry(number, true), unmoved = geometry;
        const struct image_mask mask = mask_of(source, &geometry);
        size_t pixels = (size_t)geometry.width * geometry.height;
        struct affine affine;
        unmoved.steps_count = 0;
        geometry_sample_mask(&unmoved, &mask, plain, 1);
        geometry_sample_mask(&geometry, &mask, moved, 1);
        for (size_t i = 0; i < 3 * pixels; i++)
            rgb[i] = plain[i / 3];
        for (uint32_t i = 0; i < geometry.steps_count; i++)
            if (augment_find_affine(geometry.steps[i], geometry.width, geometry.height, &affine))
                augment_apply(geometry.steps[i], rgb, geometry.width, geometry.height,
                              3 * (size_t)geometry.width, scratch);
        for (size_t i = 0; i < pixels; i++)
            assert_int_equal(moved[i], rgb[3 * i]);
    }
}

static void numbers_are_widened(void **state)
{
    (void)state;
    uint16_t source[12];
    struct image_geometry geometry = {.source_width = 4,
                                      .source_height = 3,
                                      .crop = {.rect = {1, 1, 3, 2}, .flip = true},
                                      .width = 3,
                                      .height = 2};
    uint32_t first, count;
    uint64_t wide[6];
    uint32_t narrow[6];
    uint16_t same[6];
    for (int i = 0; i < 12; i++)
        source[i] = (uint16_t)(65535 - i);
    geometry_find_rows(&geometry, &first, &count);
    assert_int_equal(first, 1);
    assert_int_equal(count, 2);
    const struct image_mask mask = {.data = (const uint8_t *)(source + 4),
                                    .value_bytes = 2,
                                    .stride_bytes = 8,
                                    .first_row = first};
    geometry_sample_mask(&geometry, &mask, wide, 8);
    geometry_sample_mask(&geometry, &mask, narrow, 4);
    geometry_sample_mask(&geometry, &mask, same, 2);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(wide[i], 65535 - (7 + i / 3 * 4 - i % 3));
        assert_int_equal(narrow[i], wide[i]);
        assert_int_equal(same[i], wide[i]);
    }
}

/* The geometry of the pipeline's last image, also of a rotated one and of rows. */
static void the_pipeline_tells_its_geometry(void **state)
{
    (void)state;
    enum { SIDE = 30, BYTES = 3 * SIDE * SIDE };
    static uint8_t rgb[BYTES];
    struct image_options options = {SIDE, SIDE, crop_options_default(CROP_RANDOM)};
    struct image_pipeline *pipeline;
    struct err err;
    size_t bytes, turned_bytes;
    unsigned char *jpeg = test_render_jpeg(120, 90, 90, &bytes);
    unsigned char *turned = test_add_orientation(jpeg, bytes, 6, &turned_bytes);
    options.augment.randaugment_ops = 2;
    options.augment.randaugment_magnitude = 9;
    assert_ok(image_pipeline_open(&options, &pipeline, &err), &err);
    for (uint64_t sample = 0; sample < 20; sample++) {
        struct image_key key = {7, 1, 2, sample};
        struct augment_step steps[AUGMENT_STEPS_MAX];
        const struct image_geometry *geometry = image_pipeline_geometry(pipeline);
        assert_ok(image_pipeline_run(pipeline, turned, turned_bytes, "a", key, rgb, 3 * SIDE, &err),
                  &err);
        struct crop crop = crop_choose(&options.crop, 90, 120, 7, 1, 2, sample);
        assert_int_equal(geometry->source_width, 90);
        assert_int_equal(geometry->source_height, 120);
        assert_memory_equal(&geometry->crop.rect, &crop.rect, sizeof crop.rect);
        assert_int_equal(geometry->crop.flip, crop.flip);
        assert_int_equal(geometry->width, SIDE);
        assert_int_equal(geometry->steps_count, 2);
        augment_choose(&options.augment, SIDE, SIDE, 7, 1, 2, sample, steps);
        assert_memory_equal(geometry->steps, steps, 2 * sizeof steps[0]);
        struct image_rows rows = {.width = 50, .height = 40};
        assert_true(image_find_rows(&options, key, &rows));
        uint8_t *pixels = calloc(rows.count, 3 * 50);
        assert_ok(image_pipeline_run_rows(pipeline, &rows, pixels, key, rgb, 3 * SIDE, &err), &err);
        crop = crop_choose(&options.crop, 50, 40, 7, 1, 2, sample);
        assert_int_equal(geometry->source_width, 50);
        assert_memory_equal(&geometry->crop.rect, &crop.rect, sizeof crop.rect);
        free(pixels);
    }
    image_pipeline_close(pipeline);
    free(turned);
    free(jpeg);
}

static void degenerate_boxes_and_points_are_outside(void **state)
{
    (void)state;
    struct image_geometry geometry = {.source_width = 10,
                                      .source_height = 10,
                                      .crop = {.rect = {2, 2, 4, 4}},
                                      .width = 8,
                                      .height = 8};
    static const struct image_box none[] = {{3, 3, 3, 5}, {3, 5, 4, 5},   {0, 0, 2, 2},
                                            {6, 2, 9, 5}, {-9, -9, 2, 9}, {5, 4, 3, 5}};
    static const double outside[][2] = {{1.99, 3}, {6.01, 3}, {3, 1.5}, {3, 7}, {NAN, 3}};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        struct image_box box = none[i];
        assert_true(geometry_map_box(&geometry, &box) == 0);
    }
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        double x = outside[i][0], y = outside[i][1];
        assert_false(geometry_map_point(&geometry, &x, &y));
    }
    struct image_box box = {-1e9, 1, 4, 1e9};
    double x = 6, y = 2;
    assert_true(geometry_map_box(&geometry, &box) > 0);
    assert_true(box.x0 == 0 && box.y0 == 0 && box.x1 == 4 && box.y1 == 8);
    assert_true(geometry_map_point(&geometry, &x, &y));
    assert_true(x == 8 && y == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_match_torch_and_boxes_numpy),
        cmocka_unit_test(a_painted_box_has_the_pixels_in_its_mapped_box),
        cmocka_unit_test(a_moved_box_encloses_its_pixels),
        cmocka_unit_test(masks_move_like_pixels),
        cmocka_unit_test(numbers_are_widened),
        cmocka_unit_test(the_pipeline_tells_its_geometry),
        cmocka_unit_test(degenerate_boxes_and_points_are_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
