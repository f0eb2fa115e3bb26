/*
 * windows — text as samples: each is block + 1 tokens of one token member, with stride block.
 *
 * Windows do not cross members, so a member of n tokens has (n - 1) / block windows. In
 * dataset.json, each shard has the length of its last member, and all other members have the full
 * length, so opening reads no shard. For lists written without these lengths, windows are counted
 * from the shard's index. This keeps a few words per shard, and a running count of its members only
 * if their lengths differ. Immutable once open: any thread.
 */
#ifndef MILLRACE_LOADER_PARTS_WINDOWS_H
#define MILLRACE_LOADER_PARTS_WINDOWS_H

#include "loader/parts/shard_cache.h"

struct windows;

/* The location of a sample. */
struct view_place {
    uint64_t shard;  /* windows_locate: in the dataset; view_locate: in the cache */
    uint64_t member; /* number of the member (key) in its shard */
    int64_t window;  /* in the member; -1 for members */
};

/* first_shard is the cache's number of the dataset's first shard. Shards whose member lengths
 * dataset.json lacks are opened once. Borrows dataset. -EINVAL: the dataset is not text, or no
 * member has a full block. */
int windows_open(const struct dataset *dataset, struct shard_cache *cache, uint64_t first_shard,
                 const char *field, uint32_t block, struct windows **ret_windows, struct err *err);
void windows_close(struct windows *windows); /* NULL is fine */

uint64_t windows_count(const struct windows *windows); /* of the dataset */
struct view_place windows_locate(const struct windows *windows, uint64_t sample);

uint64_t windows_bytes(const struct windows *windows); /* of one window: (block + 1) tokens */
/* The offset of the window in its member; -EBADMSG if the member is too short. */
int windows_offset(const struct windows *windows, const struct shard *shard,
                   const struct shard_field *field, int64_t window, uint64_t *ret_offset,
                   struct err *err);

#endif
