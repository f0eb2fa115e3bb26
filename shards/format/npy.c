/*
 * npy — see npy.h.
 */
#include "shards/format/npy.h"

#include "base/bytes.h"
#include "shards/format/npy_header.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct descr {
    char text[4];
    enum dtype dtype;
} descrs[] = {{"|b1", DTYPE_BOOL}, {"|u1", DTYPE_U8},  {"|i1", DTYPE_I8},  {"<u2", DTYPE_U16},
              {"<i2", DTYPE_I16},  {"<u4", DTYPE_U32}, {"<i4", DTYPE_I32}, {"<u8", DTYPE_U64},
              {"<i8", DTYPE_I64},  {"<f2", DTYPE_F16}, {"<f4", DTYPE_F32}, {"<f8", DTYPE_F64}};

enum { DESCRS_COUNT = sizeof descrs / sizeof descrs[0] };

/* shape: the numbers of a tuple. */
static void encode(enum dtype dtype, const char *shape, uint8_t *header, size_t header_bytes)
{
    const char *text = NULL;
    for (size_t i = 0; i < DESCRS_COUNT; i++)
        if (descrs[i].dtype == dtype)
            text = descrs[i].text;
    assert(text);
    memset(header, ' ', header_bytes);
    memcpy(header, NPY_MAGIC, strlen(NPY_MAGIC));
    header[6] = 1;
    header[7] = 0;
    bytes_put_u16(header + 8, (uint16_t)(header_bytes - 10));
    char dict[NPY_ARRAY_HEADER_BYTES];
    int bytes = snprintf(dict, sizeof dict,
                         "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", text, shape);
    assert(bytes > 0 && (size_t)bytes < header_bytes - 11);
    memcpy(header + 10, dict, (size_t)bytes);
    header[header_bytes - 1] = '\n';
}

void npy_encode_header(enum dtype dtype, uint64_t count, uint8_t header[NPY_HEADER_BYTES])
{
    char shape[24];
    snprintf(shape, sizeof shape, "%" PRIu64 ",", count);
    encode(dtype, shape, header, NPY_HEADER_BYTES);
}

void npy_encode_array_header(enum dtype dtype, uint32_t rank, const int64_t *shape,
                             uint8_t header[NPY_ARRAY_HEADER_BYTES])
{
    char text[24 * DTYPE_RANK_MAX] = "";
    size_t used = 0;
    for (uint32_t d = 0; d < rank; d++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%" PRId64 ",", shape[d]);
    encode(dtype, text, header, NPY_ARRAY_HEADER_BYTES);
}

static int unsupported_array(struct err *err, const char *path, const char *what,
                             const char *expected)
{
    err_set(err, -ENOTSUP, "%s", what);
    err_at(err, path, 0);
    err_expected(err, "%s", expected);
    return -ENOTSUP;
}

bool npy_find_dtype(const struct npy_header *header, enum dtype *ret_dtype, bool *ret_is_big_endian)
{
    for (size_t i = 0; i < DESCRS_COUNT && header->dtype_bytes == 3; i++) {
        const char *text = descrs[i].text;
        bool is_big_endian = text[0] == '<' && header->dtype[0] == '>';
        if (memcmp(text + 1, header->dtype + 1, 2) == 0 &&
            (is_big_endian || header->dtype[0] == text[0])) {
            *ret_dtype = descrs[i].dtype;
            *ret_is_big_endian = is_big_endian;
            return true;
        }
    }
    return false;
}

bool npy_has_dtype(enum dtype dtype)
{
    for (size_t i = 0; i < DESCRS_COUNT; i++)
        if (descrs[i].dtype == dtype)
            return true;
    return false;
}

int npy_decode_array(const uint8_t *bytes, size_t count_bytes, uint64_t file_bytes,
                     const char *path, struct npy *ret_npy, struct err *err)
{
    struct npy_header header;
    int status = npy_read_header(bytes, count_bytes, path, &header, err);
    if (status)
        return status;
    struct npy npy = {
        .rank = header.rank, .count = header.elements_count, .header_bytes = header.header_bytes};
    bool is_big_endian;
    if (!npy_find_dtype(&header, &npy.dtype, &is_big_endian) || is_big_endian)
        return unsupported_array(err, path, "dtype of an .npy file is not supported",
                                 "a little-endian number");
    if (header.is_fortran)
        return unsupported_array(err, path, "array is in Fortran order", "C order");
    if (header.rank > DTYPE_RANK_MAX)
        return unsupported_array(err, path, "an .npy file has too many dimensions", "at most 8");
    memcpy(npy.shape, header.shape, header.rank * sizeof npy.shape[0]);
    uint64_t data_bytes = file_bytes > npy.header_bytes ? file_bytes - npy.header_bytes : 0;
    if (header.data_bytes != data_bytes) {
        err_set(err, -EBADMSG, "size of an .npy file does not match its header");
        err_at(err, path, npy.header_bytes);
        err_expected(err, "%" PRIu64 " elements of %zu bytes", npy.count, dtype_bytes(npy.dtype));
        err_found(err, "%" PRIu64 " bytes", data_bytes);
        return -EBADMSG;
    }
    *ret_npy = npy;
    return 0;
}

int npy_decode_header(const uint8_t *bytes, size_t count_bytes, uint64_t file_bytes,
                      const char *path, struct npy *ret_npy, struct err *err)
{
    struct npy npy;
    int status = npy_decode_array(bytes, count_bytes, file_bytes, path, &npy, err);
    if (status)
        return status;
    if (npy.rank != 1)
        return unsupported_array(err, path, "shape of an .npy file is not supported",
                                 "one dimension");
    *ret_npy = npy;
    return 0;
}
