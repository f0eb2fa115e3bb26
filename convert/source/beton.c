/*
 * beton — see beton.h.
 */
#include "convert/source/beton.h"

#include "base/bytes.h"
#include "shards/format/npy.h"
#include "shards/format/npy_header.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { VERSION = 2, NAME_BYTES = 16, SHAPE_MAX = 32, ROW_ALIGN = 8 };

static int reject(int code, const char *path, uint64_t offset, const char *expected,
                  struct err *err)
{
    err_set(err, code, "an FFCV dataset cannot be read");
    err_at(err, path, (int64_t)offset);
    err_expected(err, "%s", expected);
    return code;
}

/* The dtype of a description such as [["", "<f4"]]. */
static bool parse_dtype(const char *text, uint64_t bytes, struct array_type *type)
{
    static const char begin[] = "[[\"\", \"", end[] = "\"]]";
    const size_t begin_bytes = sizeof begin - 1, end_bytes = sizeof end - 1;
    if (bytes < begin_bytes + end_bytes || memcmp(text, begin, begin_bytes) != 0 ||
        memcmp(text + bytes - end_bytes, end, end_bytes) != 0)
        return false;
    const struct npy_header header = {.dtype = text + begin_bytes,
                                      .dtype_bytes = bytes - begin_bytes - end_bytes};
    return npy_find_dtype(&header, &type->dtype, &type->is_big_endian);
}

static int parse_array(const uint8_t *arguments, uint64_t offset, const char *path,
                       struct array_type *ret_type, struct err *err)
{
    const size_t text_at = 8 * SHAPE_MAX + 8, text_bytes_max = 1024 - text_at;
    struct array_type type = {0};
    uint64_t text_bytes = bytes_get_u64(arguments + text_at - 8), size = 0;
    for (uint32_t d = 0; d < SHAPE_MAX && (size = bytes_get_u64(arguments + 8 * d)) > 0; d++) {
        if (d == DTYPE_RANK_MAX)
            return reject(-ENOTSUP, path, offset, "arrays of at most 8 dimensions", err);
        type.shape[type.rank++] = size;
    }
    if (text_bytes > text_bytes_max ||
        !parse_dtype((const char *)arguments + text_at, text_bytes, &type)) {
        reject(-ENOTSUP, path, offset + text_at, "arrays of numbers or truth values", err);
        if (text_bytes <= text_bytes_max)
            err_found(err, "%.*s", (int)text_bytes, (const char *)arguments + text_at);
        return -ENOTSUP;
    }
    *ret_type = type;
    return 0;
}

/* Parses a field, and adds its place to the row. */
static int parse_field(const uint8_t *bytes, uint64_t offset, const char *path, struct beton *beton,
                       struct err *err)
{
    static const struct {
        uint32_t bytes, align;
    } rows[BETON_TYPES_COUNT] = {
        [BETON_FLOAT] = {8, 8},  [BETON_INT] = {8, 8},   [BETON_IMAGE] = {13, 1},
        [BETON_BYTES] = {16, 1}, [BETON_ARRAY] = {8, 8}, [BETON_JSON] = {16, 1},
        [BETON_TENSOR] = {8, 8},
    };
    struct beton_field field = {.type = (enum beton_type)bytes[0]};
    memcpy(field.name, bytes + 1, NAME_BYTES);
    if (bytes[0] >= BETON_TYPES_COUNT) {
        reject(-ENOTSUP, path, offset, "fields of types that FFCV defines", err);
        err_found(err, "type %u of field \"%s\"", bytes[0], field.name);
        err_advise(err, "write the dataset without the field");
        return -ENOTSUP;
    }
    for (uint32_t i = 0; i < beton->fields_count; i++)
        if (strcmp(beton->fields[i].name, field.name) == 0)
            return reject(-EBADMSG, path, offset + 1, "fields with different names", err);
    if (!field.name[0])
        return reject(-EBADMSG, path, offset + 1, "a name", err);
    field.array.dtype = field.type == BETON_INT ? DTYPE_I64 : DTYPE_F64;
    if (field.type == BETON_ARRAY || field.type == BETON_TENSOR) {
        int status =
            parse_array(bytes + 1 + NAME_BYTES, offset + 1 + NAME_BYTES, path, &field.array, err);
        if (status)
            return status;
    }
    field.row_bytes = rows[field.type].bytes;
    field.row_at = (uint32_t)bytes_round_up(beton->row_bytes, rows[field.type].align);
    beton->row_bytes = field.row_at + field.row_bytes;
    beton->fields[beton->fields_count++] = field;
    return 0;
}

static bool is_aligned(const struct beton *beton)
{
    for (uint32_t i = 0; i < beton->fields_count; i++)
        if (beton->fields[i].row_bytes == ROW_ALIGN)
            return true;
    return false;
}

int beton_read_headers(const uint8_t *bytes, size_t count_bytes, uint64_t file_bytes,
                       const char *path, struct beton *ret_beton, struct err *err)
{
    struct beton beton = {0};
    uint64_t end;
    int status = 0;
    if (count_bytes < BETON_HEADER_BYTES)
        return reject(-EBADMSG, path, 0, "a header of 24 bytes", err);
    if (bytes_get_u16(bytes) != VERSION) {
        reject(-ENOTSUP, path, 0, "version 2", err);
        err_found(err, "%u", bytes_get_u16(bytes));
        return -ENOTSUP;
    }
    uint32_t fields = bytes_get_u16(bytes + 2);
    beton.samples_count = bytes_get_u64(bytes + 8);
    beton.allocations_at = bytes_get_u64(bytes + 16);
    beton.rows_at = BETON_HEADER_BYTES + (uint64_t)fields * BETON_FIELD_BYTES;
    if (fields == 0 || fields > BETON_FIELDS_MAX)
        return reject(-EBADMSG, path, 2, "1 to 63 fields", err);
    if (count_bytes < beton.rows_at)
        return reject(-EBADMSG, path, count_bytes, "the descriptions of all fields", err);
    for (uint32_t i = 0; i < fields && !status; i++) {
        size_t at = BETON_HEADER_BYTES + (size_t)i * BETON_FIELD_BYTES;
        status = parse_field(bytes + at, at, path, &beton, err);
    }
    if (status)
        return status;
    if (is_aligned(&beton))
        beton.row_bytes = (uint32_t)bytes_round_up(beton.row_bytes, ROW_ALIGN);
    if (__builtin_mul_overflow(beton.samples_count, beton.row_bytes, &end) ||
        __builtin_add_overflow(end, beton.rows_at, &end) || end > beton.allocations_at)
        return reject(-EBADMSG, path, 8, "the rows of all samples before the allocations", err);
    if (beton.allocations_at > file_bytes ||
        (file_bytes - beton.allocations_at) % BETON_ALLOCATION_BYTES)
        return reject(-EBADMSG, path, 16, "allocations up to the end of the file", err);
    beton.allocations_count = (file_bytes - beton.allocations_at) / BETON_ALLOCATION_BYTES;
    *ret_beton = beton;
    return 0;
}
