/*
 * jpeg_headers — fuzz target: the headers of a JPEG (image/jpeg/jpeg_headers.h), as a whole file
 * and as the start of a larger one.
 */
#include "image/jpeg/jpeg_headers.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct jpeg_headers whole, part;
    struct err err;
    int status = jpeg_read_headers(data, bytes, bytes, "input", &whole, &err);
    int again = jpeg_read_headers(data, bytes, bytes + 1, "input", &part, &err);
    if (status == -ENODATA || (again != status && again != -ENODATA))
        abort();
    if (status == 0 &&
        (whole.header_bytes > bytes || whole.width == 0 || whole.orientation - 1 > 7))
        abort();
    return 0;
}
