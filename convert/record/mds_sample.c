/*
 * mds_sample — see mds_sample.h.
 */
#include "convert/record/mds_sample.h"

#include "base/bytes.h"
#include "image/formats/ppm.h"

#include <errno.h>
#include <inttypes.h>
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

/* ---- Encodings. ---- */

static bool find_dtype(const char *name, size_t bytes, enum dtype *ret_dtype)
{
    for (size_t i = 0; i < DTYPES_COUNT; i++)
        if (strlen(dtypes[i].name) == bytes && memcmp(dtypes[i].name, name, bytes) == 0) {
            *ret_dtype = dtypes[i].dtype;
            return true;
        }
    return false;
}

static bool multiply_shape(const int64_t *shape, uint32_t rank, uint64_t *ret_count)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(count, (uint64_t)shape[i], &count))
            return false;
    *ret_count = count;
    return count <= RECORD_DATA_BYTES_MAX;
}

/* Parses what follows "ndarray": "", ":DTYPE" or ":DTYPE:3,4". */
static bool parse_ndarray(const char *text, struct mds_column *column)
{
    uint64_t count;
    column->type = MDS_NDARRAY;
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
    if (*text || !multiply_shape(column->shape, column->rank, &count) || count == 0 ||
        count > RECORD_DATA_BYTES_MAX / dtype_bytes(column->dtype))
        return false;
    column->bytes = (uint32_t)(count * dtype_bytes(column->dtype));
    return true;
}

