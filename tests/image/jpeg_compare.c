/*
 * jpeg_compare — see jpeg_compare.h.
 */
#include "tests/image/jpeg_compare.h"

#include "tests/image/fixtures.h"
#include "tests/support/test.h"

struct jpeg_compare jpeg_compare_open(void)
{
    struct jpeg_compare compare = {.fast = test_open_decoder(), .libjpeg = test_open_decoder()};
    jpeg_decoder_use_libjpeg(compare.libjpeg);
    return compare;
}

void jpeg_compare_close(struct jpeg_compare *compare)
{
    jpeg_decoder_close(compare->fast);
    jpeg_decoder_close(compare->libjpeg);
}

void jpeg_compare_part(struct jpeg_compare *compare, const void *data, size_t bytes,
                       const char *name, struct image_rect part)
{
    struct jpeg_info info;
    struct jpeg_planes fast, libjpeg;
    struct err err, fast_err;
    bool used_fast = false;
    assert_ok(jpeg_decode_begin(compare->libjpeg, data, bytes, name, &info, &err), &err);
    int libjpeg_status = jpeg_decode_part(compare->libjpeg, &part, &libjpeg, &err);
    if (libjpeg_status == 0)
        err = (struct err){0};
    for (enum image_kernels k = 0; k < IMAGE_KERNELS_COUNT; k++) {
        if (!image_kernels_supported(k))
            continue;
        jpeg_decoder_use_kernels(compare->fast, k);
        assert_ok(jpeg_decode_begin(compare->fast, data, bytes, name, &info, &fast_err), &fast_err);
        int fast_status = jpeg_decode_part(compare->fast, &part, &fast, &fast_err);
        if (fast_status != libjpeg_status ||
            jpeg_decoder_warnings(compare->fast) != jpeg_decoder_warnings(compare->libjpeg))
            fail_msg("%s, %s: %d, but libjpeg %d: %s, %s", name, image_kernels_name(k), fast_status,
                     libjpeg_status, err.what, err.found);
        if (fast_status == 0)
            test_compare_region(&libjpeg, &fast, part, name);
        if (k == IMAGE_KERNELS_PLAIN)
            used_fast = jpeg_decoder_used_fast(compare->fast);
        else
            assert_int_equal(jpeg_decoder_used_fast(compare->fast), used_fast);
    }
    compare->parts++;
    compare->used_fast += used_fast;
    compare->accepted += libjpeg_status == 0;
}
