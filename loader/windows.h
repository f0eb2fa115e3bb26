/*
 * windows — text as samples: block + 1 tokens of a token member each, stride block.
 *
 * Windows do not cross members, so a member of n tokens has (n - 1) / block of them. dataset.json
 * tells of each shard how long its last member is, while the others are whole, so a start opens
 * none for it. What it does not tell (lists that were written before it did) is counted from the
 * shard's index: per shard a few words are kept, and a running count of its members only where they
 * differ in length. Immutable once open: any thread.
 */
#ifndef MILLRACE_LOADER_WINDOWS_H
#define MILLRACE_LOADER_WINDOWS_H

#include "loader/shard_cache.h"

struct windows;

/* Where a sample lies. */
struct view_place {
    uint64_t shard;  /* of windows_locate: of the dataset; of view_locate: of the cache */
    uint64_t member; /* the member's (key's) number within its shard */
    int64_t window;  /* within the member, -1 for members */
};

/* first_shard is the number of the dataset's first in the cache; those are opened once of which
 * dataset.json does not tell enough. Borrows dataset. -EINVAL: the dataset is no text, or no member
 * holds a block. */
int windows_open(const struct dataset *dataset, struct shard_cache *cache, uint64_t first_shard,
                 const char *field, uint32_t block, struct windows **ret_windows, struct err *err);
void windows_close(struct windows *windows); /* NULL is fine */

uint64_t windows_count(const struct windows *windows); /* of the dataset */
struct view_place windows_locate(const struct windows *windows, uint64_t sample);

uint64_t windows_bytes(const struct windows *windows); /* of one: (block + 1) tokens */
/* Where the window begins in its member; -EBADMSG where the member is too short for it. */
int windows_offset(const struct windows *windows, const struct shard *shard,
                   const struct shard_field *field, int64_t window, uint64_t *ret_offset,
                   struct err *err);

#endif
