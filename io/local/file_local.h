/*
 * file_local — code that the backends for local files share. Internal to io/.
 *
 * An engine (io_threads.c with thread_queue.c, io_uring.c with uring_queue.c) implements queues and
 * close. The rest of a backend is declared here and documented in io.h. Thread-safe.
 *
 *     file_names.c         open, stat, list, make_folder, remove
 *     file_temporary.c     temporary names, removal of trees, sweep
 *     file_transaction.c   transactional outputs
 *     file_resume.c        resuming a dead writer's transaction
 *     file_lock.c          one owner per folder, with lease.c
 *     file_shared_lock.c   readers and removers of a file
 *     medium.c             gap_bytes
 */
#ifndef MILLRACE_IO_LOCAL_FILE_LOCAL_H
#define MILLRACE_IO_LOCAL_FILE_LOCAL_H

#include "io/io.h"

#include <errno.h>
#include <stdatomic.h>

enum { FILE_OWNER_BYTES_MAX = 64, FILE_TREE_DEPTH_MAX = 64 };

/* Immutable while requests are in flight, except for the atomic members. */
struct io_file {
    int fd;
    uint64_t size_bytes;                /* when opened */
    struct io_transaction *transaction; /* the one that writes it; NULL: opened for reading */
    struct io_file *next;               /* in the transaction's list of unfinalized files */
    atomic_int direct; /* for file_transfer.c: a descriptor that bypasses the page cache */
    /* Valid once direct is known. */
    atomic_uint direct_align;
    char path[IO_PATH_BYTES_MAX];
};

/* A backend for local files. Immutable after open. */
struct local_io {
    struct io base;
    enum io_cache cache;
    unsigned threads;   /* per queue without a ring */
    bool requires_ring; /* io_uring was requested by name */
};

#define LOCAL_FILE_OPS                                                                             \
    .scheme = "file", .file_open = local_file_open, .file_close = local_file_close,                \
    .file_size = local_file_size, .file_identity = local_file_identity,                            \
    .direct_align = local_direct_align, .close = local_close

extern const struct io_name_ops local_names;
extern const struct io_transaction_ops local_transactions;
extern const struct io_lock_ops local_locks;

/* Repeats a system call while a signal interrupts it. Not for close: on EINTR Linux has freed the
 * descriptor, and another thread may have reused the number. */
#define LOCAL_RETRY(call)                                                                          \
    ({                                                                                             \
        __typeof__(call) result_;                                                                  \
        do                                                                                         \
            result_ = (call);                                                                      \
        while (result_ == -1 && errno == EINTR);                                                   \
        result_;                                                                                   \
    })

/* io_threads.c */
int local_open(const struct io_ops *ops, const struct io_options *options, struct io **ret_io,
               struct err *err);
void local_close(struct io *io);
unsigned local_direct_align(struct io *io, struct io_file *file);
/* Opens a thread_queue.h of struct local_io. */
int local_threads_open(struct io *io, unsigned depth, struct io_queue **ret_queue, struct err *err);

/* file_names.c */
int local_file_open(struct io *io, const char *path, struct io_file **ret_file, struct err *err);
void local_file_close(struct io_file *file);
uint64_t local_file_size(const struct io_file *file);
int local_file_identity(const struct io_file *file, struct io_identity *ret_identity,
                        struct err *err);
int local_list(struct io *io, const char *path,
               int (*entry)(void *context, const struct io_entry *entry), void *context,
               struct err *err);
int local_make_folder(struct io *io, const char *path, struct err *err);
int local_remove(struct io *io, const char *path, struct err *err);

/* Strips the scheme of "file:x", "file:/x", "file:///x" and "file://localhost/x", if any. Borrows
 * from path; does not decode percent signs. -EINVAL: empty, or another host; -EPROTONOSUPPORT:
 * another scheme; -ENAMETOOLONG. */
int local_path(const char *path, const char **ret_path, struct err *err);
/* Maps to -EIO those kernel codes that mean something else in this program: -EINVAL is wrong usage;
 * -EBADMSG, -ENODATA and -EOPNOTSUPP describe a file's contents. */
int local_map_errno(int code);
/* Describes a failed system call on path, with advice. Returns local_map_errno(code). */
int local_error(struct err *err, int code, const char *path, const char *what);
/* Whether path still names the open file. */
bool local_is_same_file(int fd, const char *path);
/* Whether a failed lock means that the file system has no locks. */
bool local_has_no_locks(int code);
/* Takes an open-file-description lock without waiting. -EAGAIN: a conflicting lock is held. */
int local_lock(int fd, bool is_exclusive);
/* Makes creations, renames and removals in the folder durable. */
int local_sync_folder(const char *folder, struct err *err);

/* file_temporary.c */
int local_sweep(struct io *io, const char *folder, const char *owner_id,
                bool (*is_ours)(const char *entry_name), struct err *err);
/* parent/.tmp-<name>-<owner>-<attempt>-<nonce>. Truncates a long name; writes bytes of the owner
 * other than letters, digits, "." and "_" as %xx. -ENAMETOOLONG. path holds IO_PATH_BYTES_MAX. */
int temporary_path(const char *parent, const char *name, const char *owner_id, uint64_t attempt,
                   char *path, struct err *err);
/* temporary_path's entry name without the nonce. prefix holds IO_PATH_BYTES_MAX. */
int temporary_prefix(const char *name, const char *owner_id, uint64_t attempt, char *prefix,
                     struct err *err);
bool temporary_has_prefix(const char *entry_name, const char *prefix);
/* Removes a file, or a folder with its contents; follows no links. Succeeds if path is absent. */
int temporary_remove(const char *path, struct err *err);
/* Renames path to a temporary sibling (IO_PATH_BYTES_MAX). */
int temporary_rename_for_removal(const char *path, char *temporary, struct err *err);
/* For an output being replaced: a sweep renames it back if its old name is free. -ENAMETOOLONG. */
int temporary_rename_for_replacement(const char *path, char *temporary, struct err *err);

/* file_commit.c, file_transaction.c */
int local_transaction_commit(struct io_transaction *transaction, struct err *err);
void local_transaction_abort(struct io_transaction *transaction);

/* file_resume.c */
/* Locks a new staging path until the descriptor and its duplicates are closed. -EBUSY: another
 * process mistook it for a dead writer's, locked it first and now owns it. Does nothing if the file
 * system has no locks. */
int staging_lock(int staging_fd, const char *staging, bool is_file, struct err *err);
/* Finds and locks the staging path (IO_PATH_BYTES_MAX) in parent that a dead writer with that name,
 * kind, owner and attempt left. -ENOENT, without detail: there is none. -EBUSY: its writer is
 * alive. */
int staging_find(const char *parent, const char *name, const struct io_transaction_options *options,
                 char *staging, int *ret_staging_fd, struct err *err);

/* file_lock.c */
/* Returns -EBUSY, with advice. owner: "host=H pid=P boot=B", or "" if unknown. */
int local_owned_error(const char *folder, const char *owner, const char *what, struct err *err);
#define LOCAL_OWNED_MESSAGE "another process owns the folder"

/* file_shared_lock.c */
int local_shared_lock_acquire(struct io *io, const char *path, bool is_exclusive,
                              struct io_shared_lock **ret_lock, struct err *err);
void local_shared_lock_release(struct io_shared_lock *lock);

/* medium.c */
uint64_t local_gap_bytes(struct io *io, const char *path);

#endif
