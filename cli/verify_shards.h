/*
 * verify_shards — every checksum and every count of a shard or a dataset, and whether its JPEGs decode. Prints nothing.
 *
 * Of a shard: trailer and index; each tar header against the index; each field's CRC32C, whole and by blocks; JPEG members
 * decoded to their end. With a dataset also: each shard's size, samples, index CRC and XXH3 as dataset.json has them; class
 * numbers below the classes; token members of the layout it names.
 */
#ifndef MILLRACE_CLI_VERIFY_SHARDS_H
#define MILLRACE_CLI_VERIFY_SHARDS_H

#include "base/err.h"
#include "io/io.h"

#include <stdint.h>

enum { VERIFY_NAMED_MAX = 1000 }; /* faults of one shard that are named; the rest are counted */

/* Immutable. Callbacks come from the calling thread, bad in the order of the samples. */
struct verify_options {
    unsigned workers; /* 0: one a CPU */
    void (*bad)(void *context, const struct err *detail);
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes);
    void *context;
};

struct verify_result {
    uint64_t shards_count, samples_count, members_count, checked_bytes;
    uint64_t bad_count;
};

/* 0 where all was looked at, bad or not; -errno where that was not possible. Blocks. */
int verify_dataset(struct io *io, const char *path, const struct verify_options *options,
                   struct verify_result *ret_result, struct err *err);
int verify_shard(struct io *io, const char *path, const struct verify_options *options,
                 struct verify_result *ret_result, struct err *err);

#endif
