/*
 * index_cache — indexes of tars that carry none, kept in a folder of the user's so that each tar is
 * walked once.
 *
 * The folder is $XDG_CACHE_HOME/millrace/index, or $HOME/.cache/millrace/index; without either
 * there is no cache. A file is named after the hash of the tar's absolute path or URL. An entry
 * counts only while the tar's identity (io.h) is the one it had before it was walked, and the
 * header blocks before a few of its members are what they were then. Others, and damaged ones, are
 * as good as absent. The folder may be removed at any time.
 *
 *     offset  type     what
 *     0       char[8]  "MRINDEX\0"
 *     8       u32      version, 2          12  u32  flags: 1, the index has no checksums;
 *                                             256, of a damaged tar: of what is whole
 *     16      u64      bytes of the tar    24  u64  archive_end
 *     32      u64      samples             40  u32  fields       44  u32  CRC32C of the index
 *     48      u64      bytes of the index  56  u32  CRC32C of the index without checksums
 *     60      u32      bytes of the path   64  u32  bytes of the tar's identity
 *     68      u32      CRC32C of the header blocks, one after the other
 *     72      u64[4]   where the header blocks of some members start; 2^64 - 1: none
 *     104     u8[64]   the tar's identity, zeros behind it
 *     168              zeros               252 u32  CRC32C of bytes 0 to 251
 *     256              the path, zeros up to a multiple of 8, the index as in a shard
 */
#ifndef MILLRACE_SHARDS_INDEX_CACHE_H
#define MILLRACE_SHARDS_INDEX_CACHE_H

#include "io/turn.h"
#include "shards/foreign.h"

/* A tar that is open, with a queue that is idle during the calls below. */
struct index_cache_tar {
    struct io *io;
    struct io_file *file;
    struct io_queue *queue;
    const char *path;
};

/* The folder into folder (IO_PATH_BYTES_MAX), made or not. -ENOENT where there is none to be,
 * -ENAMETOOLONG. */
int index_cache_folder(char *folder);
/* Where the index of the tar at path is kept, into cache_path (IO_PATH_BYTES_MAX). -ENOENT where
 * there is no cache. */
int index_cache_path(struct io *io, const char *path, char *cache_path, struct err *err);

/* -ENOENT where there is no entry that counts; no detail, since it is no error. An index of a
 * damaged tar counts where partial_will_do. */
int index_cache_load(const struct index_cache_tar *tar, bool partial_will_do,
                     struct foreign_index *ret_index);
/* The same for a caller that will walk the tar where there is none. While another process walks it,
 * this blocks until there is an entry, or that process has ended, or 5 minutes have passed.
 * *ret_turn: to be ended by io_turn_end when the entry is stored; NULL where others need not
 * wait. */
int index_cache_load_or_begin(const struct index_cache_tar *tar, bool partial_will_do,
                              struct foreign_index *ret_index, struct io_turn **ret_turn);
/* Replaces an older entry. identity: of the tar before it was walked; -ESTALE where it is another
 * one by now. Now and then it removes what others left that died while they stored one, an hour ago
 * or earlier. */
int index_cache_store(const struct index_cache_tar *tar, const struct io_identity *identity,
                      const struct foreign_index *index, struct err *err);

#endif
