/*
 * idx — see idx.h.
 */
#include "convert/source/idx.h"

#include <errno.h>
#include <inttypes.h>

enum { TYPE_U8 = 8 };

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int reject(int code, const char *path, int64_t offset, const char *expected, struct err *err)
{
    err_set(err, code, "an idx file cannot be read");
    err_at(err, path, offset);
    err_expected(err, "%s", expected);
    return code;
}

int idx_read_header(const uint8_t *bytes, size_t count_bytes, uint64_t file_bytes, const char *path,
                    struct idx *ret_idx, struct err *err)
{
    struct idx idx = {0};
    uint64_t data_bytes = 1;
    if (count_bytes >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
        reject(-ENOTSUP, path, 0, "an uncompressed file", err);
        err_found(err, "gzip");
        err_advise(err, "rename it to end with .gz, and decompress it with `gunzip -k`");
        return -ENOTSUP;
    }
    if (count_bytes < 4 || bytes[0] || bytes[1])
        return reject(-EBADMSG, path, 0, "two zero bytes, type and rank", err);
    if (bytes[2] != TYPE_U8) {
        reject(-ENOTSUP, path, 2, "elements of type 8, bytes", err);
        err_found(err, "type %u", bytes[2]);
        return -ENOTSUP;
    }
    idx.rank = bytes[3];
    idx.header_bytes = 4 + 4 * idx.rank;
    if (idx.rank == 0 || idx.rank > IDX_RANK_MAX || count_bytes < idx.header_bytes)
        return reject(-EBADMSG, path, 3, "1 to 4 dimensions", err);
    for (uint32_t d = 0; d < idx.rank; d++) {
        idx.shape[d] = get_u32(bytes + 4 + 4 * d);
        if (__builtin_mul_overflow(data_bytes, idx.shape[d], &data_bytes))
            return reject(-EBADMSG, path, 4 + 4 * d, "a size below 2^64", err);
    }
    if (file_bytes - idx.header_bytes != data_bytes) {
        reject(-EBADMSG, path, 4, "the size of a complete file", err);
        err_expected(err, "%" PRIu64 " bytes after the header", data_bytes);
        err_found(err, "%" PRIu64, file_bytes - idx.header_bytes);
        return -EBADMSG;
    }
    *ret_idx = idx;
    return 0;
}
