/*
 * sample_filter — which samples of a dataset meet a condition (where.h), and their classes: from
 * the index fields of its shards, without reading samples.
 *
 * Candidates are sample numbers in ascending order. Without a recorded index field of that name,
 * `width` and `height` are those of the sample's uncompressed image, if its rows are in the index.
 */
#ifndef MILLRACE_LOADER_PARTS_SAMPLE_FILTER_H
#define MILLRACE_LOADER_PARTS_SAMPLE_FILTER_H

#include "base/str.h"
#include "loader/parts/shard_cache.h"

enum { SAMPLE_CLASSES_MAX = 1 << 20 };

/* Borrows all pointers. */
struct sample_filter {
    const struct dataset *dataset; /* of fewer than 2^32 samples */
    struct shard_cache *cache;
    uint64_t first_shard;       /* in the cache */
    const uint32_t *candidates; /* NULL: all samples */
    uint64_t candidates_count;
};

/* Appends the candidates that meet the condition to matches, as uint32_t; at least one. Opens all
 * their shards. -EINVAL: the condition is wrong, no sample meets it, all lack one of its fields, or
 * the index does not have a field; errors of opening a shard. */
int sample_filter_where(const struct sample_filter *filter, const char *condition,
                        struct str *matches, struct err *err);
/* Appends the class of each candidate, as uint32_t: the index field of that name, an integer from 0
 * to SAMPLE_CLASSES_MAX - 1. name: "class" for the index field `label`. -EINVAL names a sample
 * without a class; errors as above. */
int sample_filter_classes(const struct sample_filter *filter, const char *name, struct str *classes,
                          struct err *err);

#endif
