/*
 * packed_sample — see packed_sample.h.
 */
#include "convert/record/packed_sample.h"

#include "base/bytes.h"
#include "image/formats/ppm.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

bool packed_shape_count(const int64_t *shape, uint32_t rank, uint64_t *ret_count)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(count, (uint64_t)shape[i], &count))
            return false;
    *ret_count = count;
    return count <= RECORD_DATA_BYTES_MAX;
}

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
    return record_reject(decoder->record, (uint64_t)(at - decoder->start), "a sample is damaged",
                         expected, decoder->err);
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

static int decode_ndarray(const struct decoder *decoder, const struct packed_column *column,
                          struct part part, struct record_value *value)
{
    struct part taken;
    uint64_t count = 0;
    bool has_dtype = column->has_dtype;
    value->dtype = column->dtype;
    value->rank = column->rank;
    memcpy(value->shape, column->shape, sizeof value->shape);
    if (!has_dtype)
        has_dtype = take(&part, 1, &taken) && packed_ndarray_dtype(taken.at[0], &value->dtype);
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
    if (!packed_shape_count(value->shape, value->rank, &count) ||
        part.bytes != count * dtype_bytes(value->dtype))
        return reject(decoder, part.at, "an array with as many bytes as its shape requires");
    return record_add_numbers(decoder->record, value, part.at, count, decoder->err);
}

/* litdata's arrays with a header. */
static int decode_array(const struct decoder *decoder, enum packed_type type, struct part part,
                        struct record_value *value)
{
    struct part taken;
    uint64_t count;
    uint32_t words[2 + DTYPE_RANK_MAX] = {0};
    const uint8_t *at = part.at;
    for (uint32_t i = 0; i < 2 + value->rank; i++) {
        if (!take(&part, 4, &taken))
            return reject(decoder, at, "the type and shape of an array");
        words[i] = bytes_get_u32(taken.at);
        if (type == PACKED_TENSOR)
            words[i] = __builtin_bswap32(words[i]);
        if (i == 1 && words[1] > DTYPE_RANK_MAX)
            return reject(decoder, at, "an array of at most 8 dimensions");
        value->rank = words[1];
        if (i >= 2)
            value->shape[i - 2] = words[i];
    }
    bool has_dtype = type == PACKED_TENSOR ? packed_tensor_dtype(words[0], &value->dtype)
                                           : packed_numpy_dtype(words[0], &value->dtype);
    if (!has_dtype)
        return reject(decoder, at, "an array of numbers of a type that NumPy has");
    if (!packed_shape_count(value->shape, value->rank, &count) ||
        part.bytes != count * dtype_bytes(value->dtype))
        return reject(decoder, at, "an array with as many bytes as its shape requires");
    return record_add_numbers(decoder->record, value, part.at, count, decoder->err);
}

static int decode_flat(const struct decoder *decoder, struct part part, struct record_value *value)
{
    size_t width = dtype_bytes(value->dtype);
    value->rank = 1;
    value->shape[0] = (int64_t)(part.bytes / width);
    return part.bytes % width == 0 ? record_add_numbers(decoder->record, value, part.at,
                                                        part.bytes / width, decoder->err)
                                   : reject(decoder, part.at, "whole numbers of the array's type");
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
static int decode_list(const struct decoder *decoder, enum packed_type type, struct part part,
                       struct record_value *value)
{
    struct part head, sizes, element;
    int status = 0;
    const uint8_t *at = part.at;
    if ((type != PACKED_ARRAY && !take(&part, 4, &head)) || !take(&part, 4, &head) ||
        bytes_get_u32(head.at) > part.bytes / 4 ||
        !take(&part, 4 * (size_t)bytes_get_u32(head.at), &sizes))
        return reject(decoder, at, "a list of images");
    for (; sizes.bytes > 0 && !status; sizes.at += 4, sizes.bytes -= 4) {
        if (!take(&part, bytes_get_u32(sizes.at), &element))
            return reject(decoder, part.at, "an image of a list");
        status = type == PACKED_PIL_LIST ? decode_pil(decoder, element, value)
                                         : record_add_string(decoder->record, value, element.at,
                                                             element.bytes, decoder->err);
    }
    return status || part.bytes == 0 ? status : reject(decoder, part.at, "the end of a list");
}

static int decode_value(const struct decoder *decoder, const struct packed_column *column,
                        const struct part *part)
{
    bool is_numbers = column->type == PACKED_SCALAR || column->type == PACKED_NDARRAY ||
                      column->type == PACKED_NUMPY || column->type == PACKED_TENSOR ||
                      column->type == PACKED_FLAT,
         is_json = column->type == PACKED_NUMBER || column->type == PACKED_JSON;
    struct record_value *value = NULL;
    int status = record_add(decoder->record, column->name, strlen(column->name),
                            is_numbers ? RECORD_NUMBERS
                            : is_json  ? RECORD_JSON
                                       : RECORD_STRINGS,
                            &value, decoder->err);
    if (status)
        return status;
    value->is_bytes = column->type != PACKED_STR;
    value->dtype = column->dtype;
    switch (column->type) {
    case PACKED_SCALAR:
        if (part->bytes != dtype_bytes(column->dtype))
            return reject(decoder, part->at, "a number with the size of its type");
        return record_add_numbers(decoder->record, value, part->at, 1, decoder->err);
    case PACKED_NDARRAY:
        return decode_ndarray(decoder, column, *part, value);
    case PACKED_NUMPY:
    case PACKED_TENSOR:
        return decode_array(decoder, column->type, *part, value);
    case PACKED_FLAT:
        return decode_flat(decoder, *part, value);
    case PACKED_PIL:
        return decode_pil(decoder, *part, value);
    case PACKED_LIST:
    case PACKED_ARRAY:
    case PACKED_PIL_LIST:
        value->is_numbered = true;
        return decode_list(decoder, column->type, *part, value);
    default:
        return record_add_string(decoder->record, value, part->at, part->bytes, decoder->err);
    }
}

int packed_sample_decode(const struct packed_schema *schema, const uint8_t *data, size_t bytes,
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
