/*
 * shard_cache — the shards of a loader's datasets, opened when first needed, a bounded number at a
 * time.
 *
 * Shards are numbered through all datasets: those of the first, then those of the second.
 *
 * Indexes and file handles are what it bounds: as many as a quarter of the files that the process
 * may have open, since a shard takes two descriptors where it is read around the page cache, at
 * most SHARDS_OPEN_MAX. A shard in use is never closed, so while more are in use at once the bound
 * gives way, up to the share of the process's files that who asks may take: what others of the
 * process opened counts too. That a shard is damaged (-EBADMSG) is remembered; after any other
 * failure whoever asks next tries again.
 *
 * Threads: any; one mutex. Opening happens under it, and blocks whoever wants a shard; putting one
 * back never waits.
 */
#ifndef MILLRACE_LOADER_SHARD_CACHE_H
#define MILLRACE_LOADER_SHARD_CACHE_H

#include "base/open_files.h"
#include "sampler/mix.h"
#include "shards/dataset.h"

enum { SHARDS_OPEN_MAX = 1024, SHARDS_OPEN_LEAST = 16 };

struct shard_cache;

uint32_t shard_cache_open_max(void); /* the bound for this process as its limits stand */

/* Borrows io and the datasets, 1 to MIX_DATASETS_MAX of them. -ENOMEM. */
int shard_cache_open(struct io *io, const struct dataset *const *datasets, uint32_t count,
                     struct shard_cache **ret_cache, struct err *err);
void shard_cache_close(struct shard_cache *cache); /* nothing may be in use; NULL is fine */

/* The number of a dataset's first shard. */
uint64_t shard_cache_first(const struct shard_cache *cache, uint32_t dataset);
/* The path of a shard, into path of IO_PATH_BYTES_MAX. */
int shard_cache_path(const struct shard_cache *cache, uint64_t shard, char *path, struct err *err);
/* True while a shard is being opened; which one. Does not wait for it. */
bool shard_cache_is_opening(const struct shard_cache *cache, uint64_t *ret_shard);
/* The shard, to be put back. It is checked against its dataset's list. Errors are those of
 * shard_open, and -EMFILE where it would be a file beyond the share; for want of files, shards that
 * nobody uses are closed first. */
int shard_cache_get(struct shard_cache *cache, uint64_t shard, enum open_files_share share,
                    struct shard **ret_shard, struct err *err);
void shard_cache_put(struct shard_cache *cache, uint64_t shard);
/* Whether it failed for that, so that it can be had when others were put back. */
bool shard_cache_is_short_of_files(int status);

#endif
