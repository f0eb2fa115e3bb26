/*
 * mds_sample — decodes samples of MosaicML's MDS shards (streaming/base/format/mds).
 *
 * A sample is the u32 sizes of its columns of variable size, then all columns, both in the order of
 * column_names in index.json. column_encodings there gives the type of each.
 */
#ifndef MILLRACE_CONVERT_RECORD_MDS_SAMPLE_H
#define MILLRACE_CONVERT_RECORD_MDS_SAMPLE_H

#include "convert/record/record.h"

enum mds_type {
    MDS_BYTES,   /* bytes, jpeg, png */
    MDS_STR,     /* UTF-8 */
    MDS_SCALAR,  /* a number of dtype */
    MDS_NUMBER,  /* str_int, str_float, str_decimal: the digits */
    MDS_NDARRAY, /* dtype and shape may be part of each value */
    MDS_PIL,     /* u32 width, height, mode size; mode; pixels */
    MDS_LIST,    /* u32 0, count, sizes; the elements: images */
    MDS_ARRAY,   /* the same without the first u32: jpeg_array */
    MDS_PIL_LIST,
    MDS_JSON,
};

struct mds_column {
    char name[RECORD_NAME_BYTES_MAX];
    enum mds_type type;
    bool has_dtype; /* of MDS_NDARRAY; MDS_SCALAR always has one */
    enum dtype dtype;
    uint32_t rank; /* of a fixed shape; 0: each value has its own */
    int64_t shape[DTYPE_RANK_MAX];
    uint32_t bytes; /* 0: variable */
};

struct mds_schema {
    uint32_t count;
    struct mds_column columns[RECORD_VALUES_MAX];
};

/* Sets all but the name by the encoding, such as "int" or "ndarray:float32:3,4". -ENOTSUP without a
 * location: pkl, or an unknown one. */
int mds_column_parse(const char *encoding, struct mds_column *ret_column, struct err *err);

/* Adds the columns to a cleared record. -EBADMSG: the sample is damaged; -ENOTSUP: a PIL image that
 * is neither RGB nor gray. */
int mds_sample_decode(const struct mds_schema *schema, const uint8_t *data, size_t bytes,
                      struct record *record, struct err *err);

#endif