static bool parse_encoding(const char *encoding, struct mds_column *column)
{
    static const struct {
        const char *name;
        enum mds_type type;
    } types[] = {
        {"bytes", MDS_BYTES},        {"jpeg", MDS_BYTES},
        {"png", MDS_BYTES},          {"str", MDS_STR},
        {"str_int", MDS_NUMBER},     {"str_float", MDS_NUMBER},
        {"str_decimal", MDS_NUMBER}, {"pil", MDS_PIL},
        {"jpeg_array", MDS_ARRAY},   {"jpegarray", MDS_ARRAY},
        {"list[jpeg]", MDS_LIST},    {"list[png]", MDS_LIST},
        {"list[pil]", MDS_PIL_LIST}, {"json", MDS_JSON},
    };
    if (find_dtype(encoding, strlen(encoding), &column->dtype)) {
        column->type = MDS_SCALAR;
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

int mds_column_parse(const char *encoding, struct mds_column *ret_column, struct err *err)
{
    struct mds_column column = {.name = ""};
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

/* ---- Values. ---- */

struct decoder {
    const uint8_t *start;
    struct record *record;
    struct err *err;
};

struct part {
    const uint8_t *at;
    size_t bytes;
};

static int reject(const struct decoder *decoder, const uint8_t *at, const char *expected)
{
    return record_reject(decoder->record, (uint64_t)(at - decoder->start),
                         "a sample of an MDS shard is damaged", expected, decoder->err);
}

static bool take(struct part *part, size_t bytes, struct part *ret_taken)
{
    if (bytes > part->bytes)
        return false;
    *ret_taken = (struct part){part->at, bytes};
    part->at += bytes;
    part->bytes -= bytes;
    return true;
}

static int decode_ndarray(const struct decoder *decoder, const struct mds_column *column,
                          struct part part, struct record_value *value)
{
    struct part taken;
    uint64_t count = 0;
    bool has_dtype = column->has_dtype;
    value->dtype = column->dtype;
    value->rank = column->rank;
    memcpy(value->shape, column->shape, sizeof value->shape);
    if (!has_dtype && take(&part, 1, &taken))
        for (size_t i = 0; i < DTYPES_COUNT && !has_dtype; i++) {
            has_dtype = dtypes[i].number > 0 && dtypes[i].number == taken.at[0];
            value->dtype = dtypes[i].dtype;
        }
    if (!has_dtype)
        return reject(decoder, part.at, "the type of an array");
    if (column->rank == 0) {
        if (!take(&part, 1, &taken) || taken.at[0] >> 2 > DTYPE_RANK_MAX)
            return reject(decoder, part.at, "an array of at most 8 dimensions");
        value->rank = taken.at[0] >> 2;
        size_t width = (size_t)1 << (taken.at[0] & 3);
        if (!take(&part, value->rank * width, &taken))
            return reject(decoder, part.at, "the shape of an array");
        for (uint32_t i = 0; i < value->rank; i++) {
            uint64_t side = 0;
            memcpy(&side, taken.at + i * width, width);
            value->shape[i] = (int64_t)side;
        }
    }
    if (!multiply_shape(value->shape, value->rank, &count) ||
        part.bytes != count * dtype_bytes(value->dtype))
        return reject(decoder, part.at, "an array with as many bytes as its shape requires");
    return record_add_numbers(decoder->record, value, part.at, count, decoder->err);
}

static int reject_mode(const struct decoder *decoder, const uint8_t *at, const struct part *mode)
{
    err_set(decoder->err, -ENOTSUP, "the mode of a PIL image is not supported");
    err_at(decoder->err, decoder->record->path,
           (int64_t)(decoder->record->offset + (uint64_t)(at - decoder->start)));
    err_expected(decoder->err, "RGB or L");
    err_found(decoder->err, "\"%.*s\"", mode->bytes < 16 ? (int)mode->bytes : 16, mode->at);
    err_advise(decoder->err, "write the dataset again, with RGB images or the encoding png");
    return -ENOTSUP;
}

/* Adds raw pixels as a PPM file; gray ones three times. */
static int decode_pil(const struct decoder *decoder, struct part part, struct record_value *value)
{
    struct part sizes, mode, pixels = {0};
    char header[PPM_HEADER_BYTES_MAX];
    struct record *record = decoder->record;
    const uint8_t *at = part.at;
    if (!take(&part, 12, &sizes) || !take(&part, bytes_get_u32(sizes.at + 8), &mode))
        return reject(decoder, at, "a PIL image");
    bool is_gray = mode.bytes == 1 && mode.at[0] == 'L';
    if (!is_gray && !(mode.bytes == 3 && memcmp(mode.at, "RGB", 3) == 0))
        return reject_mode(decoder, at, &mode);
    uint64_t width = bytes_get_u32(sizes.at), height = bytes_get_u32(sizes.at + 4), count;
    if (width == 0 || height == 0 || __builtin_mul_overflow(width, height, &count) ||
        count > PIXELS_MAX || !take(&part, (size_t)count * (is_gray ? 1 : 3), &pixels) ||
        part.bytes > 0)
        return reject(decoder, at, "a PIL image with as many pixels as its size requires");
    if (record->data.bytes > RECORD_DATA_BYTES_MAX - 3 * count - sizeof header)
        return reject(decoder, at, "less than 1 GiB of pixels");
    size_t start = record->data.bytes,
           header_bytes = ppm_write_header(header, (uint32_t)width, (uint32_t)height);
    str_add(&record->data, header, header_bytes);
    if (!is_gray)
        str_add(&record->data, pixels.at, pixels.bytes);
    else if (str_reserve(&record->data, 3 * count) == 0)
        for (uint64_t i = 0; i < count; i++)
            str_add_fill(&record->data, (char)pixels.at[i], 3);
    return record_add_made_string(record, value, start, decoder->err);
}

/* Adds the elements of a list. */
static int decode_list(const struct decoder *decoder, enum mds_type type, struct part part,
                       struct record_value *value)
{
    struct part head, sizes, element;
    int status = 0;
    const uint8_t *at = part.at;
    if ((type != MDS_ARRAY && !take(&part, 4, &head)) || !take(&part, 4, &head) ||
        bytes_get_u32(head.at) > part.bytes / 4 ||
        !take(&part, 4 * (size_t)bytes_get_u32(head.at), &sizes))
        return reject(decoder, at, "a list of images");
    for (; sizes.bytes > 0 && !status; sizes.at += 4, sizes.bytes -= 4) {
        if (!take(&part, bytes_get_u32(sizes.at), &element))
            return reject(decoder, part.at, "an image of a list");
        status = type == MDS_PIL_LIST ? decode_pil(decoder, element, value)
                                      : record_add_string(decoder->record, value, element.at,
                                                          element.bytes, decoder->err);
    }
    return status || part.bytes == 0 ? status : reject(decoder, part.at, "the end of a list");
}

static int decode_value(const struct decoder *decoder, const struct mds_column *column,
                        const struct part *part)
{
    bool is_numbers = column->type == MDS_SCALAR || column->type == MDS_NDARRAY,
         is_json = column->type == MDS_NUMBER || column->type == MDS_JSON;
    struct record_value *value = NULL;
    int status = record_add(decoder->record, column->name, strlen(column->name),
                            is_numbers ? RECORD_NUMBERS
                            : is_json  ? RECORD_JSON
                                       : RECORD_STRINGS,
                            &value, decoder->err);
    if (status)
        return status;
    value->is_bytes = column->type != MDS_STR;
    switch (column->type) {
    case MDS_SCALAR:
        value->dtype = column->dtype;
        return record_add_numbers(decoder->record, value, part->at, 1, decoder->err);
    case MDS_NDARRAY:
        return decode_ndarray(decoder, column, *part, value);
    case MDS_PIL:
        return decode_pil(decoder, *part, value);
    case MDS_LIST:
    case MDS_ARRAY:
    case MDS_PIL_LIST:
        value->is_numbered = true;
        return decode_list(decoder, column->type, *part, value);
    default:
        return record_add_string(decoder->record, value, part->at, part->bytes, decoder->err);
    }
}

int mds_sample_decode(const struct mds_schema *schema, const uint8_t *data, size_t bytes,
                      struct record *record, struct err *err)
{
    const struct decoder decoder = {data, record, err};
    struct part rest = {data, bytes}, sizes, value;
    size_t sizes_bytes = 0;
    int status = 0;
    for (uint32_t i = 0; i < schema->count; i++)
        sizes_bytes += schema->columns[i].bytes ? 0 : 4;
    if (!take(&rest, sizes_bytes, &sizes))
        return reject(&decoder, data, "the sizes of its columns");
    for (uint32_t i = 0; i < schema->count && !status; i++) {
        uint32_t value_bytes = schema->columns[i].bytes;
        if (value_bytes == 0) {
            value_bytes = bytes_get_u32(sizes.at);
            sizes.at += 4;
        }
        status = take(&rest, value_bytes, &value)
                     ? decode_value(&decoder, &schema->columns[i], &value)
                     : reject(&decoder, rest.at, "columns within the sample");
    }
    return status || rest.bytes == 0 ? status : reject(&decoder, rest.at, "the end of the sample");
}
