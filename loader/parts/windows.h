/*
 * windows — text samples: block + 1 tokens of one token member, with stride block.
 *
 * Windows do not cross members, so a member of n tokens has (n - 1) / block windows. dataset.json
 * gives the length of each shard's last member; all others have the full length, so opening reads
 * no shard. If dataset.json lacks these lengths, windows are counted from the shards' indexes. Uses
 * a few words of memory per shard, plus one word per member if a shard's member lengths differ.
 * Immutable once open, so any thread may use it.
 */
#ifndef MILLRACE_LOADER_PARTS_WINDOWS_H
#define MILLRACE_LOADER_PARTS_WINDOWS_H

#include "loader/parts/shard_cache.h"

struct windows;

/* Location of a sample. */
struct sample_location {
    uint64_t shard;  /* number in the dataset (windows_locate) or in the cache (view_locate) */
    uint64_t member; /* number of the member (key) in its shard */
    int64_t window;  /* index in the member; -1: not a window */
};

/* first_shard: number of the dataset's first shard in the cache. Opens each shard whose member
 * lengths dataset.json lacks. Borrows dataset. -EINVAL: the dataset is not text, or no member
 * has a full block. */
int windows_open(const struct dataset *dataset, struct shard_cache *cache, uint64_t first_shard,
                 const char *field, uint32_t block, struct windows **ret_windows, struct err *err);
void windows_close(struct windows *windows); /* NULL is fine */

uint64_t windows_count(const struct windows *windows); /* in the dataset */
struct sample_location windows_locate(const struct windows *windows, uint64_t sample);

uint64_t windows_sample_bytes(const struct windows *windows); /* per window: (block + 1) tokens */
/* Returns the window's offset in its member; -EBADMSG if the member is too short. */
int windows_offset(const struct windows *windows, const struct shard *shard,
                   const struct shard_field *field, int64_t window, uint64_t *ret_offset,
                   struct err *err);

#endif
