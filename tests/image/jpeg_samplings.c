/*
 * jpeg_samplings — images with every sampling and coding that cjpeg can write, and with fractional
 * samplings, which it cannot write, decode correctly, whole and in crops.
 */
#include "image/pipeline/pipeline.h"

#include "image/kernels/color.h"

#include "tests/image/fixtures.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

static const char *const codings[] = {
    "-sample 1x1",
    "-sample 2x2",
    "-sample 4x1",
    "-sample 1x4",
    "-sample 3x1",
    "-sample 1x1,2x2,1x1",
    "-sample 1x2,2x1,1x1",
    "-sample 2x2,1x2,2x1 -progressive",
    "-sample 3x2,1x1,1x1 -progressive",
    "-rgb -sample 1x1",
    "-rgb -sample 2x1,1x1,1x2",
    "-grayscale",
    "-grayscale -sample 4x3",
    "-arithmetic",
    "-arithmetic -progressive -sample 2x1",
    "-restart 1",
    "-restart 1B -progressive",
};
enum { CODINGS = sizeof codings / sizeof codings[0] };

static const struct {
    uint32_t width, height;
} sizes[] = {{1, 1}, {2, 3}, {17, 9}, {49, 33}, {96, 96}};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* A smooth image, which loses little through subsampling. */
static uint8_t *render_smooth(uint32_t width, uint32_t height, bool gray)
{
    uint8_t *rgb = malloc(3 * (size_t)width * height);
    assert_non_null(rgb);
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *pixel = rgb + 3 * ((size_t)y * width + x);
            pixel[0] = (uint8_t)(60 + x);
            pixel[1] = gray ? pixel[0] : (uint8_t)(90 + y);
            pixel[2] = gray ? pixel[0] : (uint8_t)(200 - (x + y) / 2);
        }
    }
    return rgb;
}

static unsigned char *encode(const char *folder, const char *coding, const uint8_t *rgb,
                             uint32_t width, uint32_t height, size_t *ret_bytes)
{
    char path[TEST_PATH_BYTES_MAX + 20];
    snprintf(path, sizeof path, "%s/a.ppm", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fprintf(file, "P6\n%u %u\n255\n", width, height);
    assert_int_equal(fwrite(rgb, 3 * (size_t)width, height, file), height);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(test_run("cd '%s' && cjpeg -quality 98 %s a.ppm >a.jpg", folder, coding), 0);
    snprintf(path, sizeof path, "%s/a.jpg", folder);
    return test_read_file(path, ret_bytes);
}

static void check_whole(struct image_pipeline *pipeline, const char *coding,
                        const unsigned char *jpeg, size_t bytes, const uint8_t *wanted,
                        uint32_t wanted_width, uint32_t wanted_height, double psnr_min)
{
    struct err err;
    const uint8_t *rgb;
    uint32_t width, height;
    assert_ok(image_pipeline_decode_whole(pipeline, jpeg, bytes, coding, (struct image_bounds){0},
                                          &rgb, &width, &height, &err),
              &err);
    assert_true(width == wanted_width && height == wanted_height);
    double psnr = test_psnr(rgb, wanted, 3 * (size_t)width * height);
    if (psnr < psnr_min)
        fail_msg("%s, %u x %u: %.1f dB", coding, width, height, psnr);
}

/* Crops decode only their rows. Compares crops with those of the same image stored without chroma
 * subsampling. */
static void check_crops(struct image_pipeline *pipeline, const char *coding,
                        const unsigned char *jpeg, size_t bytes, const unsigned char *plain,
                        size_t plain_bytes)
{
    enum { SIDE = 16 };
    for (uint64_t sample = 0; sample < 8; sample++) {
        struct err err;
        uint8_t a[3 * SIDE * SIDE], b[3 * SIDE * SIDE];
        struct image_key key = {1, 0, 0, sample};
        assert_ok(image_pipeline_run(pipeline, jpeg, bytes, coding, key, a, 3 * SIDE, &err), &err);
        assert_ok(image_pipeline_run(pipeline, plain, plain_bytes, coding, key, b, 3 * SIDE, &err),
                  &err);
        double psnr = test_psnr(a, b, sizeof a);
        if (psnr < 43)
            fail_msg("%s, crop %d: %.1f dB", coding, (int)sample, psnr);
    }
}

static void every_sampling_and_coding_is_decoded(void **state)
{
    (void)state;
    char folder[TEST_PATH_BYTES_MAX];
    struct err err;
    struct image_pipeline *pipeline;
    struct image_options options = {16, 16, crop_options_default(CROP_RANDOM)};
    if (test_run("command -v cjpeg >/dev/null"))
        test_skip("no cjpeg here (libjpeg-turbo-progs)");
    assert_ok(image_pipeline_open(&options, &pipeline, &err), &err);
    test_make_folder(folder);
    for (size_t i = 0; i < CODINGS * SIZES; i++) {
        const char *coding = codings[i / SIZES];
        uint32_t width = sizes[i % SIZES].width, height = sizes[i % SIZES].height;
        size_t bytes, plain_bytes;
        uint8_t *rgb = render_smooth(width, height, strstr(coding, "grayscale"));
        unsigned char *plain = encode(folder, "-sample 1x1", rgb, width, height, &plain_bytes);
        unsigned char *jpeg = encode(folder, coding, rgb, width, height, &bytes);
        check_whole(pipeline, coding, jpeg, bytes, rgb, width, height, 45);
        check_crops(pipeline, coding, jpeg, bytes, plain, plain_bytes);
        free(rgb);
        free(plain);
        free(jpeg);
    }
    test_remove_folder(folder);
    image_pipeline_close(pipeline);
}

/* Component c at a point of the image, in pixels from its corner: waves steep enough to reveal a
 * shift of half a pixel. */
static double component_at(int c, double x, double y)
{
    double wave = 2 * 3.14159265358979 / 64;
    return c == 0 ? 120 + 50 * sin(wave * x) + 40 * cos(wave * y)
                  : 128 + 50 * sin(wave * (c == 1 ? y : x));
}

/* The component as stored, with h x v samples per h_max x v_max pixels, padded to whole MCUs. */
static void render_plane(int c, uint8_t *samples, size_t stride, size_t rows, const int *samp,
                         int h_max, int v_max)
{
    for (size_t y = 0; y < rows; y++)
        for (size_t x = 0; x < stride; x++) {
            double value = component_at(c, ((double)x + 0.5) * h_max / samp[0],
                                        ((double)y + 0.5) * v_max / samp[1]);
            samples[y * stride + x] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value + 0.5);
        }
}

