/*
 * array_value — see array_value.h.
 */
#include "convert/source/array_value.h"

#include "base/bytes.h"
#include "base/numeric/half.h"
#include "image/formats/png.h"
#include "shards/format/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

uint64_t array_type_bytes(const struct array_type *type)
{
    uint64_t bytes = dtype_bytes(type->dtype);
    for (uint32_t d = 0; d < type->rank; d++)
        if (__builtin_mul_overflow(bytes, type->shape[d], &bytes))
            return UINT64_MAX;
    return bytes;
}

bool array_type_is_integer(const struct array_type *type)
{
    switch (type->dtype) {
    case DTYPE_U8:
    case DTYPE_I8:
    case DTYPE_U16:
    case DTYPE_I16:
    case DTYPE_U32:
    case DTYPE_I32:
    case DTYPE_U64:
    case DTYPE_I64:
        return true;
    default:
        return false;
    }
}

void array_type_describe(const struct array_type *type, struct str *out)
{
    str_add_format(out, "%s [", dtype_name(type->dtype));
    for (uint32_t d = 0; d < type->rank; d++)
        str_add_format(out, "%s%" PRIu64, d > 0 ? ", " : "", type->shape[d]);
    str_add_text(out, "]");
}

enum array_image_result array_type_image(const struct array_type *type,
                                         struct array_image *ret_image)
{
    const uint64_t *shape = type->shape;
    if (type->dtype != DTYPE_U8 || type->rank < 2 || type->rank > 3)
        return ARRAY_NOT_IMAGE;
    for (uint32_t d = 0; d < type->rank; d++)
        if (shape[d] == 0 || shape[d] > PIXELS_SIDE_MAX)
            return ARRAY_NOT_IMAGE;
    bool is_interleaved = type->rank == 3 && (shape[2] == 1 || shape[2] == 3);
    bool is_planar = type->rank == 3 && (shape[0] == 1 || shape[0] == 3);
    if (is_interleaved && is_planar)
        return ARRAY_IMAGE_IS_AMBIGUOUS;
    if (type->rank == 3 && !is_interleaved && !is_planar)
        return ARRAY_NOT_IMAGE;
    *ret_image = (struct array_image){.height = (uint32_t)shape[is_planar],
                                      .width = (uint32_t)shape[is_planar + 1],
                                      .channels = type->rank == 2 ? 1
                                                  : is_planar     ? (uint32_t)shape[0]
                                                                  : (uint32_t)shape[2],
                                      .is_planar = is_planar};
    return ARRAY_IS_IMAGE;
}

void array_make_little_endian(const struct array_type *type, uint8_t *data)
{
    size_t bytes = dtype_bytes(type->dtype);
    uint64_t total = type->is_big_endian ? array_type_bytes(type) : 0;
    for (uint64_t at = 0; at < total; at += bytes)
        for (size_t i = 0; i < bytes / 2; i++) {
            uint8_t byte = data[at + i];
            data[at + i] = data[at + bytes - 1 - i];
            data[at + bytes - 1 - i] = byte;
        }
}

bool array_integer(enum dtype dtype, const uint8_t *data, uint64_t index, int64_t *ret_value)
{
    const uint8_t *at = data + index * dtype_bytes(dtype);
    switch (dtype) {
    case DTYPE_I8:
        *ret_value = (int8_t)*at;
        return true;
    case DTYPE_U16:
        *ret_value = bytes_get_u16(at);
        return true;
    case DTYPE_I16:
        *ret_value = (int16_t)bytes_get_u16(at);
        return true;
    case DTYPE_U32:
        *ret_value = bytes_get_u32(at);
        return true;
    case DTYPE_I32:
        *ret_value = (int32_t)bytes_get_u32(at);
        return true;
    case DTYPE_I64:
    case DTYPE_U64:
        *ret_value = (int64_t)bytes_get_u64(at);
        return dtype == DTYPE_I64 || *ret_value >= 0;
    default:
        *ret_value = *at;
        return true;
    }
}

static double float_at(enum dtype dtype, const uint8_t *data, uint64_t index)
{
    const uint8_t *at = data + index * dtype_bytes(dtype);
    float single;
    double number;
    if (dtype == DTYPE_F16)
        return (double)half_from_f16(bytes_get_u16(at));
    if (dtype == DTYPE_F32) {
        memcpy(&single, at, sizeof single);
        return (double)single;
    }
    memcpy(&number, at, sizeof number);
    return number;
}

/* [channels, height, width] as [height, width, channels]. */
static int interleave(const struct array_image *image, const uint8_t *planes, struct str *out)
{
    size_t pixels = (size_t)image->width * image->height, channels = image->channels;
    str_clear(out);
    if (str_reserve(out, pixels * channels))
        return -ENOMEM;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < pixels; i++)
            out->data[i * channels + c] = (char)planes[c * pixels + i];
    return 0;
}

int array_store_image(const struct array_image *image, const uint8_t *data, const char *path,
                      struct str *scratch, struct str *out, struct err *err)
{
    bool needs_order = image->is_planar && image->channels > 1;
    if (needs_order && interleave(image, data, scratch))
        return err_set(err, -ENOMEM, "out of memory for an image");
    return png_encode(needs_order ? (const uint8_t *)scratch->data : data, image->width,
                      image->height, image->channels, path, out, err);
}

void array_store_npy(const struct array_type *type, const uint8_t *data, struct str *out)
{
    uint8_t header[NPY_ARRAY_HEADER_BYTES];
    int64_t shape[DTYPE_RANK_MAX];
    for (uint32_t d = 0; d < type->rank; d++)
        shape[d] = (int64_t)type->shape[d];
    npy_encode_array_header(type->dtype, type->rank, shape, header);
    str_add(out, header, sizeof header);
    str_add(out, data, array_type_bytes(type));
}

static int write_number(enum dtype dtype, const uint8_t *data, uint64_t index, const char *key,
                        struct jsonx_writer *json, struct err *err)
{
    int64_t integer;
    if (dtype == DTYPE_F16 || dtype == DTYPE_F32 || dtype == DTYPE_F64) {
        double number = float_at(dtype, data, index);
        if (!isfinite(number)) {
            err_set(err, -EBADMSG, "a number is not finite, which JSON cannot express");
            err_found(err, "%f", number);
            return -EBADMSG;
        }
        jsonx_write_f64(json, key, number);
    } else if (!array_integer(dtype, data, index, &integer)) {
        err_set(err, -EBADMSG, "a number is too large for JSON readers");
        err_expected(err, "at most 2^63 - 1");
        return -EBADMSG;
    } else if (dtype == DTYPE_BOOL) {
        jsonx_write_bool(json, key, integer != 0);
    } else {
        jsonx_write_i64(json, key, integer);
    }
    return 0;
}

static int write_nested(const struct array_type *type, uint32_t depth, const uint8_t *data,
                        uint64_t *index, const char *key, struct jsonx_writer *json,
                        struct err *err)
{
    int status = 0;
    if (depth == type->rank)
        return write_number(type->dtype, data, (*index)++, key, json, err);
    jsonx_begin_array(json, key);
    for (uint64_t i = 0; i < type->shape[depth] && !status && !str_status(json->out); i++)
        status = write_nested(type, depth + 1, data, index, NULL, json, err);
    jsonx_end_array(json);
    return status;
}

int array_write_json(const struct array_type *type, const uint8_t *data, const char *key,
                     struct jsonx_writer *json, struct err *err)
{
    uint64_t index = 0;
    return write_nested(type, 0, data, &index, key, json, err);
}
