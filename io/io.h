/*
 * io — storage backends: the tables through which all modules read and write data.
 *
 * **Requests** (`ops`) read and write at offsets of open files: they are submitted to a queue and
 * reaped in any order. **Name operations** stat, list and remove paths. **Transactions** write
 * outputs, which appear complete under their final name or not at all. **Locks** give a folder one
 * owner and protect files that are being read.
 *
 *     io_open("file:", NULL, &io, err);  // or any path or URL: its scheme selects the backend
 *     io->ops->queue_open(io, 64, &queue, err);                // one per submitting thread
 *     io->ops->file_open(io, "shard-000000.tar", &file, err);
 *     struct io_request request = {
 *         .kind = IO_READ, .file = file, .offset = 0, .data = buffer, .bytes = 4096};
 *     io->ops->submit(queue, (struct io_request *[]){&request}, 1);
 *     io->ops->reap(queue, done, 64, 1, IO_FOREVER);  // request.result: bytes moved, or -errno
 *
 * Reads are short only at the end of the file (the engine retries after short reads, -EINTR and
 * -EAGAIN); writes are complete or fail.
 *
 * A store of objects has no rename, no append and no kernel locks, so callers rely only on these
 * invariants, which the crash sweep tests with the local backend:
 *   1. begin chooses a place for the files that no other transaction has: its name contains owner,
 *      attempt and a random nonce. (Files: a staging folder `.tmp-*` next to the final name; a
 *      single file is its own. Store: keys with the nonce.)
 *   2. create fails if the name exists in the transaction. finalize returns only when the bytes are
 *      durable and the size is final; the bytes of the commit record may become durable at commit.
 *      If it fails, the transaction is lost. (Files: a failed fsync is never retried, because the
 *      next one may falsely succeed.)
 *   3. Everything else is durable before the output appears. It appears by one conditional
 *      operation, which replaces only on request, and is durable when commit returns. (Files: a
 *      rename. Store: the write of the commit record, or of the single file, on the condition that
 *      the key is absent or holds the object to be replaced.)
 *   4. An output under its final name is complete. The owner of a folder may sweep what uncommitted
 *      transactions left in it, and their later commits fail.
 *   5. A transaction that resumes another one (IO_RESUME_NOW) keeps these invariants: its own
 *      finalize makes the inherited files durable.
 *
 * Threads: all threads may share a struct io and its files. A queue belongs to one thread. A
 * transaction is used by one thread at a time.
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
    IO_PATH_BYTES_MAX = 2048, /* with the NUL; of every path, temporary names included */
    IO_NAME_BYTES_MAX = 256,  /* within a transaction */
    IO_QUEUE_DEPTH_MAX = 4096,
    IO_ALIGN_BYTES = 4096,           /* suits every engine and O_DIRECT */
    IO_GAP_BYTES_DEFAULT = 64 << 10, /* of gap_bytes; an SSD: 0.1 ms x 0.6 GB/s */
};

/* Hints for local files; other backends ignore them. */
enum io_request_flags {
    /* The page cache need not keep the bytes. Effective only for whole blocks: offset and bytes are
     * multiples of IO_ALIGN_BYTES and data is aligned to direct_align, or a read has IO_PADDED. */
    IO_NOREUSE = 1,
    /* IO_READ of unaligned bytes without a copy: data and offset are equal modulo IO_ALIGN_BYTES,
     * and the engine may overwrite the rest of the blocks in which data begins and ends. */
    IO_PADDED = 2,
};

struct io;
struct io_file;
struct io_queue; /* defined by each engine */
struct io_transaction;
struct io_lock;
struct io_shared_lock;

enum io_request_kind { IO_READ, IO_WRITE };

/* Caller-owned. From submit until it is reaped, the request and its data belong to the engine. */
struct io_request {
    enum io_request_kind kind;
    struct io_file *file;
    uint64_t offset;
    void *data;
    size_t bytes;
    unsigned flags; /* io_request_flags */
    void *user;     /* for the caller */
    /* Once reaped: bytes moved, -errno; -ECANCELED; -EBADMSG: what was read is damaged. */
    ssize_t result;
    struct io_request *next; /* for the engine */
};

enum io_entry_kind { IO_ENTRY_FILE, IO_ENTRY_FOLDER, IO_ENTRY_OTHER };

struct io_entry {
    const char *name; /* within its folder; valid during the callback */
    enum io_entry_kind kind;
};

enum { IO_IDENTITY_BYTES_MAX = 64 };

