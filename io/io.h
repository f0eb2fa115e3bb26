/*
 * io — storage backends: the only code that reads or writes data, behind tables of operations.
 *
 * A backend is a struct io with four tables. **Requests** (`ops`) read and write at offsets of open
 * files: they are submitted to a queue and reaped from it in any order. **Names** stat, list and
 * remove. **Transactions** write outputs: their files appear together under the final name, or not
 * at all. **Locks** give a folder one owner and keep readers' files in place.
 *
 *     io_open("file:", NULL, &io, err);  // or any path or URL: its scheme selects the backend
 *     io->ops->queue_open(io, 64, &queue, err);                // one per submitting thread
 *     io->ops->file_open(io, "shard-000000.tar", &file, err);
 *     struct io_request request = {
 *         .kind = IO_READ, .file = file, .offset = 0, .data = buffer, .bytes = 4096};
 *     io->ops->submit(queue, (struct io_request *[]){&request}, 1);
 *     io->ops->reap(queue, done, 64, 1, IO_FOREVER);  // request.result: bytes moved, or -errno
 *
 * A request is complete when it is reaped. Reads are short only at the end of the file (the engine
 * continues short reads, -EINTR and -EAGAIN); writes are complete or failed.
 *
 * Durability of a transaction, as numbered invariants that the crash sweep tests:
 *   1. begin creates a private staging folder `.tmp-*` beside the final name and makes its
 *      existence durable. (A single file is its own staging path, made by create.)
 *   2. create fails if the name exists in the transaction (O_EXCL). finalize returns only when the
 *      bytes are durable and the size is final. A failed fsync is never retried: the transaction
 *      is lost.
 *   3. commit: everything finalized is durable before the final name appears. The name appears
 *      atomically (a rename that replaces only on request) and is durable when commit returns.
 *   4. Whatever has a final name is complete. Whatever has a temporary name (io_parse_temporary)
 *      has no owner and may be swept by the owner of its folder.
 *   5. A transaction that resumes a dead writer's (IO_RESUME_NOW) keeps all of this: the files it
 *      takes over count as written now, and its own finalize makes them durable.
 *
 * Threads: a backend (struct io) and its files may be shared by all threads. A queue belongs to one
 * thread. A transaction is used by one thread at a time.
 */
#ifndef MILLRACE_IO_IO_H
#define MILLRACE_IO_IO_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IO_TEMPORARY_PREFIX ".tmp-"
#define IO_FOREVER          (-1)

enum {
    IO_PATH_BYTES_MAX = 1024,
    IO_NAME_BYTES_MAX = 256, /* of a file within a transaction */
    IO_QUEUE_DEPTH_MAX = 4096,
    IO_ALIGN_BYTES = 4096, /* offsets, sizes and addresses that suit every engine and O_DIRECT */
};

/* Hints for local files; other backends ignore them. */
enum io_request_flags {
    /* The bytes will not be needed again soon and need not stay in the page cache. Takes effect for
     * whole blocks of IO_ALIGN_BYTES: offset and bytes are multiples of it and data is aligned to
     * direct_align, or a read has IO_PADDED. */
    IO_NOREUSE = 1,
    /* IO_READ: data and offset are equal modulo IO_ALIGN_BYTES, and the engine may overwrite the
     * rest of the memory blocks in which data begins and ends. Unaligned bytes are then read in
     * place, without a copy. */
    IO_PADDED = 2,
};

struct io;
struct io_file;
struct io_queue; /* each engine defines its own, as it does io_file */
struct io_transaction;
struct io_lock;
struct io_shared_lock;

enum io_request_kind { IO_READ, IO_WRITE };

/* Caller-owned; the engine owns it from submit until it is reaped, data included. */
struct io_request {
    enum io_request_kind kind;
    struct io_file *file;
    uint64_t offset;
    void *data;
    size_t bytes;
    unsigned flags;          /* of io_request_flags */
    void *user;              /* the caller's */
    ssize_t result;          /* once reaped: bytes moved, -errno, -ECANCELED */
    struct io_request *next; /* the engine's */
};

enum io_entry_kind { IO_ENTRY_FILE, IO_ENTRY_FOLDER, IO_ENTRY_OTHER };

struct io_entry {
    const char *name; /* within its folder; lives during the callback */
    enum io_entry_kind kind;
};

