/*
 * packed_sample — decodes samples of MosaicML's MDS shards (streaming/base/format/mds) and of
 * litdata's chunks (litdata/streaming/serializers.py).
 *
 * A sample is the u32 sizes of its columns, then all columns, both in the order of index.json. MDS
 * stores no size for columns of fixed size.
 */
#ifndef MILLRACE_CONVERT_RECORD_PACKED_SAMPLE_H
#define MILLRACE_CONVERT_RECORD_PACKED_SAMPLE_H

#include "convert/record/record.h"

enum packed_type {
    PACKED_BYTES,   /* bytes, jpeg, png */
    PACKED_STR,     /* UTF-8 */
    PACKED_SCALAR,  /* a number of dtype */
    PACKED_NUMBER,  /* str_int, str_float, str_decimal: the digits */
    PACKED_NDARRAY, /* dtype and shape may be part of each value */
    PACKED_NUMPY,   /* u32 type, u32 rank, u32 sides; the elements */
    PACKED_TENSOR,  /* the same, big-endian */
    PACKED_FLAT,    /* elements of dtype, in one dimension */
    PACKED_PIL,     /* u32 width, height, mode size; mode; pixels */
    PACKED_LIST,    /* u32 0, count, sizes; the elements: images */
    PACKED_ARRAY,   /* the same without the first u32: jpeg_array */
    PACKED_PIL_LIST,
    PACKED_JSON,
};

struct packed_column {
    char name[RECORD_NAME_BYTES_MAX];
    enum packed_type type;
    bool has_dtype; /* of PACKED_NDARRAY; PACKED_SCALAR always has one */
    enum dtype dtype;
    uint32_t rank; /* of a fixed shape; 0: each value has its own */
    int64_t shape[DTYPE_RANK_MAX];
    uint32_t bytes; /* 0: variable */
};

struct packed_schema {
    uint32_t count;
    struct packed_column columns[RECORD_VALUES_MAX];
};

/* Sets all but the name by the encoding, such as "int" or "ndarray:float32:3,4". -ENOTSUP without a
 * location: pkl, or an unknown one. */
int packed_column_parse_mds(const char *encoding, struct packed_column *ret_column,
                            struct err *err);
/* The same for a data_format of litdata, such as "jpeg" or "no_header_tensor:17". */
int packed_column_parse_litdata(const char *format, struct packed_column *ret_column,
                                struct err *err);
/* The number of elements. False: it is above RECORD_DATA_BYTES_MAX. */
bool packed_shape_count(const int64_t *shape, uint32_t rank, uint64_t *ret_count);

/* The number of a type in an ndarray of MDS. False: there is none. */
bool packed_ndarray_dtype(uint8_t number, enum dtype *ret_dtype);
/* litdata's numbers of types. False: none that arrays of ours have. */
bool packed_numpy_dtype(uint32_t number, enum dtype *ret_dtype);
bool packed_tensor_dtype(uint32_t number, enum dtype *ret_dtype);

/* Adds the columns to a cleared record. -EBADMSG: the sample is damaged; -ENOTSUP: a PIL image that
 * is neither RGB nor gray. */
int packed_sample_decode(const struct packed_schema *schema, const uint8_t *data, size_t bytes,
                         struct record *record, struct err *err);

#endif
