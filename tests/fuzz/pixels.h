/*
 * pixels — shared by the fuzz targets of image files.
 */
#ifndef MILLRACE_TESTS_FUZZ_PIXELS_H
#define MILLRACE_TESTS_FUZZ_PIXELS_H

#include "image/formats/pixels.h"
#include "image/pipeline/pipeline.h"

#include <stdlib.h>
#include <string.h>

/* Decodes a file of this kind whole, in part, and as a crop through the pixel pipeline. Aborts
 * unless the part equals the same area of the whole. Skips large images only to save time. */
static inline void fuzz_pixels(enum image_kind kind, const uint8_t *data, size_t bytes)
{
    enum { SIDE = 32, FUZZ_PIXELS_MAX = 1 << 14 };
    /* reused, as a worker does; reachable at exit, so no leak */
    static struct pixels_decoder *first, *second;
    static struct image_pipeline *pipeline;
    static uint8_t rgb[SIDE * SIDE * 3];
    struct image_options options = {SIDE, SIDE, crop_options_default(CROP_RANDOM)};
    struct pixels_info info;
    struct pixels whole, part;
    struct err err;
    if (!first && (pixels_decoder_open(&first, &err) || pixels_decoder_open(&second, &err) ||
                   image_pipeline_open(&options, &pipeline, &err)))
        abort();
    if (pixels_begin(first, kind, data, bytes, "input", &info, &err) ||
        (uint64_t)info.width * info.height > FUZZ_PIXELS_MAX)
        return;
    image_pipeline_run(pipeline, data, bytes, "input", (struct image_key){.seed = bytes}, rgb,
                       (size_t)SIDE * 3, &err);
    struct image_rect want = {info.width / 3, info.height / 4, (info.width + 2) / 3,
                              (info.height + 3) / 4};
    if (pixels_decode_region(first, NULL, &whole, &err))
        return;
    if (pixels_begin(second, kind, data, bytes, "input", &info, &err) ||
        pixels_decode_region(second, &want, &part, &err))
        abort();
    for (uint32_t y = want.y; y < want.y + want.height; y++)
        if (memcmp(whole.data + y * whole.stride_bytes + want.x * info.channels,
                   part.data + (y - part.region.y) * part.stride_bytes +
                       (want.x - part.region.x) * info.channels,
                   want.width * info.channels))
            abort();
}

#endif
