/*
 * io — bytes somewhere: one table of operations a backend, and the only way that millrace reads or
 * writes.
 *
 * Two halves. **Requests** move bytes: reads and writes at offsets of open files, submitted to a
 * queue and reaped from it in any order. **Transactions** make outputs durable: files that appear
 * together under their final name, or not at all.
 *
 *     io_open("file:", NULL, &io, err);  // or any path or URL: its scheme picks the backend
 *     io->ops->queue_open(io, 64, &queue, err);                // one a thread that submits
 *     io->ops->file_open(io, "shard-000000.tar", &file, err);
 *     struct io_request request = {
 *         .kind = IO_READ, .file = file, .offset = 0, .data = buffer, .bytes = 4096};
 *     io->ops->submit(queue, (struct io_request *[]){&request}, 1);
 *     io->ops->reap(queue, done, 64, 1, IO_FOREVER);  // request.result: bytes moved, or -errno
 *
 * A request is complete when it is reaped: reads are whole unless the file ended (the engine
 * continues short ones, -EINTR and -EAGAIN), writes are whole or failed.
 *
 * Durability of a transaction, as numbered invariants that the crash sweep tests:
 *   1. begin: makes a private place `.tmp-*` beside the final name and makes its existence durable
 *      (a single file is its own place and comes with transaction_create).
 *   2. transaction_create fails where the name is taken in the transaction (O_EXCL);
 *      transaction_finalize returns only when the bytes are durable and the file's size is final. A
 *      failed fsync is never tried again: the transaction is lost.
 *   3. commit: everything finalized is durable before the final name appears; the name appears at
 *      once (rename without replacing, unless told to replace), and it is durable when commit
 *      returns.
 *   4. What is listed under a final name is whole. What is called as a temporary
 *      (io_parse_temporary) is nobody's and may be swept by the owner of its folder.
 *   5. A transaction that goes on where a dead writer stopped (IO_RESUME_NOW) keeps all of this:
 *      what it takes over counts as written now, and is made durable by its own
 *      transaction_finalize.
 *
 * Threads: a backend (struct io) and its files may be shared by all threads; a queue belongs to one
 * thread; a transaction is used by one thread at a time.
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

/* What the engine may do for a request, and how; local files only, elsewhere they mean nothing. */
enum io_request_flags {
    /* The bytes are not wanted again soon: they need not stay in the page cache. Takes effect where
     * whole blocks of IO_ALIGN_BYTES can be moved: where offset and bytes are multiples of it and
     * data is one of what direct_align says, or a read has IO_PADDED. */
    IO_NOREUSE = 1,
    /* IO_READ: data lies as far into a block of memory as offset into a block of the file, and the
     * rest of the blocks that it begins and ends in is the engine's to write over. So unaligned
     * bytes are read in place without being copied. */
    IO_PADDED = 2,
};

struct io;
struct io_file;
struct io_queue;
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

/* What becomes of the place of a transaction whose writer dies. */
enum io_resume {
    IO_RESUME_NO, /* nobody goes on in it */
    /* who begins with IO_RESUME_NOW may; as long as this writer lives the kernel keeps others off
     * its place */
    IO_RESUME_LATER,
    /* As IO_RESUME_LATER, in the place that a dead writer left, which had the same path,
     * single_file, owner_id and attempt, where there is one (-EBUSY: its writer lives). Its files
     * are there as they were, and transaction_create takes them as they are: no byte of them is
     * known. */
    IO_RESUME_NOW,
};

struct io_transaction_options {
    const char *path; /* the final name: of the folder, or of the one file */
    bool single_file; /* the transaction is one file of that name; create it as name "" */
    /* An existing output gives way at commit; otherwise it is -EEXIST, at begin and again at
     * commit. */
    bool replace;
    /* Of a folder that replaces one: where the old one goes, a name beside it; what stood there is
     * removed. NULL: the old one is removed. Where it can't be renamed it stays whole under a
     * temporary name, and the commit is good. */
    const char *backup;
    const char
        *owner_id; /* part of the temporary name, so that a sweep can tell whose it is; NULL: "0" */
    uint64_t attempt; /* part of the temporary name */
    enum io_resume resume;
};

/* Hooks are required unless marked; a wrapper is a backend and passes on what it does not change.
 * Errors are -errno with detail: -ENOENT, -EEXIST, -ENOSPC, -EIO, ... */
struct io_ops {
    const char *name;   /* of the engine, as statistics and doctor show it: "threads", "io_uring" */
    const char *scheme; /* of the URLs: "file" */

