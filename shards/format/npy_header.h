/*
 * npy_header — parses the header of any NumPy array file, versions 1.0 to 3.0: every dtype, order
 * and number of dimensions.
 *
 * Used to describe files to people. npy.h has the subset that the loader accepts.
 */
#ifndef MILLRACE_SHARDS_FORMAT_NPY_HEADER_H
#define MILLRACE_SHARDS_FORMAT_NPY_HEADER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NPY_RANK_MAX = 64, /* NumPy's limit */
    /* Magic, version, length, and 65,535 bytes of text, the maximum of version 1.0. */
    NPY_HEADER_BYTES_MAX = 65547
};

#define NPY_MAGIC "\x93NUMPY"

struct npy_header {
    uint8_t major, minor;
    /* 'descr' as written, without quotes if it is one string; borrowed from the file's bytes. */
    const char *dtype;
    size_t dtype_bytes;
    uint64_t element_bytes;
    bool is_structured; /* elements have several fields */
    bool is_fortran;    /* the first index changes fastest */
    uint32_t rank;
    uint64_t shape[NPY_RANK_MAX];
    uint64_t elements_count, data_bytes; /* according to the shape */
    uint32_t header_bytes;               /* offset of the data */
};

/* bytes: the start of the file, at least its header. -EBADMSG with the offset of the problem;
 * -ENOTSUP: a version after 3, or Python objects, which are stored as a pickle. Pure. */
int npy_read_header(const uint8_t *bytes, size_t count_bytes, const char *path,
                    struct npy_header *ret_header, struct err *err);

#endif
