/*
 * jpeg_cut — fuzz target: if a JPEG decodes without a warning, parts cut out of it
 * (image/jpeg/jpeg_cut.h) and out of its tiled version (jpeg_tile) equal those of the whole image.
 *
 * Skips large images only to save time.
 */
#include "image/jpeg/jpeg.h"
#include "image/jpeg/jpeg_tile.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/planes.h"

#include <stdlib.h>

enum { PIXELS_MAX = 1 << 14, PARTS = 6 };

/* Reused, as a worker does; reachable at exit, so no leak. */
static struct jpeg_decoder *whole_decoder, *part_decoder;

/* Compares parts of the file with the whole image. whole: NULL if its decoding gave a warning. */
static void cut(const void *data, size_t bytes, const struct jpeg_planes *whole)
{
    for (uint32_t i = 0; i < PARTS; i++) {
        struct jpeg_info info;
        struct jpeg_planes cut_planes;
        struct err err;
        if (jpeg_decode_begin(part_decoder, data, bytes, "input", &info, &err)) {
            if (whole)
                abort();
            return;
        }
        struct image_rect part = {.x = info.width * i / (PARTS + 1),
                                  .y = info.height * (i * 5 % 7) / 7};
        part.width = 1 + (info.width - part.x - 1) * (i * 3 % 5) / 4;
        part.height = 1 + (info.height - part.y - 1) * (i * 4 % 5) / 4;
        int status = jpeg_decode_part(part_decoder, &part, &cut_planes, &err);
        if (whole && status)
            abort();
        if (whole)
            planes_compare(whole, &cut_planes, part);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct jpeg_info info;
    struct jpeg_planes whole;
    struct str tiled = {0};
    struct err err;
    bool is_tiled;
    if (!whole_decoder &&
        (jpeg_decoder_open(&whole_decoder, &err) || jpeg_decoder_open(&part_decoder, &err)))
        abort();
    if (jpeg_probe(data, bytes, "input", &info, &err) ||
        (uint64_t)info.width * info.height > PIXELS_MAX)
        return 0;
    int status = jpeg_decode(whole_decoder, data, bytes, "input", &whole, &err);
    bool clean = status == 0 && jpeg_decoder_warnings(whole_decoder) == 0;
    cut(data, bytes, clean ? &whole : NULL);
    if (jpeg_tile(data, bytes, "input", &tiled, &is_tiled, &err) == 0 && is_tiled)
        cut(tiled.data, tiled.bytes, clean ? &whole : NULL);
    else if (clean && !is_tiled && tiled.bytes > 0)
        abort();
    str_deinit(&tiled);
    return 0;
}