    /* Reading and requests. */
    int (*file_open)(struct io *io, const char *path, struct io_file **ret_file,
                     struct err *err); /* for reading */
    void (*file_close)(struct io_file *file);
    uint64_t (*file_size)(const struct io_file *file); /* bytes, as it was when opened */
    /* Of the open file as it is now, whatever its path names by now. */
    int (*file_identity)(const struct io_file *file, struct io_identity *ret_identity,
                         struct err *err);
    /* Optional (NULL: 0). How whole blocks of this file move with IO_NOREUSE: 0, through the page
     * cache; else around it, where their memory is aligned to so many bytes, at most
     * IO_ALIGN_BYTES. So who has a choice of memory takes what is not copied. */
    unsigned (*direct_align)(struct io *io, struct io_file *file);
    int (*queue_open)(struct io *io, unsigned depth, struct io_queue **ret_queue, struct err *err);
    void (*queue_close)(struct io_queue *queue); /* cancels and waits for what is under way */
    /* Optional (NULL: as where it fails): memory that requests of this queue will lie in, told
     * once, before the first. It must live as long as the queue, and is aligned to IO_ALIGN_BYTES.
     * The engine then finds its pages once and not at each request, where the kernel lets it
     * (RLIMIT_MEMLOCK); where not, requests work as without. */
    void (*queue_register)(struct io_queue *queue, void *memory, size_t bytes);
    /* Takes as many of count as there is room for: returns how many (0: full, reap first) or
     * -errno. */
    int (*submit)(struct io_queue *queue, struct io_request *const *requests, unsigned count);
    /* Waits until at least `least` are done or timeout_ms passed (IO_FOREVER), or nothing is under
     * way. Returns how many, or -errno where it can't go on: then the engine has cancelled, or
     * waited for, all that was under way, as queue_close does; their results mean nothing, their
     * memory is the caller's, and the queue can only be closed. */
    int (*reap)(struct io_queue *queue, struct io_request **done, unsigned count_max,
                unsigned least, int timeout_ms);
    /* Asks that the request end soon; it is reaped all the same, with -ECANCELED if it had not
     * begun. */
    void (*cancel)(struct io_queue *queue, struct io_request *request);

    /* Names. */
    /* Optional (NULL: as it is). The name of an existing file that is the same wherever a program
     * runs: of a local file its absolute path without symbolic links, into full_path of
     * IO_PATH_BYTES_MAX. */
    int (*resolve)(struct io *io, const char *path, char *full_path, struct err *err);
    int (*stat)(struct io *io, const char *path, struct io_stat *ret_stat, struct err *err);
    /* The entries of a folder in byte order of their names, "." and ".." and nothing else left out;
     * the callback's first non-zero result ends it and is returned. */
    int (*list)(struct io *io, const char *path,
                int (*entry)(void *context, const struct io_entry *entry), void *context,
                struct err *err);
    int (*make_folder)(struct io *io, const char *path,
                       struct err *err); /* with its parents; an existing one is fine */
    /* A file, or a folder and all below it, which first is renamed to a temporary name so that
     * nobody sees half of it. */
    int (*remove)(struct io *io, const char *path, struct err *err);

    /* Transactions. The calls of one transaction: begin (create|open write... finalize)*
     * commit|abort. */
    int (*transaction_begin)(struct io *io, const struct io_transaction_options *options,
                             struct io_transaction **ret_transaction, struct err *err);
    /* Another rank joins the set of the first, which told it the place; checks that it is visible
     * here. */
    int (*transaction_join)(struct io *io, const struct io_transaction_options *options,
                            const char *staging, struct io_transaction **ret_transaction,
                            struct err *err);
    /* What to tell the other ranks; lives as long as the transaction. */
    const char *(*transaction_staging)(const struct io_transaction *transaction);
    /* A new file of the transaction (or one that a dead writer left, see IO_RESUME_NOW), for
     * IO_WRITE requests and, until it is finalized, for IO_READ ones. name: plain names joined by
     * "/"; folders are made. bytes_expected reserves space (0: unknown). The set owns the file. */
    int (*transaction_create)(struct io_transaction *transaction, const char *name,
                              uint64_t bytes_expected, struct io_file **ret_file, struct err *err);
    /* A file of the transaction that another rank created, for IO_WRITE requests to other places of
     * it. No block of IO_ALIGN_BYTES is written by two ranks, since what one machine keeps in
     * memory of a block may hide what another one wrote of it. Each rank that has it open finalizes
     * it, all with the same final_bytes, and makes durable by that what it wrote itself. */
    int (*transaction_open)(struct io_transaction *transaction, const char *name,
                            struct io_file **ret_file, struct err *err);
    /* Closes the file, whatever it returns. */
    int (*transaction_finalize)(struct io_transaction *transaction, struct io_file *file,
                                uint64_t final_bytes, struct err *err);
    /* Frees the transaction, also where it fails; then what was written is removed, but where only
     * making the new name durable failed (the fsync after the rename): the output stands whole
     * under its name, and may not survive a loss of power. -EINVAL with files unfinalized or
     * lost. */
    int (*transaction_commit)(struct io_transaction *transaction, struct err *err);
    /* Removes what was written and frees the transaction; NULL is fine. By a rank that joined it is
     * transaction_leave. */
    void (*transaction_abort)(struct io_transaction *transaction);
    /* For ranks that joined, and for the writer of a transaction that others may resume
     * (io_resume): free the transaction without committing or removing anything. */
    void (*transaction_leave)(struct io_transaction *transaction);
    /* Removes temporaries in the folder that are not of owner_id (NULL: whoever's) and whose name
     * is_ours takes (NULL: all that begin with IO_TEMPORARY_PREFIX). Returns how many, or
     * -errno. */
    int (*sweep)(struct io *io, const char *folder, const char *owner_id,
                 bool (*is_ours)(const char *entry_name), struct err *err);

