/*
 * npy — fuzz target: the header of a .npy file (shards/npy.h).
 */
#include "shards/npy.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct npy npy;
    struct err err;
    if (npy_decode_header(data, bytes, bytes, "input", &npy, &err) == 0) {
        if (npy.header_bytes > bytes || npy.count > (bytes - npy.header_bytes) / dtype_bytes(npy.dtype))
            abort();
    }
    return 0;
}
