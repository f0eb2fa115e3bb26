/*
 * array_value — a value of a source that stores arrays, as the bytes of a field: an image as PNG,
 * an array as a NumPy file, numbers as JSON.
 */
#ifndef MILLRACE_CONVERT_SOURCE_ARRAY_VALUE_H
#define MILLRACE_CONVERT_SOURCE_ARRAY_VALUE_H

#include "base/dtype.h"
#include "base/err.h"
#include "base/json/jsonx_writer.h"

/* An array in C order. dtype: one that NumPy has. */
struct array_type {
    enum dtype dtype;
    bool is_big_endian;
    uint32_t rank; /* 0: a number */
    uint64_t shape[DTYPE_RANK_MAX];
};

/* Returns the size, or UINT64_MAX if it is larger. */
uint64_t array_type_bytes(const struct array_type *type);
bool array_type_is_integer(const struct array_type *type);
/* Appends "U8 [28, 28]". */
void array_type_describe(const struct array_type *type, struct str *out);

struct array_image {
    uint32_t width, height, channels;
    bool is_planar; /* [channels, height, width] */
};
enum array_image_result { ARRAY_NOT_IMAGE, ARRAY_IS_IMAGE, ARRAY_IMAGE_IS_AMBIGUOUS };
/* Whether the values are images: U8 [height, width], [height, width, 1 or 3] or [1 or 3, height,
 * width]. Sets ret_image if they are. */
enum array_image_result array_type_image(const struct array_type *type,
                                         struct array_image *ret_image);

/* Changes a value to little-endian order in place; the functions below need that. */
void array_make_little_endian(const struct array_type *type, uint8_t *data);
/* The integer at an index. Returns false if it exceeds INT64_MAX. */
bool array_integer(enum dtype dtype, const uint8_t *data, uint64_t index, int64_t *ret_value);

/* path: for messages. scratch: for planar images. -ENOMEM; -EBADMSG: too large. */
int array_store_image(const struct array_image *image, const uint8_t *data, const char *path,
                      struct str *scratch, struct str *out, struct err *err);
void array_store_npy(const struct array_type *type, const uint8_t *data, struct str *out);
/* Writes a number, or nested JSON arrays. -EBADMSG without location: a value is not finite, or
 * exceeds INT64_MAX. key: see jsonx_write_string. */
int array_write_json(const struct array_type *type, const uint8_t *data, const char *key,
                     struct jsonx_writer *json, struct err *err);

#endif