enum { IO_IDENTITY_BYTES_MAX = 64 };

/* Identifies one state of a file: while it stays the same, so do the file's bytes. Opaque: it is
 * only stored and compared. A local file's is its device, inode, size, mtime and ctime; an object's
 * would be its ETag or generation. Two writes of equal size within one tick of the file system's
 * clock can not be told apart. */
struct io_identity {
    uint8_t bytes[IO_IDENTITY_BYTES_MAX];
    uint8_t bytes_count;
};

/* What a path is. */
struct io_stat {
    enum io_entry_kind kind;
    uint64_t size_bytes;
    uint64_t mtime_ns;
    struct io_identity identity;
};

/* How a folder's owner keeps others off. */
enum io_lock_kind {
    IO_LOCK_AUTO,   /* the kernel's lock on file systems of this machine, else a lease */
    IO_LOCK_KERNEL, /* a lock that the kernel frees at any death of the owner */
    /* a number that the owner renews each period: for storage that several machines share */
    IO_LOCK_LEASE,
};

struct io_lock_options {
    enum io_lock_kind kind;
    uint64_t period_ns; /* of a lease; 0: 5 s */
};

/* What happens to the staging path of a transaction whose writer dies. */
enum io_resume {
    IO_RESUME_NO, /* nobody resumes it */
    /* A later IO_RESUME_NOW may resume it. While this writer lives, the kernel keeps others out of
     * its staging path. */
    IO_RESUME_LATER,
    /* As IO_RESUME_LATER, and resumes a dead writer's transaction of the same path, single_file,
     * owner_id and attempt, if there is one (-EBUSY: its writer lives). Its files keep their
     * contents, which create does not check. */
    IO_RESUME_NOW,
};

struct io_transaction_options {
    const char *path; /* the final name of the folder, or of the single file */
    bool single_file; /* the output is one file of that name; create it as name "" */
    /* commit replaces an existing output; otherwise begin and commit fail with -EEXIST. */
    bool replace;
    /* For a folder that replaces one: the old folder is renamed to this sibling name, whose former
     * contents are removed. NULL: the old folder is removed. If it cannot be renamed it stays
     * complete under a temporary name and the commit succeeds. */
    const char *backup;
    const char *owner_id; /* part of the temporary name, for sweeps; NULL: "0" */
    uint64_t attempt;     /* part of the temporary name */
    enum io_resume resume;
};

/* In all tables, hooks are required unless marked optional. A wrapper is a backend too and forwards
 * what it does not change. Errors are -errno with detail: -ENOENT, -EEXIST, -ENOSPC, -EIO, ... */

/* Files open for reading, and requests. */
struct io_ops {
    const char *name;   /* of the engine, for statistics and doctor: "threads", "io_uring" */
    const char *scheme; /* of the URLs: "file" */

    int (*file_open)(struct io *io, const char *path, struct io_file **ret_file, struct err *err);
    void (*file_close)(struct io_file *file);
    uint64_t (*file_size)(const struct io_file *file); /* bytes, as of file_open */
    /* Of the open file as it is now, whatever its path names by now. */
    int (*file_identity)(const struct io_file *file, struct io_identity *ret_identity,
                         struct err *err);
    /* Optional (NULL: 0). The memory alignment in bytes, at most IO_ALIGN_BYTES, with which
     * IO_NOREUSE requests bypass the page cache; 0: they don't bypass it. Callers that can choose
     * their memory thereby avoid a copy. */
    unsigned (*direct_align)(struct io *io, struct io_file *file);
    int (*queue_open)(struct io *io, unsigned depth, struct io_queue **ret_queue, struct err *err);
    void (*queue_close)(struct io_queue *queue); /* cancels requests in flight and waits for them */
    /* Optional (NULL: no effect). Registers the memory of this queue's requests, once and before
     * the first of them; it must outlive the queue and be aligned to IO_ALIGN_BYTES. Where the
     * kernel allows it (RLIMIT_MEMLOCK) the engine then pins its pages once instead of per request;
     * otherwise requests work as without. */
    void (*queue_register)(struct io_queue *queue, void *memory, size_t bytes);
    /* Accepts as many of count as the queue has slots for. Returns how many (0: full, reap first)
     * or -errno. */
    int (*submit)(struct io_queue *queue, struct io_request *const *requests, unsigned count);
    /* Waits until at least `least` requests are done, timeout_ms has passed (IO_FOREVER) or none is
     * in flight. Returns how many are done, or -errno if the queue has failed: then all requests
     * have been cancelled or waited for, as by queue_close. Their results are meaningless, their
     * memory is the caller's again, and the queue can only be closed. */
    int (*reap)(struct io_queue *queue, struct io_request **done, unsigned count_max,
                unsigned least, int timeout_ms);
    /* Asks that the request end soon. It is still reaped, with -ECANCELED if it had not begun. */
    void (*cancel)(struct io_queue *queue, struct io_request *request);
    void (*close)(struct io *io);
};

