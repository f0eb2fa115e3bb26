/*
 * page_cache — what of local files is in the page cache.
 *
 * Threads: any.
 */
#ifndef MILLRACE_IO_PAGE_CACHE_H
#define MILLRACE_IO_PAGE_CACHE_H

#include "base/err.h"

#include <stdint.h>

/* How much of these bytes of an open file is cached. -ENOSYS before Linux 6.5, -EOPNOTSUPP, ... */
int page_cache_bytes(int fd, uint64_t offset, uint64_t bytes, uint64_t *ret_cached_bytes);

/* What is cached of the file at the path goes, once it is on disk; what others have mapped stays.
 * Blocks until then. -ENOENT, -EACCES, ... where it can't be opened; -EIO, -ENOSPC, ... where it
 * could not be written to disk; -EINVAL, -ENAMETOOLONG where the path can't be one. */
int page_cache_drop(const char *path, struct err *err);

#endif
