/*
 * npy — see npy.h. Format: numpy.lib.format, "Format Version 1.0" to "3.0".
 *
 *     0  magic "\x93NUMPY"   6  u8 major   7  u8 minor   8  u16 (1.0) or u32 (2.0, 3.0) header length, little-endian
 *     then a Python dict literal: 'descr', 'fortran_order', 'shape', padded with spaces and ended by a newline
 */
#include "shards/npy.h"

#include "base/bytes.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

enum { DICT_BYTES_MAX = 4096 };

static const struct descr {
    char text[4];
    enum dtype dtype;
} descrs[] = {{"|b1", DTYPE_BOOL}, {"|u1", DTYPE_U8},  {"|i1", DTYPE_I8},  {"<u2", DTYPE_U16},
              {"<i2", DTYPE_I16},  {"<u4", DTYPE_U32}, {"<i4", DTYPE_I32}, {"<u8", DTYPE_U64},
              {"<i8", DTYPE_I64},  {"<f2", DTYPE_F16}, {"<f4", DTYPE_F32}, {"<f8", DTYPE_F64}};

enum { DESCRS_COUNT = sizeof descrs / sizeof descrs[0] };

void npy_encode_header(enum dtype dtype, uint64_t count, uint8_t header[NPY_HEADER_BYTES])
{
    const char *text = NULL;
    for (size_t i = 0; i < DESCRS_COUNT; i++)
        if (descrs[i].dtype == dtype)
            text = descrs[i].text;
    assert(text);
    memset(header, ' ', NPY_HEADER_BYTES);
    memcpy(header, magic, sizeof magic);
    header[6] = 1;
    header[7] = 0;
    bytes_put_u16(header + 8, NPY_HEADER_BYTES - 10);
    char dict[NPY_HEADER_BYTES];
    int bytes = snprintf(dict, sizeof dict,
                         "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ",), }", text, count);
    assert(bytes > 0 && bytes < NPY_HEADER_BYTES - 11);
    memcpy(header + 10, dict, (size_t)bytes);
    header[NPY_HEADER_BYTES - 1] = '\n';
}

static int bad(struct err *err, int code, const char *path, int64_t offset, const char *what,
               const char *expected)
{
    err_set(err, code, "%s", what);
    err_at(err, path, offset);
    err_expected(err, "%s", expected);
    return code;
}

/* The text after 'key': in the dict, NULL where it is absent. Values are short and hold no quotes of other keys. */
static const char *dict_value(const char *dict, const char *key)
{
    char quoted[24];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(dict, quoted);
    if (!at)
        return NULL;
    at += strlen(quoted);
    while (*at == ' ')
        at++;
    return at;
}

static int parse_descr(const char *value, enum dtype *ret_dtype)
{
    if (!value || value[0] != '\'')
        return -EBADMSG;
    for (size_t i = 0; i < DESCRS_COUNT; i++) {
        size_t bytes = strlen(descrs[i].text);
        if (strncmp(value + 1, descrs[i].text, bytes) == 0 && value[1 + bytes] == '\'') {
            *ret_dtype = descrs[i].dtype;
            return 0;
        }
    }
    return -ENOTSUP;
}

static int parse_shape(const char *value, uint64_t *ret_count)
{
    if (!value || *value++ != '(')
        return -EBADMSG;
    if (!isdigit((unsigned char)*value))
        return *value == ')' ? -ENOTSUP : -EBADMSG;
    uint64_t count = 0;
    for (; isdigit((unsigned char)*value); value++) {
        if (count > (UINT64_MAX >> 8))
            return -EBADMSG;
        count = count * 10 + (uint64_t)(*value - '0');
    }
    if (*value++ != ',')
        return -EBADMSG;
    while (*value == ' ')
        value++;
    if (*value != ')')
        return isdigit((unsigned char)*value) ? -ENOTSUP : -EBADMSG;
    *ret_count = count;
    return 0;
}

static int find_dict(const uint8_t *bytes, size_t count_bytes, const char *path, uint32_t *ret_at,
                     uint32_t *ret_bytes, struct err *err)
{
    if (count_bytes < 12 || memcmp(bytes, magic, sizeof magic) != 0)
        return bad(err, -EBADMSG, path, 0, "not an .npy file", "\\x93NUMPY");
    if (bytes[6] < 1 || bytes[6] > 3)
        return bad(err, -ENOTSUP, path, 6, "unknown version of .npy", "1, 2 or 3");
    uint32_t at = bytes[6] == 1 ? 10 : 12;
    uint32_t dict_bytes = bytes[6] == 1 ? bytes_get_u16(bytes + 8) : bytes_get_u32(bytes + 8);
    if (dict_bytes > DICT_BYTES_MAX || dict_bytes > count_bytes - at)
        return bad(err, -EBADMSG, path, 8, "header of an .npy file does not fit",
                   "a header of at most 4096 bytes");
    *ret_at = at;
    *ret_bytes = dict_bytes;
    return 0;
}

int npy_decode_header(const uint8_t *bytes, size_t count_bytes, uint64_t file_bytes, const char *path,
                      struct npy *ret_npy, struct err *err)
{
    uint32_t at = 0, dict_bytes = 0;
    int status = find_dict(bytes, count_bytes, path, &at, &dict_bytes, err);
    if (status)
        return status;
    char dict[DICT_BYTES_MAX + 1];
    memcpy(dict, bytes + at, dict_bytes);
    dict[dict_bytes] = '\0';
    struct npy npy = {.header_bytes = at + dict_bytes};
    status = parse_descr(dict_value(dict, "descr"), &npy.dtype);
    if (status)
        return bad(err, status, path, at, "dtype of an .npy file is not supported", "a little-endian number");
    const char *order = dict_value(dict, "fortran_order");
    if (!order || (strncmp(order, "False", 5) != 0 && strncmp(order, "True", 4) != 0))
        return bad(err, -EBADMSG, path, at, "'fortran_order' of an .npy file is missing", "True or False");
    if (order[0] == 'T')
        return bad(err, -ENOTSUP, path, at, "array in Fortran order", "C order");
    status = parse_shape(dict_value(dict, "shape"), &npy.count);
    if (status)
        return bad(err, status, path, at, "shape of an .npy file is not supported", "one dimension");
    uint64_t room = file_bytes > npy.header_bytes ? file_bytes - npy.header_bytes : 0;
    if (npy.count > room / dtype_bytes(npy.dtype) || npy.count * dtype_bytes(npy.dtype) != room) {
        bad(err, -EBADMSG, path, npy.header_bytes, "size of an .npy file does not fit its header", "");
        err_expected(err, "%" PRIu64 " elements of %zu bytes", npy.count, dtype_bytes(npy.dtype));
        err_found(err, "%" PRIu64 " bytes", room);
        return -EBADMSG;
    }
    *ret_npy = npy;
    return 0;
}
