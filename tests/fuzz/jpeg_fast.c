/*
 * jpeg_fast — fuzz target: jpeg_fast (image/jpeg_fast/jpeg_fast.h) and libjpeg decode parts of a
 * JPEG with the same verdict, the same number of warnings and the same samples.
 *
 * Skips large images only to save time.
 */
#include "image/jpeg/jpeg.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/planes.h"

#include <stdlib.h>

enum { PIXELS_MAX = 1 << 14, PARTS = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    /* reused, as a worker does; reachable at exit, so no leak */
    static struct jpeg_decoder *fast, *libjpeg;
    struct jpeg_info info;
    struct err err;
    if (!fast && (jpeg_decoder_open(&fast, &err) || jpeg_decoder_open(&libjpeg, &err)))
        abort();
    jpeg_decoder_use_libjpeg(libjpeg);
    if (jpeg_probe(data, bytes, "input", &info, &err) ||
        (uint64_t)info.width * info.height > PIXELS_MAX)
        return 0;
    for (uint32_t i = 0; i < PARTS; i++) {
        struct image_rect part = {.x = info.width * i / 5, .y = info.height * i / 3};
        struct jpeg_planes a, b;
        part.width = i == 0 ? info.width : 1 + (info.width - part.x - 1) * i / 3;
        part.height = i == 0 ? info.height : 1 + (info.height - part.y - 1) / i;
        if (jpeg_decode_begin(fast, data, bytes, "input", &info, &err) ||
            jpeg_decode_begin(libjpeg, data, bytes, "input", &info, &err))
            abort();
        int status = jpeg_decode_part(fast, &part, &a, &err);
        if (status != jpeg_decode_part(libjpeg, &part, &b, &err) ||
            jpeg_decoder_warnings(fast) != jpeg_decoder_warnings(libjpeg))
            abort();
        if (status == 0)
            planes_compare(&a, &b, part);
    }
    return 0;
}
