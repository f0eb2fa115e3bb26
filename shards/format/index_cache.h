/*
 * index_cache — caches the indexes of tars that have none in a folder of the user, so that each tar
 * is walked once.
 *
 * The folder is $XDG_CACHE_HOME/millrace/index, or $HOME/.cache/millrace/index; without either
 * variable there is no cache. A file is named after the hash of the tar's absolute path or URL. An
 * entry is valid only while the tar's identity (io.h) is what it was before the walk, and the
 * header blocks of a few members are unchanged. Invalid and damaged entries are ignored. The folder
 * may be removed at any time.
 *
 *     offset  type     what
 *     0       char[8]  "MRINDEX\0"
 *     8       u32      version, 2          12  u32  flags: 1, the index has no checksums;
 *                                             256, partial index of a damaged tar
 *     16      u64      bytes of the tar    24  u64  archive_end
 *     32      u64      samples             40  u32  fields       44  u32  CRC32C of the index
 *     48      u64      bytes of the index  56  u32  CRC32C of the index without checksums
 *     60      u32      bytes of the path   64  u32  bytes of the tar's identity
 *     68      u32      CRC32C of the header blocks, one after the other
 *     72      u64[4]   where the header blocks of some members start; 2^64 - 1: none
 *     104     u8[64]   the tar's identity, padded with zeros
 *     168              zeros               252 u32  CRC32C of bytes 0 to 251
 *     256              the path, zeros up to a multiple of 8, the index as in a shard
 */
#ifndef MILLRACE_SHARDS_FORMAT_INDEX_CACHE_H
#define MILLRACE_SHARDS_FORMAT_INDEX_CACHE_H

#include "io/local/work_lock.h"
#include "shards/format/foreign.h"

/* An open tar, with a queue that must be idle during the calls below. */
struct index_cache_tar {
    struct io *io;
    struct io_file *file;
    struct io_queue *queue;
    const char *path;
};

/* Writes the folder's path to folder (IO_PATH_BYTES_MAX), whether or not it exists. -ENOENT: the
 * environment names none; -ENAMETOOLONG. */
int index_cache_folder(char *folder);
/* Writes the path of the tar's cache entry to cache_path (IO_PATH_BYTES_MAX). -ENOENT: there is no
 * cache. */
int index_cache_path(struct io *io, const char *path, char *cache_path, struct err *err);

/* -ENOENT without detail: no valid entry, which is not an error. A partial index of a damaged tar
 * is valid only if accept_partial. */
int index_cache_load(const struct index_cache_tar *tar, bool accept_partial,
                     struct foreign_index *ret_index);
/* The same, for a caller that walks the tar if there is no entry. While another process walks it,
 * this blocks until there is an entry, that process has ended, or 5 minutes have passed. *ret_turn:
 * end it by io_work_lock_release once the entry is stored; NULL if others need not wait. */
int index_cache_load_or_begin(const struct index_cache_tar *tar, bool accept_partial,
                              struct foreign_index *ret_index, struct io_work_lock **ret_turn);
/* Replaces an older entry. identity: of the tar before the walk; -ESTALE if it has changed. Now and
 * then also removes temporaries at least an hour old, left by processes that died while storing. */
int index_cache_store(const struct index_cache_tar *tar, const struct io_identity *identity,
                      const struct foreign_index *index, struct err *err);

#endif
