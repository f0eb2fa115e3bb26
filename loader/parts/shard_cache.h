/*
 * shard_cache — opens the shards of a loader's datasets on first use and bounds how many are open.
 *
 * Shards are numbered across all datasets, in dataset order.
 *
 * At most SHARDS_OPEN_MAX shards are open, and at most a quarter of the process's limit on open
 * files, because a shard that bypasses the page cache takes two descriptors. A shard in use is
 * never closed; if more shards are in use, the bound may be exceeded, up to the caller's share of
 * the process's limit. Damage to a shard (-EBADMSG) is remembered; after any other failure the next
 * call retries.
 *
 * Thread-safe. Opening a shard blocks other shard_cache_get calls; shard_cache_put never waits.
 */
#ifndef MILLRACE_LOADER_PARTS_SHARD_CACHE_H
#define MILLRACE_LOADER_PARTS_SHARD_CACHE_H

#include "base/os/open_files.h"
#include "sampler/mix.h"
#include "shards/dataset/dataset.h"

enum { SHARDS_OPEN_MAX = 1024, SHARDS_OPEN_MIN = 16 };

struct shard_cache;

uint32_t shard_cache_open_max(void); /* the bound under the current process limits */

/* Borrows io and the datasets, 1 to MIX_DATASETS_MAX of them. -ENOMEM. */
int shard_cache_open(struct io *io, const struct dataset *const *datasets, uint32_t count,
                     struct shard_cache **ret_cache, struct err *err);
void shard_cache_close(struct shard_cache *cache); /* no shard may be in use; NULL is fine */

/* Returns the number of the dataset's first shard. */
uint64_t shard_cache_first(const struct shard_cache *cache, uint32_t dataset);
/* Writes a shard's path to path, which has IO_PATH_BYTES_MAX bytes. */
int shard_cache_path(const struct shard_cache *cache, uint64_t shard, char *path, struct err *err);
/* True while a shard is being opened; sets *ret_shard to its number. Does not wait. */
bool shard_cache_is_opening(const struct shard_cache *cache, uint64_t *ret_shard);
/* Opens the shard if needed and checks it against its dataset's list. Release it with
 * shard_cache_put. Closes unused shards if descriptors run short. Returns the errors of
 * dataset_open_shard, or -EMFILE if the share would be exceeded. */
int shard_cache_get(struct shard_cache *cache, uint64_t shard, enum open_files_fraction share,
                    struct shard **ret_shard, struct err *err);
void shard_cache_put(struct shard_cache *cache, uint64_t shard);
/* True if a retry may succeed after other files are closed. */
bool shard_cache_is_short_of_files(int status);

#endif
