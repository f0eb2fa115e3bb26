/*
 * packed_litdata — the formats of litdata's columns; see packed_sample.h.
 */
#include "convert/record/packed_sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The order of litdata.constants, where other types have DTYPE_COUNT. */
bool packed_numpy_dtype(uint32_t number, enum dtype *ret_dtype)
{
    static const enum dtype dtypes[] = {DTYPE_I8,  DTYPE_I16,   DTYPE_I32,   DTYPE_I64, DTYPE_U8,
                                        DTYPE_U16, DTYPE_U32,   DTYPE_U64,   DTYPE_F16, DTYPE_F32,
                                        DTYPE_F64, DTYPE_COUNT, DTYPE_COUNT, DTYPE_BOOL};
    if (number >= sizeof dtypes / sizeof dtypes[0] || dtypes[number] == DTYPE_COUNT)
        return false;
    *ret_dtype = dtypes[number];
    return true;
}

bool packed_tensor_dtype(uint32_t number, enum dtype *ret_dtype)
{
    static const enum dtype dtypes[] = {
        DTYPE_F32,   DTYPE_F32, DTYPE_F64, DTYPE_F64,   DTYPE_COUNT, DTYPE_COUNT, DTYPE_COUNT,
        DTYPE_COUNT, DTYPE_F16, DTYPE_F16, DTYPE_COUNT, DTYPE_U8,    DTYPE_I8,    DTYPE_I16,
        DTYPE_I16,   DTYPE_I32, DTYPE_I32, DTYPE_I64,   DTYPE_I64,   DTYPE_BOOL,  DTYPE_U16};
    if (number >= sizeof dtypes / sizeof dtypes[0] || dtypes[number] == DTYPE_COUNT)
        return false;
    *ret_dtype = dtypes[number];
    return true;
}

/* Returns what follows "NAME" or "NAME:"; NULL: another name. */
static const char *after_name(const char *format, const char *name)
{
    size_t bytes = strlen(name);
    if (strncmp(format, name, bytes) != 0 || (format[bytes] && format[bytes] != ':'))
        return NULL;
    return format + bytes + (format[bytes] == ':');
}

static bool parse_format(const char *format, struct packed_column *column)
{
    static const struct {
        const char *name;
        enum packed_type type;
        enum dtype dtype;
    } types[] = {
        {"bytes", PACKED_BYTES, 0},
        {"jpeg", PACKED_BYTES, 0},
        {"image", PACKED_BYTES, 0},
        {"video", PACKED_BYTES, 0},
        {"audio", PACKED_BYTES, 0},
        {"file", PACKED_BYTES, 0},
        {"tiff", PACKED_BYTES, 0},
        {"tifffile", PACKED_BYTES, 0},
        {"pdf", PACKED_BYTES, 0},
        {"str", PACKED_STR, 0},
        {"text", PACKED_STR, 0},
        {"int", PACKED_SCALAR, DTYPE_I64},
        {"float", PACKED_SCALAR, DTYPE_F64},
        {"bool", PACKED_SCALAR, DTYPE_BOOL},
        {"pil", PACKED_PIL, 0},
        {"jpeg_array", PACKED_ARRAY, 0},
        {"numpy", PACKED_NUMPY, 0},
        {"tensor", PACKED_TENSOR, 0},
        {"json", PACKED_JSON, 0},
    };
    const char *numpy = after_name(format, "no_header_numpy"),
               *tensor = after_name(format, "no_header_tensor");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (after_name(format, types[i].name)) {
            column->type = types[i].type;
            column->dtype = types[i].dtype;
            return true;
        }
    if (!numpy && !tensor)
        return false;
    char *end;
    uint64_t number = strtoul(numpy ? numpy : tensor, &end, 10);
    column->type = PACKED_FLAT;
    return !*end && number < 64 &&
           (numpy ? packed_numpy_dtype((uint32_t)number, &column->dtype)
                  : packed_tensor_dtype((uint32_t)number, &column->dtype));
}

int packed_column_parse_litdata(const char *format, struct packed_column *ret_column,
                                struct err *err)
{
    struct packed_column column = {.name = ""};
    memcpy(column.name, ret_column->name, sizeof column.name);
    if (parse_format(format, &column)) {
        *ret_column = column;
        return 0;
    }
    err_set(err, -ENOTSUP, "the format of column \"%.100s\" is not supported", column.name);
    err_expected(err, "bytes, text, numbers, images, or arrays of numbers");
    err_found(err, "%.100s", format);
    err_advise(err, "write the dataset again with another type, for example numpy instead of "
                    "pickle");
    return -ENOTSUP;
}
