/*
 * index_numbers — the number columns of an index: building, encoding and decoding them;
 * docs/reference/shards.md defines the byte layout. index.h is the interface.
 */
#ifndef MILLRACE_SHARDS_FORMAT_INDEX_NUMBERS_H
#define MILLRACE_SHARDS_FORMAT_INDEX_NUMBERS_H

#include "shards/format/index.h"

/* Samples after the last value lack the number. */
struct number_column {
    char name[SHARD_NUMBER_NAME_BYTES_MAX];
    struct str values; /* u64: the bits of a double, by sample */
};

/* Zero-initialize. */
struct number_columns {
    struct number_column columns[SHARD_NUMBERS_MAX]; /* in byte order of their names */
    uint32_t count;
};

void number_columns_deinit(struct number_columns *numbers);
/* Errors of shard_index_builder_add_number. */
int number_columns_add(struct number_columns *numbers, const char *name, uint64_t sample,
                       double value, struct err *err);
/* Drops the values of this sample and of later ones. */
void number_columns_truncate(struct number_columns *numbers, uint64_t sample);
/* Appends the columns of this many samples. Failures are those of out. */
void number_columns_encode(const struct number_columns *numbers, uint64_t samples, struct str *out);

/* Decoded columns. Borrows the index's bytes. */
struct index_numbers {
    uint32_t count;
    const uint8_t *names, *values; /* INDEX_NUMBER_NAME_BYTES each; u64 by column and sample */
};

/* bytes: begins with the columns. Returns 0, or -EBADMSG without detail and the offset of the
 * damage. */
int index_numbers_decode(const uint8_t *bytes, uint64_t count_bytes, uint64_t samples,
                         struct index_numbers *ret_numbers, uint64_t *ret_bytes,
                         uint64_t *ret_bad_offset);

#endif
