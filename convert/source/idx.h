/*
 * idx — headers of idx files, the format of MNIST (yann.lecun.com/exdb/mnist): two zero bytes, the
 * element type, the number of dimensions, and each dimension as a big-endian u32. The elements
 * follow in C order.
 */
#ifndef MILLRACE_CONVERT_SOURCE_IDX_H
#define MILLRACE_CONVERT_SOURCE_IDX_H

#include "base/dtype.h"
#include "base/err.h"

#include <stdint.h>

enum { IDX_RANK_MAX = 4, IDX_HEADER_BYTES_MAX = 4 + 4 * IDX_RANK_MAX };

/* Of bytes, the only type that MNIST and its relatives have. */
struct idx {
    uint32_t rank, header_bytes;
    uint64_t shape[IDX_RANK_MAX];
};

/* bytes: the start of the file. file_bytes must match the header. -EBADMSG with the offset;
 * -ENOTSUP: elements of another type. */
int idx_read_header(const uint8_t *bytes, size_t count_bytes, uint64_t file_bytes, const char *path,
                    struct idx *ret_idx, struct err *err);

#endif
