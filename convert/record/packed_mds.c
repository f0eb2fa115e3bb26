/*
 * packed_mds — the encodings of MDS's columns; see packed_sample.h.
 */
#include "convert/record/packed_sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* NumPy's names, and the numbers of an ndarray that has its own dtype. */
static const struct {
    const char *name;
    enum dtype dtype;
    uint8_t number;
} dtypes[] = {
    {"uint8", DTYPE_U8, 8},   {"int8", DTYPE_I8, 9},      {"uint16", DTYPE_U16, 16},
    {"int16", DTYPE_I16, 17}, {"float16", DTYPE_F16, 18}, {"uint32", DTYPE_U32, 32},
    {"int32", DTYPE_I32, 33}, {"float32", DTYPE_F32, 34}, {"uint64", DTYPE_U64, 64},
    {"int64", DTYPE_I64, 65}, {"float64", DTYPE_F64, 66}, {"int", DTYPE_I64, 0},
};

enum { DTYPES_COUNT = sizeof dtypes / sizeof dtypes[0] };

static bool find_dtype(const char *name, size_t bytes, enum dtype *ret_dtype)
{
    for (size_t i = 0; i < DTYPES_COUNT; i++)
        if (strlen(dtypes[i].name) == bytes && memcmp(dtypes[i].name, name, bytes) == 0) {
            *ret_dtype = dtypes[i].dtype;
            return true;
        }
    return false;
}

/* Parses what follows "ndarray": "", ":DTYPE" or ":DTYPE:3,4". */
static bool parse_ndarray(const char *text, struct packed_column *column)
{
    uint64_t count;
    column->type = PACKED_NDARRAY;
    if (!*text)
        return true;
    size_t bytes = strcspn(++text, ":");
    if (!find_dtype(text, bytes, &column->dtype))
        return false;
    column->has_dtype = true;
    text += bytes;
    if (!*text)
        return true;
    do {
        char *end;
        if (column->rank == DTYPE_RANK_MAX || text[1] < '0' || text[1] > '9')
            return false;
        errno = 0;
        column->shape[column->rank++] = strtoll(text + 1, &end, 10);
        if (errno)
            return false;
        text = end;
    } while (*text == ',');
    if (*text || !packed_shape_count(column->shape, column->rank, &count) || count == 0 ||
        count > RECORD_DATA_BYTES_MAX / dtype_bytes(column->dtype))
        return false;
    column->bytes = (uint32_t)(count * dtype_bytes(column->dtype));
    return true;
}

static bool parse_encoding(const char *encoding, struct packed_column *column)
{
    static const struct {
        const char *name;
        enum packed_type type;
    } types[] = {
        {"bytes", PACKED_BYTES},        {"jpeg", PACKED_BYTES},
        {"png", PACKED_BYTES},          {"str", PACKED_STR},
        {"str_int", PACKED_NUMBER},     {"str_float", PACKED_NUMBER},
        {"str_decimal", PACKED_NUMBER}, {"pil", PACKED_PIL},
        {"jpeg_array", PACKED_ARRAY},   {"jpegarray", PACKED_ARRAY},
        {"list[jpeg]", PACKED_LIST},    {"list[png]", PACKED_LIST},
        {"list[pil]", PACKED_PIL_LIST}, {"json", PACKED_JSON},
    };
    if (find_dtype(encoding, strlen(encoding), &column->dtype)) {
        column->type = PACKED_SCALAR;
        column->bytes = (uint32_t)dtype_bytes(column->dtype);
        return true;
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, encoding) == 0) {
            column->type = types[i].type;
            return true;
        }
    return strncmp(encoding, "ndarray", 7) == 0 && (!encoding[7] || encoding[7] == ':') &&
           parse_ndarray(encoding + 7, column);
}

int packed_column_parse_mds(const char *encoding, struct packed_column *ret_column, struct err *err)
{
    struct packed_column column = {.name = ""};
    memcpy(column.name, ret_column->name, sizeof column.name);
    if (parse_encoding(encoding, &column)) {
        *ret_column = column;
        return 0;
    }
    bool is_pickle = strcmp(encoding, "pkl") == 0;
    err_set(err, -ENOTSUP, "the encoding of column \"%.100s\" is not supported", column.name);
    err_expected(err, is_pickle ? "an encoding other than a Python pickle, which may run any code"
                                : "an encoding of MDS, with at most 8 dimensions");
    err_found(err, "%.100s", encoding);
    err_advise(err, "write the dataset again with another encoding, for example json or ndarray");
    return -ENOTSUP;
}

bool packed_ndarray_dtype(uint8_t number, enum dtype *ret_dtype)
{
    for (size_t i = 0; i < DTYPES_COUNT; i++)
        if (number > 0 && dtypes[i].number == number) {
            *ret_dtype = dtypes[i].dtype;
            return true;
        }
    return false;
}
