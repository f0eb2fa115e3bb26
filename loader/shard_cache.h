/*
 * shard_cache — the shards of a dataset, opened when first needed, a bounded number at a time.
 *
 * Indexes and file handles are what it bounds: as many as the process may have files open, halved, at most
 * SHARDS_OPEN_MAX. A shard in use is never closed, so while more are in use at once the bound gives way. A failure
 * is not remembered: whoever asks next tries again.
 *
 * Threads: any; one mutex. Opening happens under it, and blocks.
 */
#ifndef MILLRACE_LOADER_SHARD_CACHE_H
#define MILLRACE_LOADER_SHARD_CACHE_H

#include "shards/dataset.h"

enum { SHARDS_OPEN_MAX = 1024, SHARDS_OPEN_LEAST = 16 };

struct shard_cache;

uint32_t shard_cache_open_max(void); /* the bound for this process as its limits stand */

/* Borrows io and dataset. -ENOMEM. */
int shard_cache_open(struct io *io, const struct dataset *dataset, struct shard_cache **ret_cache,
                     struct err *err);
void shard_cache_close(struct shard_cache *cache); /* nothing may be in use; NULL is fine */

/* The shard, to be put back. It is checked against the dataset's list. Errors are those of shard_open. */
int shard_cache_get(struct shard_cache *cache, uint64_t shard, struct shard **ret_shard, struct err *err);
void shard_cache_put(struct shard_cache *cache, uint64_t shard);

#endif
