/*
 * jpeg_encode — encoded images decode to nearly the same pixels; encoding is deterministic.
 */
#include "image/jpeg/jpeg.h"

#include "tests/image/fixtures.h"
#include "tests/support/test.h"

#include "image/pipeline/pipeline.h"

#include <stdlib.h>
#include <string.h>

static void decoding_is_close_to_the_encoded_image(void **state)
{
    (void)state;
    static const struct {
        uint32_t width, height;
    } sizes[] = {{1, 1}, {1, 40}, {33, 17}, {64, 64}, {301, 211}};
    struct err err;
    struct image_pipeline *pipeline;
    struct image_options options = {8, 8, crop_options_default(CROP_NONE)};
    assert_ok(image_pipeline_open(&options, &pipeline, &err), &err);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t bytes;
        uint32_t width, height;
        const uint8_t *decoded;
        uint8_t *rgb = test_render_rgb(sizes[i].width, sizes[i].height);
        unsigned char *jpeg = test_render_jpeg(sizes[i].width, sizes[i].height, 95, &bytes);
        assert_ok(image_pipeline_decode_whole(pipeline, jpeg, bytes, NULL, (struct image_bounds){0},
                                              &decoded, &width, &height, &err),
                  &err);
        assert_true(width == sizes[i].width && height == sizes[i].height);
        double psnr = test_psnr(rgb, decoded, 3 * (size_t)width * height);
        if (psnr < 30)
            fail_msg("%u x %u: %.1f dB", width, height, psnr);
        free(rgb);
        free(jpeg);
    }
    image_pipeline_close(pipeline);
}

static void encoding_appends_and_is_deterministic(void **state)
{
    (void)state;
    struct err err;
    struct str out = {0};
    struct jpeg_info info;
    uint8_t *rgb = test_render_rgb(211, 97);
    str_add_text(&out, "head");
    assert_ok(jpeg_encode(rgb, 211, 97, 3 * 211, 90, 0, &out, &err), &err);
    size_t bytes = out.bytes - 4;
    assert_ok(jpeg_encode(rgb, 211, 97, 3 * 211, 90, 0, &out, &err), &err);
    assert_int_equal(out.bytes, 4 + 2 * bytes);
    assert_memory_equal(out.data, "head", 4);
    assert_memory_equal(out.data + 4, out.data + 4 + bytes, bytes);
    assert_ok(jpeg_probe(out.data + 4, bytes, NULL, &info, &err), &err);
    assert_true(info.width == 211 && info.height == 97 && info.color == JPEG_YCBCR &&
                !info.progressive);
    assert_true(info.h_samp[0] == 2 && info.v_samp[0] == 2 && info.h_samp[1] == 1 &&
                info.v_samp[1] == 1);
    free(rgb);
    str_deinit(&out);
}

static void higher_quality_takes_more_bytes_and_rows_may_have_a_stride(void **state)
{
    (void)state;
    enum { SIDE = 90, STRIDE = 300 };
    struct err err;
    struct str packed = {0}, apart = {0}, low = {0};
    uint8_t *rgb = test_render_rgb(SIDE, SIDE), *wide = malloc(SIDE * STRIDE);
    assert_non_null(wide);
    memset(wide, 77, SIDE * STRIDE);
    for (size_t y = 0; y < SIDE; y++)
        memcpy(wide + y * STRIDE, rgb + y * 3 * SIDE, 3 * SIDE);
    assert_ok(jpeg_encode(rgb, SIDE, SIDE, 3 * SIDE, 90, 0, &packed, &err), &err);
    assert_ok(jpeg_encode(wide, SIDE, SIDE, STRIDE, 90, 0, &apart, &err), &err);
    assert_ok(jpeg_encode(rgb, SIDE, SIDE, 3 * SIDE, 30, 0, &low, &err), &err);
    assert_int_equal(packed.bytes, apart.bytes);
    assert_memory_equal(packed.data, apart.data, packed.bytes);
    assert_true(low.bytes < packed.bytes);
    free(rgb);
    free(wide);
    str_deinit(&packed);
    str_deinit(&apart);
    str_deinit(&low);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding_is_close_to_the_encoded_image),
        cmocka_unit_test(encoding_appends_and_is_deterministic),
        cmocka_unit_test(higher_quality_takes_more_bytes_and_rows_may_have_a_stride),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
