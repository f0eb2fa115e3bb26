/*
 * beton — headers of FFCV's .beton files, version 2 (ffcv 1.0, ffcv/types.py). Little-endian:
 *
 *     0   u16 version; u16 fields; u32 page size; u64 samples; u64 offset of the allocations
 *     24  per field: u8 type; char name[16]; u8 arguments[1024]
 *         per sample: its row, the metadata of each field in order, aligned as in a C struct
 *         pages with the values that rows point to
 *         per value: u64 sample, u64 offset, u64 bytes, to the end of the file
 *
 *     type           row
 *     0 float        f64, aligned to 8
 *     1 int          i64, aligned to 8
 *     2 RGB image    u8 mode (0: JPEG, 1: pixels); u16 width; u16 height; u64 offset
 *     3 bytes        u64 offset; u64 bytes
 *     4 array        u64 offset, aligned to 8. Arguments: u64 shape[32], ended by a zero; u64
 *                    length and text of the dtype's description in JSON
 *     5 JSON         like bytes; the text ends with a NUL
 *     6 tensor       like array
 */
#ifndef MILLRACE_CONVERT_SOURCE_BETON_H
#define MILLRACE_CONVERT_SOURCE_BETON_H

#include "convert/source/array_table.h"

enum {
    BETON_FIELDS_MAX = ARRAY_COLUMNS_MAX,
    BETON_HEADER_BYTES = 24,
    BETON_FIELD_BYTES = 1041,
    BETON_HEADERS_BYTES_MAX = BETON_HEADER_BYTES + BETON_FIELDS_MAX * BETON_FIELD_BYTES,
    BETON_ALLOCATION_BYTES = 24,
};

enum beton_type {
    BETON_FLOAT,
    BETON_INT,
    BETON_IMAGE,
    BETON_BYTES,
    BETON_ARRAY,
    BETON_JSON,
    BETON_TENSOR,
    BETON_TYPES_COUNT,
};

struct beton_field {
    enum beton_type type;
    char name[17];
    uint32_t row_at, row_bytes; /* within a row */
    struct array_type array;    /* of numbers, arrays and tensors */
};

struct beton {
    uint32_t fields_count, row_bytes;
    struct beton_field fields[BETON_FIELDS_MAX];
    uint64_t samples_count, rows_at, allocations_at, allocations_count;
};

/* bytes: the start of the file, with all fields. -EBADMSG with the offset; -ENOTSUP: another
 * version, or a field of another type. */
int beton_read_headers(const uint8_t *bytes, size_t count_bytes, uint64_t file_bytes,
                       const char *path, struct beton *ret_beton, struct err *err);

#endif