/* Identifies one state of a file. Opaque. For a local file: device, inode, size, mtime and ctime;
 * for an object: its ETag or generation. Two writes of equal size within one tick of the file
 * system's clock are indistinguishable. */
struct io_identity {
    uint8_t bytes[IO_IDENTITY_BYTES_MAX];
    uint8_t bytes_count;
};

struct io_stat {
    enum io_entry_kind kind;
    uint64_t size_bytes;
    uint64_t mtime_ns; /* by the storage's clock: for ages, not to detect changes */
    struct io_identity identity;
};

enum io_lock_kind {
    IO_LOCK_AUTO,   /* a kernel lock on this machine's own file systems, else a lease */
    IO_LOCK_KERNEL, /* files only: the kernel releases the lock when the owner dies */
    /* the owner renews a record by conditional creation; for storage shared by machines */
    IO_LOCK_LEASE,
};

struct io_lock_options {
    enum io_lock_kind kind;
    uint64_t period_ns; /* heartbeat period of a lease; 0: 5 s */
};

/* Whether a later transaction may continue this one if its writer dies. To a backend that cannot
 * resume, all are IO_RESUME_NO: callers also work if nothing is inherited. */
enum io_resume {
    IO_RESUME_NO,
    /* A later IO_RESUME_NOW may continue it, but not while the writer is alive. */
    IO_RESUME_LATER,
    /* Also continues a dead writer's transaction with the same path, single_file, owner_id and
     * attempt, if there is one (-EBUSY: its writer is alive). Its files keep their contents; create
     * does not check them. */
    IO_RESUME_NOW,
};

struct io_transaction_options {
    const char *path; /* the final name of the folder, or of the single file */
    bool single_file; /* create takes its name as "" */
    /* Replace an existing output; otherwise begin and commit fail with -EEXIST. */
    bool replace;
    /* The replaced folder is kept under this sibling's name, replacing any previous backup. NULL:
     * it is removed. If it cannot be kept there, it gets a temporary name and the commit
     * succeeds. */
    const char *backup;
    /* A folder's last file, created when all others are finalized; without it, readers reject the
     * folder. Required to commit a folder. */
    const char *commit_record;
    /* For a folder of many small files: they become durable together in the commit, instead of each
     * when it is finalized. Not with resume. */
    bool syncs_at_commit;
    const char *owner_id; /* part of temporary names, for sweeps; NULL: "0" */
    uint64_t attempt;     /* part of temporary names */
    enum io_resume resume;
};

/* Hooks are required unless marked optional. Errors are -errno with detail. */

struct io_ops {
    const char *name;   /* engine name for statistics and doctor: "threads", "io_uring" */
    const char *scheme; /* URL scheme: "file" */

    /* Reads return the state that was opened, or fail with -ESTALE if it was replaced or removed
     * and the storage did not keep it. (A local file that is written in place shows the changes.)
     */
    int (*file_open)(struct io *io, const char *path, struct io_file **ret_file, struct err *err);
    void (*file_close)(struct io_file *file);
    uint64_t (*file_size)(const struct io_file *file); /* bytes, as of file_open */
    /* Describes the open file, even if its path was renamed or replaced. */
    int (*file_identity)(const struct io_file *file, struct io_identity *ret_identity,
                         struct err *err);
    /* Optional (NULL: 0). The memory alignment, at most IO_ALIGN_BYTES, with which IO_NOREUSE
     * requests bypass the page cache without a copy; 0: they cannot bypass it. */
    unsigned (*direct_align)(struct io *io, struct io_file *file);
    int (*queue_open)(struct io *io, unsigned depth, struct io_queue **ret_queue, struct err *err);
    void (*queue_close)(struct io_queue *queue); /* cancels requests in flight and waits for them */
    /* Optional (NULL: no effect). Registers the memory of this queue's requests. Call it once,
     * before the first request; the memory must outlive the queue and be aligned to IO_ALIGN_BYTES.
     * If RLIMIT_MEMLOCK allows it, the engine pins the pages once instead of per request. */
    void (*queue_register)(struct io_queue *queue, void *memory, size_t bytes);
    /* Returns the number of accepted requests (0: the queue is full, reap first), or -errno. */
    int (*submit)(struct io_queue *queue, struct io_request *const *requests, unsigned count);
    /* Waits until count_min requests are done, timeout_ms has passed (IO_FOREVER: no limit) or no
     * request is in flight. Returns the number of requests stored in done. -errno: the queue has
     * failed and can only be closed; the caller owns all requests and their memory again, and their
     * results are undefined. */
    int (*reap)(struct io_queue *queue, struct io_request **done, unsigned count_max,
                unsigned count_min, int timeout_ms);
    /* The request is still reaped, with -ECANCELED if it had not begun. */
    void (*cancel)(struct io_queue *queue, struct io_request *request);
    void (*close)(struct io *io);
};

