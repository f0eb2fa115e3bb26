/*
 * field_numbers — reads arrays of numbers from NumPy files and JSON (field_values.h).
 */
#include "loader/field_values.h"

#include "base/json/jsonx.h"
#include "base/json/jsonx_path.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- JSON. ---- */

static bool is_signed(enum dtype dtype)
{
    return dtype == DTYPE_I8 || dtype == DTYPE_I16 || dtype == DTYPE_I32 || dtype == DTYPE_I64;
}

/* -EBADMSG without detail: another type, or out of range. */
static int parse_integer(enum dtype dtype, const struct json_t *node, uint64_t *ret_bits)
{
    unsigned bits = 8 * (unsigned)dtype_bytes(dtype);
    int64_t number;
    if (dtype == DTYPE_U64)
        return jsonx_u64(node, ret_bits);
    int status = jsonx_i64(node, &number);
    if (status)
        return status;
    *ret_bits = (uint64_t)number;
    if (bits == 64)
        return 0;
    int64_t end = INT64_C(1) << (is_signed(dtype) ? bits - 1 : bits);
    return number >= (is_signed(dtype) ? -end : 0) && number < end ? 0 : -EBADMSG;
}

int field_store_integer(enum dtype dtype, int64_t number, uint8_t *to)
{
    unsigned bits = 8 * (unsigned)dtype_bytes(dtype);
    int64_t end = bits < 64 ? INT64_C(1) << (is_signed(dtype) ? bits - 1 : bits) : INT64_MAX;
    if (bits < 64 && (number < (is_signed(dtype) ? -end : 0) || number >= end))
        return -EBADMSG;
    memcpy(to, &number, dtype_bytes(dtype));
    return 0;
}

int field_store_number(enum dtype dtype, const struct json_t *node, uint8_t *to)
{
    double number = 0;
    uint64_t bits = 0;
    bool truth;
    int status;
    switch (dtype) {
    case DTYPE_BOOL:
        status = jsonx_bool(node, &truth);
        bits = !status && truth;
        break;
    case DTYPE_F32:
    case DTYPE_F64:
        status = jsonx_f64(node, &number);
        float single = (float)number;
        if (!status && dtype == DTYPE_F32 && !isfinite(single))
            status = -EBADMSG;
        memcpy(&bits, dtype == DTYPE_F32 ? (const void *)&single : &number, dtype_bytes(dtype));
        break;
    default:
        status = parse_integer(dtype, node, &bits);
        break;
    }
    memcpy(to, &bits, dtype_bytes(dtype));
    return status;
}

/* Finds the array. ret_list->array is NULL if it is the default, which is empty. */
static int find_array(struct load_worker *worker, const struct loader_field *type,
                      const struct shard *shard, const struct view_piece *piece,
                      struct jsonx_list *ret_list, struct err *err)
{
    struct json_t *root = NULL;
    *ret_list = (struct jsonx_list){0};
    int status =
        piece->field.present ? field_find_value(worker, NULL, shard, piece, &root, err) : 0;
    if (status)
        return status;
    if (root)
        *ret_list = jsonx_path_find_list(worker->document, type->path);
    if (jsonx_kind(ret_list->array) == JSON_KIND_NULL)
        ret_list->array = NULL;
    if (!ret_list->array)
        return type->default_value ? 0 : field_no_value(type, shard, piece, err);
    return jsonx_kind(ret_list->array) == JSON_KIND_ARRAY
               ? 0
               : field_wrong_value(type, shard, piece, err);
}

/* Stores the numbers of an array, of which ragged_bytes_max bounds the bytes. -EBADMSG without
 * detail. */
static int store_array(const struct loader *loader, const struct loader_field *type,
                       const struct jsonx_list *list, uint8_t *to)
{
    size_t bytes = dtype_bytes(type->dtype);
    int status = 0;
    for (size_t i = 0; !status && i < jsonx_count(list->array); i++) {
        const struct json_t *node = jsonx_list_at(list, i);
        uint64_t number = 0;
        if (type->map)
            status = field_find_class_of(loader, type, node, &number);
        if (type->map && !status)
            status = field_store_integer(type->dtype, (int64_t)number, to + i * bytes);
        else if (!type->map)
            status = field_store_number(type->dtype, node, to + i * bytes);
    }
    return status;
}

int field_read_numbers(struct load_worker *worker, const struct loader_field *type,
                       const struct shard *shard, const struct view_piece *piece,
                       struct field_numbers *ret_numbers, struct err *err)
{
    struct jsonx_list list;
    struct npy npy;
    if (!type->path) {
        int status = field_decode_array(shard, piece, &npy, err);
        if (status)
            return status;
        if (npy.dtype != type->dtype || npy.rank != type->rank)
            return field_wrong_array(type, shard, piece, &npy, err);
        ret_numbers->data = view_data(piece) + npy.header_bytes;
        ret_numbers->bytes = piece->want_bytes - npy.header_bytes;
        memcpy(ret_numbers->shape, npy.shape, sizeof npy.shape);
        return 0;
    }
    int status = find_array(worker, type, shard, piece, &list, err);
    size_t count = status ? 0 : jsonx_count(list.array), bytes = count * dtype_bytes(type->dtype);
    if (!status)
        status = pixels_reserve(&worker->numbers, bytes + 1, err);
    if (status)
        return status;
    if (list.array && store_array(worker->loader, type, &list, worker->numbers.data))
        return field_wrong_value(type, shard, piece, err);
    *ret_numbers =
        (struct field_numbers){.data = worker->numbers.data, .bytes = bytes, .shape = {count}};
    return 0;
}

