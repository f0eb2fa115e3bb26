/*
 * extents — sorts byte ranges of shards and merges neighbors into reads. Pure arithmetic.
 */
#ifndef MILLRACE_LOADER_PARTS_EXTENTS_H
#define MILLRACE_LOADER_PARTS_EXTENTS_H

#include <stdint.h>

struct extent {
    uint64_t shard;
    uint64_t begin, end; /* bytes, begin < end */
    uint64_t sample;     /* extents of the same sample have the same number */
    void *user;          /* for the caller */
};

struct extent_limits {
    uint64_t gap_bytes; /* largest gap between merged neighbors */
    uint64_t bytes_max; /* of a read */
    /* A field this close to a larger one of the same sample joins it even beyond bytes_max. */
    uint64_t same_sample_gap_bytes;
};

/* Sorts by shard, begin and end. Does not allocate. */
void extents_sort(struct extent *list, uint32_t count);

/* Returns how many of the sorted extents, count of them, one read can fetch, and where it ends. It
 * begins at list[0].begin. */
uint32_t extents_merge(const struct extent *list, uint32_t count,
                       const struct extent_limits *limits, uint64_t *ret_end);

#endif
