/*
 * pillow — the complete pipeline compared with Pillow's decoder and its antialiased BILINEAR resize
 * of the same box.
 *
 * The results are not identical: docs/reference/images.md lists the measured PSNR and explains the
 * differences. Each test requires 1 dB less than measured. The pictures, the crops and our output
 * are fixed, so only a different version of Pillow can change the result. The goal is 40 dB.
 */
#include "image/pipeline/pipeline.h"

#include "tests/image/fixtures.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

struct request {
    const char *path;
    enum crop_kind kind;
    uint32_t side;
    uint64_t sample;
};

static const uint64_t SEED = 2024;

static uint8_t *run_millrace(const struct request *request, struct image_rect *ret_rect)
{
    struct err err;
    struct jpeg_info info;
    struct image_pipeline *pipeline;
    struct image_options options = {request->side, request->side,
                                    crop_options_default(request->kind)};
    size_t bytes, stride = 3 * (size_t)request->side;
    options.crop.flip = false;
    unsigned char *data = test_read_file(request->path, &bytes);
    uint8_t *rgb = malloc(stride * request->side);
    assert_non_null(rgb);
    assert_ok(jpeg_probe(data, bytes, request->path, &info, &err), &err);
    bool swap = orientation_swaps_sides(info.orientation);
    *ret_rect = crop_choose(&options.crop, swap ? info.height : info.width,
                            swap ? info.width : info.height, SEED, 0, 0, request->sample)
                    .rect;
    assert_ok(image_pipeline_open(&options, &pipeline, &err), &err);
    struct image_key key = {SEED, 0, 0, request->sample};
    assert_ok(image_pipeline_run(pipeline, data, bytes, request->path, key, rgb, stride, &err),
              &err);
    image_pipeline_close(pipeline);
    free(data);
    return rgb;
}

/* Runs each request through millrace and Pillow; stores the PSNR between the results. */
static void compare(const struct request *requests, size_t count, double *psnr)
{
    const char *python = test_need_python("PIL");
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 20];
    size_t bytes, at = 0;
    uint8_t **ours = calloc(count, sizeof *ours);
    assert_non_null(ours);
    test_make_folder(folder);
    snprintf(path, sizeof path, "%s/list", folder);
    FILE *list = fopen(path, "w");
    assert_non_null(list);
    for (size_t i = 0; i < count; i++) {
        struct image_rect rect;
        ours[i] = run_millrace(&requests[i], &rect);
        fprintf(list, "1 %u %u %u %u %u %u %s\n", rect.x, rect.y, rect.width, rect.height,
                requests[i].side, requests[i].side, requests[i].path);
    }
    assert_int_equal(fclose(list), 0);
    assert_int_equal(test_run("'%s' '%s/tests/image/pillow_resize.py' '%s/out' <'%s'", python,
                              TEST_SOURCE_DIR, folder, path),
                     0);
    snprintf(path, sizeof path, "%s/out", folder);
    unsigned char *theirs = test_read_file(path, &bytes);
    for (size_t i = 0; i < count; i++) {
        size_t image_bytes = 3 * (size_t)requests[i].side * requests[i].side;
        assert_true(at + image_bytes <= bytes);
        psnr[i] = test_psnr(ours[i], theirs + at, image_bytes);
        at += image_bytes;
        free(ours[i]);
    }
    assert_int_equal(at, bytes);
    free(ours);
    free(theirs);
    test_remove_folder(folder);
}

static void compare_photos(enum crop_kind kind, uint32_t side, double mean_min, double psnr_min)
{
    enum { PHOTOS = 40 };
    struct test_files files = test_files_find("clothing/train/*/*.jpg");
    struct request requests[PHOTOS];
    double psnr[PHOTOS], mean = 0, least = 99;
    for (size_t i = 0; i < PHOTOS; i++)
        requests[i] = (struct request){files.path[i * files.count / PHOTOS], kind, side, i};
    compare(requests, PHOTOS, psnr);
    for (size_t i = 0; i < PHOTOS; i++) {
        mean += psnr[i] / PHOTOS;
        least = psnr[i] < least ? psnr[i] : least;
    }
    print_message("%u pixels: mean %.1f dB, least %.1f dB\n", side, mean, least);
    assert_true(mean >= mean_min && least >= psnr_min);
    test_files_free(&files);
}

static void random_crops_are_close_to_pillow(void **state)
{
    (void)state;
    compare_photos(CROP_RANDOM, 224, 51.9, 45.8);
}

static void small_random_crops_are_close_to_pillow(void **state)
{
    (void)state;
    compare_photos(CROP_RANDOM, 64, 51.5, 43);
}

static void center_crops_are_close_to_pillow(void **state)
{
    (void)state;
    compare_photos(CROP_CENTER, 224, 50.9, 41.7);
}

/* Files that Pillow deliberately decodes differently. */
static bool is_unsupported_by_pillow(const char *path)
{
    return strstr(path, "progressive-missing-ac") /* Pillow smooths over the missing scans */
           /* RGB components at three resolutions: Pillow upsamples by repetition */
           || strstr(path, "video-001.rgb");
}

static void files_of_all_kinds_are_close_to_pillow(void **state)
{
    (void)state;
    struct test_files files = test_files_find("jpeg-variety/*");
    struct request requests[65];
    double psnr[65], least = 99;
    size_t count = 0;
    for (size_t i = 0; i < files.count && count < 65; i++)
        if (!is_unsupported_by_pillow(files.path[i]))
            requests[count++] = (struct request){files.path[i], CROP_NONE, 48, i};
    compare(requests, count, psnr);
    for (size_t i = 0; i < count; i++) {
        least = psnr[i] < least ? psnr[i] : least;
        if (psnr[i] < 42.1)
            fail_msg("%s: %.1f dB", requests[i].path, psnr[i]);
    }
    print_message("%zu files at 48 pixels: least %.1f dB\n", count, least);
    test_files_free(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_crops_are_close_to_pillow),
        cmocka_unit_test(small_random_crops_are_close_to_pillow),
        cmocka_unit_test(center_crops_are_close_to_pillow),
        cmocka_unit_test(files_of_all_kinds_are_close_to_pillow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
