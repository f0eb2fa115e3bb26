/*
 * jpeg — fuzz target: a JPEG through the whole pixel pipeline (image/pipeline/pipeline.h), as a
 * crop and as a whole image.
 *
 * Skips large images only to save time: size limits depend only on the headers.
 */
#include "image/jpeg/jpeg.h"
#include "image/pipeline/pipeline.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

enum { SIDE = 32, PIXELS_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    /* reused, as a worker does; reachable at exit, so no leak */
    static struct image_pipeline *pipeline;
    static uint8_t rgb[SIDE * SIDE * 3];
    struct image_options options = {
        .width = SIDE, .height = SIDE, .crop = crop_options_default(CROP_RANDOM)};
    struct jpeg_info info;
    struct err err;
    const uint8_t *whole;
    uint32_t width, height;
    options.crop.flip = true;
    if (!pipeline && image_pipeline_open(&options, &pipeline, &err))
        abort();
    if (jpeg_probe(data, bytes, "input", &info, &err) ||
        (uint64_t)info.width * info.height > PIXELS_MAX)
        return 0;
    struct image_key key = {.seed = bytes, .sample = bytes > 0 ? data[bytes / 2] : 0};
    image_pipeline_run(pipeline, data, bytes, "input", key, rgb, (size_t)SIDE * 3, &err);
    if (image_pipeline_decode_whole(pipeline, data, bytes, "input", (struct image_bounds){64},
                                    &whole, &width, &height, &err) == 0) {
        if (width == 0 || height == 0 || width > 64 || height > 64)
            abort();
    }
    return 0;
}
