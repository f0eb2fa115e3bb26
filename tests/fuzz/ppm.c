/*
 * ppm — fuzz target: a PPM (image/formats/ppm.h).
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pixels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    fuzz_pixels(IMAGE_PPM, data, bytes);
    return 0;
}