    /* A folder has one owner at a time. -EBUSY names the holder's host and pid. A lock is free at
     * any death of its holder; a lease some periods later, and that long this blocks. options NULL:
     * all zero. */
    int (*lock_acquire)(struct io *io, const char *folder, const struct io_lock_options *options,
                        struct io_lock **ret_lock, struct err *err);
    /* Whether the folder is still this owner's: what it does next to it, no other owner has begun
     * before. -EBUSY names who took it, for good; other errors say that it could not be told now.
     * To be asked before what must not come late (a commit). */
    int (*lock_check)(struct io_lock *lock, struct err *err);
    void (*lock_release)(struct io_lock *lock); /* NULL is fine */

    /* Optional (NULL: no locks); call it through io_lock_shared. Readers of a file lock it shared;
     * a remover locks it exclusively. -EBUSY: the other kind is held. -ENOENT: the path no longer
     * names the file. The kernel releases the lock when its owner dies. *ret_lock is NULL where
     * the file system has no locks. */
    int (*shared_lock_acquire)(struct io *io, const char *path, bool is_exclusive,
                               struct io_shared_lock **ret_lock, struct err *err);
    void (*shared_lock_release)(struct io_shared_lock *hold); /* NULL is fine */

    void (*close)(struct io *io);
};

/* Backends embed it first. */
struct io {
    const struct io_ops *ops;
};

/* What moves the bytes of local files. */
enum io_engine {
    /* io_uring where the kernel lets us, else threads; so does each queue that it gives no ring */
    IO_ENGINE_AUTO,
    IO_ENGINE_URING, /* opening the backend, or a queue, fails where the kernel gives no ring */
    IO_ENGINE_THREADS,
};

/* Which requests go through the page cache; those that can't go around it always do. */
enum io_cache {
    /* all but those with IO_NOREUSE, and of those the ones to files that are mostly cached
     * already */
    IO_CACHE_AUTO,
    IO_CACHE_ALL,
    IO_CACHE_NONE,
};

struct io_options {
    unsigned threads; /* of the thread engine; 0: 4 */
    enum io_engine engine;
    enum io_cache cache;
    /* What is to go wrong, as fault_rules.h has it; NULL: what the environment variable
     * IO_FAULT_VARIABLE says, or nothing. */
    const char *fault;
};
#define IO_FAULT_VARIABLE "MILLRACE_FAULT"

/* The length of "scheme" in "scheme://...", or in "file:..."; 0 for a plain path. */
size_t io_scheme_bytes(const char *path_or_url);
/* Whether a backend of this build serves the path: plain paths, and URLs of the schemes that io.c
 * lists. Configuration keys and arguments that are paths go through it before anything is written.
 * -EPROTONOSUPPORT with what to do. */
int io_check_path(const char *path_or_url, struct err *err);

/* The backend that serves path_or_url, by its scheme; plain paths are local. options may be NULL.
 * Gives the backend. -EPROTONOSUPPORT with what to do for a scheme that this build has not;
 * -ENOSYS, -EPERM, ... where an engine is asked for by name that there is not; -EINVAL where the
 * faults are none. */
int io_open(const char *path_or_url, const struct io_options *options, struct io **ret_io,
            struct err *err);
void io_close(
    struct io *io); /* NULL is fine; all its queues, files and transactions must be closed */

/* True of `.tmp-<name>-<owner>-<attempt>-<nonce>`, what an output is called until it is committed
 * (docs/io.md). name, of IO_NAME_BYTES_MAX: that of the output, cut where it is long; "" of what a
 * removal left. */
bool io_parse_temporary(const char *entry_name, char *name);

/* True of the names that stand in a folder which has, or had, an owner. */
bool io_is_owner_record(const char *entry_name);

/* The backends, one file each. */
int io_threads_open(const struct io_options *options, struct io **ret_io, struct err *err);
/* -ENOSYS, -EPERM, ... with what to do where the kernel, or this build, has no io_uring. */
int io_ring_open(const struct io_options *options, struct io **ret_io, struct err *err);

#ifdef __cplusplus
}
#endif

#endif
