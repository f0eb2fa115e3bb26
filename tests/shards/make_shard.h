/*
 * make_shard — shards for tests, with contents derived from their numbers.
 */
#ifndef MILLRACE_TESTS_SHARDS_MAKE_SHARD_H
#define MILLRACE_TESTS_SHARDS_MAKE_SHARD_H

#include "shards/format/shard.h"
#include "tests/support/test.h"

enum { MAKE_SHARD_FIELDS_MAX = 3 };

/* One sample: fields with NULL extensions are absent. */
struct make_shard_sample {
    const char *key;
    struct {
        const char *extension;
        size_t bytes;
    } fields[MAKE_SHARD_FIELDS_MAX];
};

/* The data of a field: bytes that depend on sample, field and position; malloc'ed. */
uint8_t *make_shard_data(size_t sample, size_t field, size_t bytes);

/* Writes the samples as a shard; fails the test on errors. */
struct shard_summary make_shard(struct io *io, const char *path,
                                const struct make_shard_sample *samples, size_t count);

/* The samples that most tests use: absent fields, an empty field, a field of several blocks, names
 * that need PAX. */
extern const struct make_shard_sample make_shard_variety[];
extern const size_t make_shard_variety_count;

#endif