struct io_name_ops {
    /* Optional (NULL: the name itself). Stores a name that does not depend on the working
     * directory: for a local file, its absolute path without symbolic links. full_path holds
     * IO_PATH_BYTES_MAX. */
    int (*resolve)(struct io *io, const char *path, char *full_path, struct err *err);
    int (*stat)(struct io *io, const char *path, struct io_stat *ret_stat, struct err *err);
    /* Optional (NULL: IO_GAP_BYTES_DEFAULT); call it through io_gap_bytes. Returns the largest gap
     * between two wanted ranges of a file that is cheaper to read than to skip: the bytes that the
     * medium transfers in the time of one more request, latency x bandwidth. Each backend states
     * both numbers. May block: call it once per folder, not per file. Unknown media and paths have
     * the default. */
    uint64_t (*gap_bytes)(struct io *io, const char *path);
    /* Lists a folder without "." and "..", in byte order of the names. A nonzero result of the
     * callback ends the listing and is returned. A folder may be listed that is only the remains of
     * an uncommitted transaction or of a removal; it has no commit record. */
    int (*list)(struct io *io, const char *path,
                int (*entry)(void *context, const struct io_entry *entry), void *context,
                struct err *err);
    /* Creates missing parents too; succeeds if the folder exists. Without effect on a store. */
    int (*make_folder)(struct io *io, const char *path, struct err *err);
    /* Removes a file, or a folder with its contents. A folder that readers still see is complete:
     * it is renamed first, or its commit record is removed first. */
    int (*remove)(struct io *io, const char *path, struct err *err);
};

/* Call order: begin, (create or open, writes, finalize)*, commit or abort. */
struct io_transaction_ops {
    int (*begin)(struct io *io, const struct io_transaction_options *options,
                 struct io_transaction **ret_transaction, struct err *err);
    /* Joins another rank's transaction. Fails with -ENOENT if this rank does not see the same
     * storage. */
    int (*join)(struct io *io, const struct io_transaction_options *options,
                const char *staging_path, struct io_transaction **ret_transaction, struct err *err);
    /* Below this path, until commit or abort, the finalized files can be opened by name; a single
     * file is the path itself. Other ranks join by it. Has less than IO_PATH_BYTES_MAX bytes, and
     * lives as long as the transaction. */
    const char *(*staging_path)(const struct io_transaction *transaction);
    /* Creates a file for IO_WRITE requests, or continues a dead writer's (IO_RESUME_NOW), which
     * also accepts IO_READ requests until it is finalized. Each byte is written at most once,
     * except over inherited ones: a store gathers the writes into parts. name: plain names joined
     * by "/"; missing folders are created. bytes_expected reserves space (0: unknown). The
     * transaction owns the file. */
    int (*create)(struct io_transaction *transaction, const char *name, uint64_t bytes_expected,
                  struct io_file **ret_file, struct err *err);
    /* Opens another rank's file, to write other parts of it. Two ranks must not write to the same
     * block of IO_ALIGN_BYTES, because a machine's page cache may hide another machine's writes.
     * Each rank finalizes its own writes, all with the same final_bytes. */
    int (*open)(struct io_transaction *transaction, const char *name, struct io_file **ret_file,
                struct err *err);
    /* Closes the file, even on failure. */
    int (*finalize)(struct io_transaction *transaction, struct io_file *file, uint64_t final_bytes,
                    struct err *err);
    /* Frees the transaction, even on failure. A failed commit removes the output, unless it cannot
     * know whether the output appeared durably (files: the fsync after the rename failed; store: no
     * answer arrived): then a complete output may exist. -EINVAL: files are not finalized or were
     * lost, or the commit record is missing. */
    int (*commit)(struct io_transaction *transaction, struct err *err);
    /* Removes the output and frees the transaction; NULL is fine. After join, the same as leave. */
    void (*abort)(struct io_transaction *transaction);
    /* Frees the transaction but commits and removes nothing: for ranks that joined, and for a
     * writer whose transaction others may resume (io_resume). */
    void (*leave)(struct io_transaction *transaction);
    /* Removes what uncommitted transactions left in the folder, except those of owner_id and entry
     * names that is_ours rejects (NULL: no exceptions). Returns their number, or -errno. */
    int (*sweep)(struct io *io, const char *folder, const char *owner_id,
                 bool (*is_ours)(const char *entry_name), struct err *err);
};