/* samp: h and v of the three components. Returns malloc'ed memory. */
static unsigned char *encode_planes(const int samp[3][2], uint32_t width, uint32_t height,
                                    unsigned long *ret_bytes)
{
    enum { STRIDE = 256, ROWS = 256 };
    static uint8_t planes[3][ROWS * STRIDE];
    struct jpeg_compress_struct codec;
    struct jpeg_error_mgr errors;
    JSAMPROW rows[3][4 * DCTSIZE];
    JSAMPARRAY components[3] = {rows[0], rows[1], rows[2]};
    unsigned char *out = NULL;
    int h_max = 1, v_max = 1;
    codec.err = jpeg_std_error(&errors);
    jpeg_create_compress(&codec);
    jpeg_mem_dest(&codec, &out, ret_bytes);
    codec.image_width = width;
    codec.image_height = height;
    codec.input_components = 3;
    codec.in_color_space = JCS_YCbCr;
    jpeg_set_defaults(&codec);
    jpeg_set_quality(&codec, 98, TRUE);
    codec.raw_data_in = TRUE;
    for (int c = 0; c < 3; c++) {
        codec.comp_info[c].h_samp_factor = samp[c][0];
        codec.comp_info[c].v_samp_factor = samp[c][1];
        h_max = samp[c][0] > h_max ? samp[c][0] : h_max;
        v_max = samp[c][1] > v_max ? samp[c][1] : v_max;
    }
    for (int c = 0; c < 3; c++)
        render_plane(c, planes[c], STRIDE, ROWS, samp[c], h_max, v_max);
    jpeg_start_compress(&codec, TRUE);
    for (int mcu = 0; codec.next_scanline < height; mcu++) {
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < samp[c][1] * DCTSIZE; k++)
                rows[c][k] = planes[c] + (size_t)(mcu * samp[c][1] * DCTSIZE + k) * STRIDE;
        jpeg_write_raw_data(&codec, components, (JDIMENSION)v_max * DCTSIZE);
    }
    jpeg_finish_compress(&codec);
    jpeg_destroy_compress(&codec);
    return out;
}

static void fractional_samplings_are_resampled_from_their_positions(void **state)
{
    (void)state;
    static const int samplings[][3][2] = {
        {{3, 1}, {2, 1}, {1, 1}}, {{1, 3}, {1, 2}, {1, 2}}, {{2, 2}, {1, 1}, {1, 1}},
        {{3, 2}, {1, 1}, {2, 1}}, {{1, 1}, {2, 2}, {1, 2}}, {{2, 1}, {3, 1}, {1, 2}},
    };
    struct err err;
    struct image_pipeline *pipeline;
    struct image_options options = {16, 16, crop_options_default(CROP_NONE)};
    assert_ok(image_pipeline_open(&options, &pipeline, &err), &err);
    for (size_t i = 0; i < SIZES * sizeof samplings / sizeof samplings[0]; i++) {
        uint32_t width = sizes[i % SIZES].width, height = sizes[i % SIZES].height;
        unsigned long bytes = 0;
        unsigned char *jpeg = encode_planes(samplings[i / SIZES], width, height, &bytes);
        uint8_t *wanted = malloc(3 * (size_t)width * height);
        assert_non_null(wanted);
        for (size_t k = 0; k < (size_t)width * height; k++) {
            uint8_t samples[3];
            for (int c = 0; c < 3; c++)
                samples[c] = (uint8_t)(component_at(c, (double)(k % width) + 0.5,
                                                    (double)(k / width) + 0.5) +
                                       0.5);
            color_ycbcr_to_rgb(image_kernels_best(), samples, samples + 1, samples + 2,
                               wanted + 3 * k, 1);
        }
        check_whole(pipeline, "fractional", jpeg, bytes, wanted, width, height,
                    width < 17 ? 30 : 42);
        free(wanted);
        free(jpeg);
    }
    image_pipeline_close(pipeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sampling_and_coding_is_decoded),
        cmocka_unit_test(fractional_samplings_are_resampled_from_their_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
