/*
 * npy_header — the header of any NumPy array file, versions 1.0 to 3.0: every dtype, order and
 * number of dimensions.
 *
 * For telling people what a file is. What the loader takes of these is in npy.h.
 */
#ifndef MILLRACE_SHARDS_NPY_HEADER_H
#define MILLRACE_SHARDS_NPY_HEADER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NPY_RANK_MAX = 64, /* NumPy's own */
    /* Magic, version, length, and 65,535 bytes of text, as version 1.0 allows at most. */
    NPY_HEADER_BYTES_MAX = 65547
};

#define NPY_MAGIC "\x93NUMPY"

struct npy_header {
    uint8_t major, minor;
    /* 'descr' as it stands, without quotes where it is one string; borrowed from the file's
     * bytes. */
    const char *dtype;
    size_t dtype_bytes;
    uint64_t element_bytes;
    bool is_structured; /* elements of several fields */
    bool is_fortran;    /* the first index changes fastest */
    uint32_t rank;
    uint64_t shape[NPY_RANK_MAX];
    uint64_t elements_count, data_bytes; /* that the shape says */
    uint32_t header_bytes;               /* the data begins there */
};

/* bytes: the file from its start, at least its header. -EBADMSG with the offset of what is wrong;
 * -ENOTSUP: a version after 3, Python objects, which are stored as a pickle. Pure. */
int npy_read_header(const uint8_t *bytes, size_t count_bytes, const char *path,
                    struct npy_header *ret_header, struct err *err);

#endif
