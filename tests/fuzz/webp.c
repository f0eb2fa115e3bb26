/*
 * webp — fuzz target: a WebP (image/formats/webp.h).
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pixels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    fuzz_pixels(IMAGE_WEBP, data, bytes);
    return 0;
}
