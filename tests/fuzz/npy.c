/*
 * npy — fuzz target: the header of a .npy file (shards/format/npy_header.h), and the subset that
 * the loader supports (shards/format/npy.h).
 */
#include "shards/format/npy.h"
#include "shards/format/npy_header.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct npy npy;
    struct npy_header header;
    struct err err;
    int status = npy_read_header(data, bytes, "input", &header, &err);
    if (status == 0 &&
        (header.header_bytes > bytes || header.rank > NPY_RANK_MAX ||
         (const uint8_t *)header.dtype + header.dtype_bytes > data + header.header_bytes))
        abort();
    if (status && (err.offset < 0 || (uint64_t)err.offset > bytes))
        abort();
    if (npy_decode_header(data, bytes, bytes, "input", &npy, &err) == 0) {
        if (status || npy.header_bytes > bytes ||
            npy.count > (bytes - npy.header_bytes) / dtype_bytes(npy.dtype))
            abort();
    }
    return 0;
}