struct io_lock_ops {
    /* Makes the caller the folder's only owner. -EBUSY names the owner's host and pid. Blocks until
     * a dead owner's lease expires. options NULL: all zero. */
    int (*acquire)(struct io *io, const char *folder, const struct io_lock_options *options,
                   struct io_lock **ret_lock, struct err *err);
    /* Fails unless this owner still owns the folder. -EBUSY is permanent and names the new owner;
     * after other errors the state is unknown. Call it before a commit or any other operation that
     * must precede the next owner's operations. */
    int (*check)(struct io_lock *lock, struct err *err);
    void (*release)(struct io_lock *lock); /* NULL is fine */

    /* Optional (NULL: no locks); call it through io_lock_shared. Readers of a file lock it shared;
     * a remover locks it exclusively. -EBUSY: a conflicting lock is held. -ENOENT: the path no
     * longer names the file. *ret_lock is NULL if the file system has no locks. */
    int (*lock_shared)(struct io *io, const char *path, bool is_exclusive,
                       struct io_shared_lock **ret_lock, struct err *err);
    void (*unlock_shared)(struct io_shared_lock *lock); /* NULL is fine */
};

/* A program's list of temporary files to remove on abrupt exit. Local backends add single-file
 * outputs that nobody may resume. Thread-safe. */
struct io_temporaries {
    /* Call before creating path. Returns the argument of remove; -1: not added. */
    int (*add)(const char *path);
    void (*remove)(int number); /* the path is gone or must stay; -1 is fine */
};

/* Each backend embeds it as its first member. */
struct io {
    const struct io_ops *ops;
    const struct io_name_ops *names;
    const struct io_transaction_ops *transactions;
    const struct io_lock_ops *locks;
    const struct io_temporaries *temporaries;
};

enum io_engine {
    IO_ENGINE_AUTO,  /* io_uring if the kernel allows it, chosen per queue; else threads */
    IO_ENGINE_URING, /* fails if no ring is available */
    IO_ENGINE_THREADS,
};

/* Which requests use the page cache, in addition to those that cannot bypass it. */
enum io_cache {
    IO_CACHE_AUTO, /* all except IO_NOREUSE requests to mostly uncached files */
    IO_CACHE_ALL,
    IO_CACHE_NONE,
};

struct io_options {
    unsigned threads; /* of the thread engine; 0: 4 */
    enum io_engine engine;
    enum io_cache cache;
    const struct io_temporaries *temporaries; /* NULL: none; outlives the backend */
};

/* The length of the scheme in "scheme://..." or "file:..."; 0 for a plain path. */
size_t io_scheme_bytes(const char *path_or_url);
/* -EPROTONOSUPPORT, with advice, unless this build has a backend for the path; -ENAMETOOLONG. Check
 * every path from a configuration or the command line before writing anything. */
int io_check_path(const char *path_or_url, struct err *err);
/* The same for a path to write. Also -EROFS, with advice: the backend only reads. */
int io_check_target(const char *path_or_url, struct err *err);

/* Opens the backend of path_or_url's scheme; plain paths are local. options may be NULL. The caller
 * closes it. -EPROTONOSUPPORT; -ENOSYS, -EPERM, ...: the requested engine is not available. */
int io_open(const char *path_or_url, const struct io_options *options, struct io **ret_io,
            struct err *err);
/* Whether the backend is that of the path's scheme. Unknown of some wrappers, which are said to. */
bool io_serves(const struct io *io, const char *path_or_url);
/* NULL is fine. Close all its queues, files and transactions first. */
void io_close(struct io *io);

/* Whether entry_name is `.tmp-<name>-<owner>-<attempt>-<nonce>`, an uncommitted output. Sets name
 * (IO_NAME_BYTES_MAX) to <name>, truncated if it is long; "" for the remains of a removal. */
bool io_parse_temporary(const char *entry_name, char *name);

/* Whether entry_name is a file that a folder lock leaves behind. */
bool io_is_owner_record(const char *entry_name);

/* Backends, one file each. */
int io_threads_open(const struct io_options *options, struct io **ret_io, struct err *err);
/* -ENOSYS, -EPERM, ... with advice if the kernel or this build has no io_uring. */
int io_ring_open(const struct io_options *options, struct io **ret_io, struct err *err);
/* http:// and https://, for reading only. options are for local files. -ENOMEM. */
int io_http_open(const struct io_options *options, struct io **ret_io, struct err *err);

#ifdef __cplusplus
}
#endif

#endif
