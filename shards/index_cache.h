/*
 * index_cache — indexes of tars that carry none, kept in a folder of the user's so that each tar is walked once.
 *
 * The folder is $XDG_CACHE_HOME/millrace/index, or $HOME/.cache/millrace/index; without either there is no cache. A file
 * is named after the hash of the tar's absolute path or URL. Entries count only while size, mtime and version (an ETag,
 * where there is one) of the tar are those of the time when it was walked; others, and damaged ones, are as good as
 * absent. The folder may be removed at any time.
 *
 *     offset  type     what
 *     0       char[8]  "MRINDEX\0"
 *     8       u32      version, 1          12  u32  flags: 1, the index has no checksums;
 *                                             256, of a damaged tar: of what is whole
 *     16      u64      bytes of the tar    24  u64  its mtime, ns
 *     32      u64      its version         40  u64  archive_end
 *     48      u64      samples             56  u32  fields       60  u32  CRC32C of the index
 *     64      u64      bytes of the index  72  u32  identity     76  u32  bytes of the path
 *     80               zeros               124 u32  CRC32C of bytes 0 to 123
 *     128              the path, zeros up to a multiple of 8, the index as in a shard
 */
#ifndef MILLRACE_SHARDS_INDEX_CACHE_H
#define MILLRACE_SHARDS_INDEX_CACHE_H

#include "shards/foreign.h"

/* The folder into folder (IO_PATH_BYTES_MAX), made or not. -ENOENT where there is none to be, -ENAMETOOLONG. */
int index_cache_folder(char *folder);
/* Where the index of the tar at path is kept, into cache_path (IO_PATH_BYTES_MAX). -ENOENT where there is no cache. */
int index_cache_path(struct io *io, const char *path, char *cache_path, struct err *err);

/* -ENOENT where there is no entry that counts; no detail, since it is no error. An index of a damaged tar counts where
 * partial_will_do. */
int index_cache_load(struct io *io, const char *path, bool partial_will_do, struct foreign_index *ret_index);
/* Replaces an older entry. info: of the tar, taken before it was walked. Now and then it removes what others left that died while they stored one,
 * an hour ago or earlier. */
int index_cache_store(struct io *io, const char *path, const struct io_stat *info,
                      const struct foreign_index *index, struct err *err);

#endif
