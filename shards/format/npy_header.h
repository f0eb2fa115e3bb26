/*
 * npy_header — parses NumPy array headers of versions 1.0 to 3.0, for display. npy.h has the
 * subset that the loader accepts.
 */
#ifndef MILLRACE_SHARDS_FORMAT_NPY_HEADER_H
#define MILLRACE_SHARDS_FORMAT_NPY_HEADER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NPY_RANK_MAX = 64, /* NumPy's limit */
    /* Magic, version, length, and the 65,535 bytes of text that version 1.0 allows. */
    NPY_HEADER_BYTES_MAX = 65547
};

#define NPY_MAGIC "\x93NUMPY"

struct npy_header {
    uint8_t major, minor;
    /* 'descr' as written, a single string without its quotes; points into the file's bytes. */
    const char *dtype;
    size_t dtype_bytes;
    uint64_t element_bytes;
    bool is_structured; /* elements are records of several fields */
    bool is_fortran;    /* the first index changes fastest */
    uint32_t rank;
    uint64_t shape[NPY_RANK_MAX];
    uint64_t elements_count, data_bytes;
    uint32_t header_bytes; /* offset of the data */
};

/* bytes: the start of the file, including the whole header. -EBADMSG with the offset; -ENOTSUP: a
 * version above 3, or Python objects, which are pickled. */
int npy_read_header(const uint8_t *bytes, size_t count_bytes, const char *path,
                    struct npy_header *ret_header, struct err *err);

#endif