int field_decode_numbers(struct load_worker *worker, struct load_slot *slot, uint32_t item,
                         uint32_t field, const struct shard *shard, const struct view_piece *piece,
                         struct err *err)
{
    struct loader *loader = worker->loader;
    struct field_numbers numbers;
    int status =
        field_read_numbers(worker, &loader->options.fields[field], shard, piece, &numbers, err);
    return status ? status
                  : ragged_store(loader, slot, item, field, numbers.data, numbers.bytes,
                                 numbers.shape, err);
}

/* ---- Rows of coordinates. ---- */

static bool is_coordinate_dtype(enum dtype dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F64 || dtype == DTYPE_I32 || dtype == DTYPE_I64;
}

static double npy_number(const uint8_t *data, enum dtype dtype, uint64_t index)
{
    float single;
    double number;
    int32_t narrow;
    int64_t wide;
    switch (dtype) {
    case DTYPE_F32:
        memcpy(&single, data + 4 * index, sizeof single);
        return (double)single;
    case DTYPE_F64:
        memcpy(&number, data + 8 * index, sizeof number);
        return number;
    case DTYPE_I32:
        memcpy(&narrow, data + 4 * index, sizeof narrow);
        return narrow;
    default:
        memcpy(&wide, data + 8 * index, sizeof wide);
        return (double)wide;
    }
}

static int read_npy_rows(struct load_worker *worker, uint32_t columns, const struct shard *shard,
                         const struct view_piece *piece, uint64_t *ret_count, struct err *err)
{
    struct npy npy;
    int status = field_decode_array(shard, piece, &npy, err);
    if (status)
        return status;
    if (!is_coordinate_dtype(npy.dtype) || npy.rank != 2 || npy.shape[1] != columns) {
        err_set(err, -EBADMSG, "the array in field \"%s\" has another type", piece->extension);
        err_at(err, shard->path, (int64_t)piece->want_offset);
        err_expected(err, "F32, F64, I32 or I64, 2 dimensions, %" PRIu32 " columns", columns);
        err_found(err, "%s, %" PRIu32 " dimensions", dtype_name(npy.dtype), npy.rank);
        return -EBADMSG;
    }
    status = pixels_reserve(&worker->numbers, npy.count * sizeof(double) + 1, err);
    double *rows = (double *)(void *)worker->numbers.data;
    for (uint64_t i = 0; !status && i < npy.count; i++)
        rows[i] = npy_number(view_data(piece) + npy.header_bytes, npy.dtype, i);
    *ret_count = npy.shape[0];
    return status;
}

/* -EBADMSG without detail. array: of rows of a multiple of columns; or the only row, if flat. */
static int store_rows(const struct jsonx_list *list, uint32_t columns, bool is_flat, double *rows,
                      uint64_t *ret_numbers_count)
{
    size_t count = is_flat ? 1 : jsonx_count(list->array);
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const struct json_t *row = is_flat ? list->array : jsonx_list_at(list, i);
        size_t numbers = jsonx_count(row);
        bool fits = columns == 4 ? numbers == 4 : numbers % columns == 0;
        if (jsonx_kind(row) != JSON_KIND_ARRAY || !fits)
            return -EBADMSG;
        for (size_t k = 0; k < numbers; k++)
            if (jsonx_f64(jsonx_at(row, k), &rows[at++]))
                return -EBADMSG;
    }
    *ret_numbers_count = at;
    return 0;
}

static uint64_t count_numbers(const struct jsonx_list *list, bool is_flat)
{
    uint64_t count = is_flat ? jsonx_count(list->array) : 0;
    for (size_t i = 0; !is_flat && i < jsonx_count(list->array); i++)
        count += jsonx_count(jsonx_list_at(list, i));
    return count;
}

static int read_json_rows(struct load_worker *worker, const struct loader_field *type,
                          uint32_t columns, const struct shard *shard,
                          const struct view_piece *piece, uint64_t *ret_count, struct err *err)
{
    struct jsonx_list list;
    uint64_t numbers = 0;
    int status = find_array(worker, type, shard, piece, &list, err);
    if (status)
        return status;
    bool is_flat = columns == 3 && !list.rest && jsonx_count(list.array) > 0 &&
                   jsonx_kind(jsonx_at(list.array, 0)) != JSON_KIND_ARRAY;
    status =
        pixels_reserve(&worker->numbers, count_numbers(&list, is_flat) * sizeof(double) + 1, err);
    if (status)
        return status;
    if (list.array &&
        store_rows(&list, columns, is_flat, (double *)(void *)worker->numbers.data, &numbers))
        return field_wrong_value(type, shard, piece, err);
    *ret_count = numbers / columns;
    return 0;
}

int field_read_rows(struct load_worker *worker, const struct loader_field *type, uint32_t columns,
                    const struct shard *shard, const struct view_piece *piece, double **ret_rows,
                    uint64_t *ret_count, struct err *err)
{
    int status = type->path ? read_json_rows(worker, type, columns, shard, piece, ret_count, err)
                            : read_npy_rows(worker, columns, shard, piece, ret_count, err);
    if (status)
        return status;
    double *rows = *ret_rows = (double *)(void *)worker->numbers.data;
    for (uint64_t i = 0; i < *ret_count * columns; i++) {
        if (rows[i] > -FIELD_COORDINATE_MAX && rows[i] < FIELD_COORDINATE_MAX)
            continue;
        err_set(err, -EBADMSG, "field \"%s\" has no such coordinate", piece->extension);
        err_at(err, shard->path, (int64_t)piece->want_offset);
        err_expected(err, "a number between -%d and %d", FIELD_COORDINATE_MAX,
                     FIELD_COORDINATE_MAX);
        err_found(err, "%g", rows[i]);
        return -EBADMSG;
    }
    return 0;
}
