/*
 * npy — little-endian arrays in NumPy's file format (numpy.lib.format), in C order.
 */
#ifndef MILLRACE_SHARDS_FORMAT_NPY_H
#define MILLRACE_SHARDS_FORMAT_NPY_H

#include "base/dtype.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* When written; readers use the file's value. Any shape fits into the larger one. */
enum { NPY_HEADER_BYTES = 128, NPY_ARRAY_HEADER_BYTES = 320 };

void npy_encode_header(enum dtype dtype, uint64_t count, uint8_t header[NPY_HEADER_BYTES]);
/* rank: at most DTYPE_RANK_MAX. */
void npy_encode_array_header(enum dtype dtype, uint32_t rank, const int64_t *shape,
                             uint8_t header[NPY_ARRAY_HEADER_BYTES]);

struct npy {
    enum dtype dtype;
    uint32_t rank;
    uint64_t shape[DTYPE_RANK_MAX];
    uint64_t count; /* of elements */
    uint32_t header_bytes;
};

/* bytes: the start of the file, including the whole header. file_bytes must match the header.
 * -EBADMSG with the offset; -ENOTSUP: Fortran order, more than DTYPE_RANK_MAX dimensions, other
 * dtypes. */
int npy_decode_array(const uint8_t *bytes, size_t count_bytes, uint64_t file_bytes,
                     const char *path, struct npy *ret_npy, struct err *err);
/* The same for arrays of one dimension; others are -ENOTSUP. */
int npy_decode_header(const uint8_t *bytes, size_t count_bytes, uint64_t file_bytes,
                      const char *path, struct npy *ret_npy, struct err *err);
/* False: NumPy has no such type. */
bool npy_has_dtype(enum dtype dtype);
/* Finds the dtype of a header (npy_header.h), in either byte order. False: it is none of enum
 * dtype. */
struct npy_header;
bool npy_find_dtype(const struct npy_header *header, enum dtype *ret_dtype,
                    bool *ret_is_big_endian);

#endif
