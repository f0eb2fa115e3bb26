/*
 * npy — one-dimensional little-endian integer arrays in NumPy's file format 1.0
 * (numpy.lib.format).
 */
#ifndef MILLRACE_SHARDS_FORMAT_NPY_H
#define MILLRACE_SHARDS_FORMAT_NPY_H

#include "base/dtype.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { NPY_HEADER_BYTES = 128 }; /* when written; readers use the file's value */

void npy_encode_header(enum dtype dtype, uint64_t count, uint8_t header[NPY_HEADER_BYTES]);

struct npy {
    enum dtype dtype;
    uint64_t count;
    uint32_t header_bytes;
};

/* bytes: the start of the file, including the whole header. file_bytes must match the header.
 * -EBADMSG with the offset; -ENOTSUP: Fortran order, more than one dimension, other dtypes. */
int npy_decode_header(const uint8_t *bytes, size_t count_bytes, uint64_t file_bytes,
                      const char *path, struct npy *ret_npy, struct err *err);

#endif