/* Paths. */
struct io_name_ops {
    /* Optional (NULL: the name itself). A name of an existing file that does not depend on the
     * working directory: for a local file its absolute path without symbolic links. full_path has
     * IO_PATH_BYTES_MAX. */
    int (*resolve)(struct io *io, const char *path, char *full_path, struct err *err);
    int (*stat)(struct io *io, const char *path, struct io_stat *ret_stat, struct err *err);
    /* Calls entry for each entry of a folder except "." and "..", in byte order of the names. The
     * callback's first non-zero result ends the listing and is returned. */
    int (*list)(struct io *io, const char *path,
                int (*entry)(void *context, const struct io_entry *entry), void *context,
                struct err *err);
    /* With its parents; an existing folder is fine. */
    int (*make_folder)(struct io *io, const char *path, struct err *err);
    /* Removes a file, or a folder with its contents. The folder first gets a temporary name, so
     * that nobody sees half of it. */
    int (*remove)(struct io *io, const char *path, struct err *err);
};

/* One transaction: begin (create|open write... finalize)* commit|abort. */
struct io_transaction_ops {
    int (*begin)(struct io *io, const struct io_transaction_options *options,
                 struct io_transaction **ret_transaction, struct err *err);
    /* Joins the transaction that another rank began, by its staging path, which must be visible
     * here. */
    int (*join)(struct io *io, const struct io_transaction_options *options, const char *staging,
                struct io_transaction **ret_transaction, struct err *err);
    /* The path to send to ranks that join; lives as long as the transaction. */
    const char *(*staging)(const struct io_transaction *transaction);
    /* A new file (or one that a dead writer left, see IO_RESUME_NOW), for IO_WRITE requests and,
     * until it is finalized, for IO_READ requests. name: plain names joined by "/"; folders are
     * made. bytes_expected reserves space (0: unknown). The transaction owns the file. */
    int (*create)(struct io_transaction *transaction, const char *name, uint64_t bytes_expected,
                  struct io_file **ret_file, struct err *err);
    /* A file that another rank created, for IO_WRITE requests to other parts of it. Two ranks never
     * write the same block of IO_ALIGN_BYTES, because a machine's page cache may hide what another
     * machine wrote to a block. Each rank that opened the file finalizes it, all with the same
     * final_bytes, which makes durable what that rank wrote. */
    int (*open)(struct io_transaction *transaction, const char *name, struct io_file **ret_file,
                struct err *err);
    /* Closes the file, also on failure. */
    int (*finalize)(struct io_transaction *transaction, struct io_file *file, uint64_t final_bytes,
                    struct err *err);
    /* Frees the transaction, also on failure. A failed commit removes what was written, unless only
     * the fsync after the rename failed: then the output is complete under its name but may not
     * survive a power loss. -EINVAL if files are not finalized or were lost. */
    int (*commit)(struct io_transaction *transaction, struct err *err);
    /* Removes what was written and frees the transaction; NULL is fine. For a rank that joined, the
     * same as leave. */
    void (*abort)(struct io_transaction *transaction);
    /* Frees the transaction without committing or removing anything: for ranks that joined, and for
     * a writer whose transaction others may resume (io_resume). */
    void (*leave)(struct io_transaction *transaction);
    /* Removes temporaries in the folder that do not belong to owner_id (NULL: of any owner) and
     * whose name is_ours accepts (NULL: all with IO_TEMPORARY_PREFIX). Returns how many, or
     * -errno. */
    int (*sweep)(struct io *io, const char *folder, const char *owner_id,
                 bool (*is_ours)(const char *entry_name), struct err *err);
};

