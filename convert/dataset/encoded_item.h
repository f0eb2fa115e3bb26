/*
 * encoded_item — an item of a source as a sample to write (encode_item.h).
 */
#ifndef MILLRACE_CONVERT_DATASET_ENCODED_ITEM_H
#define MILLRACE_CONVERT_DATASET_ENCODED_ITEM_H

#include "base/str.h"
#include "convert/jpeg_counts.h"
#include "convert/source/index_fields.h"

struct encoded_field {
    char extension[SHARD_EXTENSION_BYTES_MAX];
    size_t at, bytes; /* range in data */
};

/* Zero-initialize. Fields are in byte order of extensions. */
struct encoded_item {
    struct str data;
    uint32_t fields_count;
    struct encoded_field fields[SHARD_FIELDS_MAX];
    /* Those of source->index_fields, then the label; NaN: missing. */
    double numbers[INDEX_FIELDS_MAX + 1];
    struct convert_jpeg_counts jpegs;
};

#endif
