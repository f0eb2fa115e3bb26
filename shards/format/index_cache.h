/*
 * index_cache — caches the indexes of plain tars in a per-user folder, so that each tar is walked
 * once. docs/reference/shards.md defines the byte layout of entries.
 *
 * The folder is $XDG_CACHE_HOME/millrace/index or $HOME/.cache/millrace/index; without these
 * variables there is no cache. Entries are named by a hash of the tar's absolute path or URL. An
 * entry is valid while the tar's identity (io.h) and the header blocks of a few members are
 * unchanged. Invalid entries are ignored. The folder can be deleted at any time.
 */
#ifndef MILLRACE_SHARDS_FORMAT_INDEX_CACHE_H
#define MILLRACE_SHARDS_FORMAT_INDEX_CACHE_H

#include "io/local/work_lock.h"
#include "shards/format/plain_tar.h"

/* An open tar. Its queue must be idle during the calls below. */
struct index_cache_tar {
    struct io *io;
    struct io_file *file;
    struct io_queue *queue;
    const char *path;
};

/* Writes the folder's path to folder (IO_PATH_BYTES_MAX); the folder may not exist. -ENOENT: the
 * environment variables are not set; -ENAMETOOLONG. */
int index_cache_folder(char *folder);
/* Writes the path of the tar's entry to cache_path (IO_PATH_BYTES_MAX). -ENOENT: no cache. */
int index_cache_path(struct io *io, const char *path, char *cache_path, struct err *err);

/* -ENOENT without detail: no valid entry. A partial index of a damaged tar is valid only with
 * accept_partial. */
int index_cache_load(const struct index_cache_tar *tar, bool accept_partial,
                     struct plain_tar_index *ret_index);
/* Like index_cache_load, but for a caller that will walk the tar if there is no entry. Waits up to
 * 5 minutes while another process walks the same tar. *ret_lock: release with io_work_lock_release
 * after storing the entry. */
int index_cache_load_or_begin(const struct index_cache_tar *tar, bool accept_partial,
                              struct plain_tar_index *ret_index, struct io_work_lock **ret_lock);
/* Replaces an older entry. identity: the tar's identity before the walk; -ESTALE if it has changed.
 * Occasionally also removes temporary files at least an hour old, left by processes that died. */
int index_cache_store(const struct index_cache_tar *tar, const struct io_identity *identity,
                      const struct plain_tar_index *index, struct err *err);

#endif
