/*
 * shard_cache — the shards of a loader's datasets, opened when first needed, a bounded number at a
 * time.
 *
 * Shards are numbered across all datasets: those of the first, then those of the second.
 *
 * The cache bounds indexes and file handles: at most SHARDS_OPEN_MAX shards, and at most a quarter
 * of the files that the process may open, because a shard read around the page cache takes two
 * descriptors. A shard in use is never closed. If more are in use at once, the bound is exceeded up
 * to the caller's share of the process's files, which includes files opened elsewhere in the
 * process. Damage of a shard (-EBADMSG) is remembered; after any other failure the next call tries
 * again.
 *
 * Threads: any; one mutex. A shard is opened under it, which blocks other calls of shard_cache_get;
 * shard_cache_put never waits.
 */
#ifndef MILLRACE_LOADER_PARTS_SHARD_CACHE_H
#define MILLRACE_LOADER_PARTS_SHARD_CACHE_H

#include "base/os/open_files.h"
#include "sampler/mix.h"
#include "shards/dataset/dataset.h"

enum { SHARDS_OPEN_MAX = 1024, SHARDS_OPEN_LEAST = 16 };

struct shard_cache;

uint32_t shard_cache_open_max(void); /* the bound under this process's current limits */

/* Borrows io and the datasets, 1 to MIX_DATASETS_MAX of them. -ENOMEM. */
int shard_cache_open(struct io *io, const struct dataset *const *datasets, uint32_t count,
                     struct shard_cache **ret_cache, struct err *err);
void shard_cache_close(struct shard_cache *cache); /* no shard may be in use; NULL is fine */

/* The number of a dataset's first shard. */
uint64_t shard_cache_first(const struct shard_cache *cache, uint32_t dataset);
/* Writes the path of a shard to path, which has IO_PATH_BYTES_MAX. */
int shard_cache_path(const struct shard_cache *cache, uint64_t shard, char *path, struct err *err);
/* True while a shard is being opened; *ret_shard is its number. Does not wait. */
bool shard_cache_is_opening(const struct shard_cache *cache, uint64_t *ret_shard);
/* Opens the shard if needed and checks it against its dataset's list; release it with
 * shard_cache_put. Errors are those of shard_open, and -EMFILE if it would exceed the share. When
 * files are short, unused shards are closed first. */
int shard_cache_get(struct shard_cache *cache, uint64_t shard, enum open_files_share share,
                    struct shard **ret_shard, struct err *err);
void shard_cache_put(struct shard_cache *cache, uint64_t shard);
/* True if status means too few files, so that a retry may succeed after others are released. */
bool shard_cache_is_short_of_files(int status);

#endif
