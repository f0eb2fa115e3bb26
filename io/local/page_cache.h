/*
 * page_cache — queries and drops the page cache of local files.
 *
 * Thread-safe.
 */
#ifndef MILLRACE_IO_LOCAL_PAGE_CACHE_H
#define MILLRACE_IO_LOCAL_PAGE_CACHE_H

#include "base/err.h"

#include <stdint.h>

/* Counts the cached bytes in a range of an open file. -ENOSYS before Linux 6.5, -EOPNOTSUPP, ... */
int page_cache_bytes(int fd, uint64_t offset, uint64_t bytes, uint64_t *ret_cached_bytes);

/* Writes dirty pages to disk and drops the file from the page cache, except pages that other
 * processes have mapped. Blocks. -ENOENT, -EACCES, ...: cannot open; -EIO, -ENOSPC, ...: cannot
 * write to disk; -EINVAL, -ENAMETOOLONG: invalid path. */
int page_cache_drop(const char *path, struct err *err);

#endif