struct io_lock_ops {
    /* A folder has one owner at a time. -EBUSY names the owner's host and pid. A kernel lock is
     * released when its owner dies; a lease expires some periods later, and this call blocks that
     * long. options NULL: all zero. */
    int (*acquire)(struct io *io, const char *folder, const struct io_lock_options *options,
                   struct io_lock **ret_lock, struct err *err);
    /* Whether this owner still has the folder: no other owner has begun anything before what the
     * caller does next. -EBUSY, for good, names who took it; other errors mean that the state could
     * not be determined now. Call it before anything that must not come late, such as a commit. */
    int (*check)(struct io_lock *lock, struct err *err);
    void (*release)(struct io_lock *lock); /* NULL is fine */

    /* Optional (NULL: no locks); call it through io_lock_shared. Readers of a file lock it shared;
     * a remover locks it exclusively. -EBUSY: the other kind is held. -ENOENT: the path no longer
     * names the file. The kernel releases the lock when its owner dies. *ret_lock is NULL where
     * the file system has no locks. */
    int (*lock_shared)(struct io *io, const char *path, bool is_exclusive,
                       struct io_shared_lock **ret_lock, struct err *err);
    void (*unlock_shared)(struct io_shared_lock *lock); /* NULL is fine */
};

/* A program's list of temporary files, which it removes when it ends at once. Local backends add
 * single-file outputs that nobody may resume. Called from any thread. */
struct io_temporaries {
    /* path is about to be created. Returns the argument of remove; -1: not added. */
    int (*add)(const char *path);
    void (*remove)(int number); /* the path is gone or is to stay; -1 is fine */
};

/* Backends embed it first. */
struct io {
    const struct io_ops *ops;
    const struct io_name_ops *names;
    const struct io_transaction_ops *transactions;
    const struct io_lock_ops *locks;
    const struct io_temporaries *temporaries; /* of the options */
};

/* What moves the bytes of local files. */
enum io_engine {
    IO_ENGINE_AUTO,  /* io_uring if the kernel allows it, for each queue; else threads */
    IO_ENGINE_URING, /* opening the backend or a queue fails if the kernel allows no ring */
    IO_ENGINE_THREADS,
};

/* Which requests use the page cache; those that cannot bypass it always do. */
enum io_cache {
    IO_CACHE_AUTO, /* all except IO_NOREUSE requests to files that are not mostly cached */
    IO_CACHE_ALL,
    IO_CACHE_NONE,
};

struct io_options {
    unsigned threads; /* of the thread engine; 0: 4 */
    enum io_engine engine;
    enum io_cache cache;
    const struct io_temporaries *temporaries; /* NULL: none; outlives the backend */
};

/* The length of "scheme" in "scheme://...", or in "file:..."; 0 for a plain path. */
size_t io_scheme_bytes(const char *path_or_url);
/* -EPROTONOSUPPORT, with advice, unless a backend of this build serves the path: plain paths and
 * URLs of the schemes listed in io.c. Every path from a configuration or the command line is
 * checked before anything is written. */
int io_check_path(const char *path_or_url, struct err *err);

/* Opens the backend of path_or_url's scheme; plain paths are local. options may be NULL. The caller
 * closes it. -EPROTONOSUPPORT: as io_check_path. -ENOSYS, -EPERM, ...: the engine asked for is not
 * available. */
int io_open(const char *path_or_url, const struct io_options *options, struct io **ret_io,
            struct err *err);
/* NULL is fine. All its queues, files and transactions must have been closed. */
void io_close(struct io *io);

/* Whether entry_name is `.tmp-<name>-<owner>-<attempt>-<nonce>`, the name of an output until it is
 * committed. name, of IO_NAME_BYTES_MAX, becomes that of the output, truncated if it is long, and
 * "" for the remains of a removal. */
bool io_parse_temporary(const char *entry_name, char *name);

/* Whether entry_name is a file that the lock of a folder leaves in it. */
bool io_is_owner_record(const char *entry_name);

/* The backends, one file each. */
int io_threads_open(const struct io_options *options, struct io **ret_io, struct err *err);
/* -ENOSYS, -EPERM, ... with advice if the kernel or this build has no io_uring. */
int io_ring_open(const struct io_options *options, struct io **ret_io, struct err *err);

#ifdef __cplusplus
}
#endif

#endif
