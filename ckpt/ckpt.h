/*
 * ckpt — a state of named arrays, saved while the owner goes on computing, and loaded into any
 * layout.
 *
 * Saving:
 *     // owns the directory, sweeps leftovers
 *     ckpt_saver_open(&options, tensors, tensors_count, &saver, err);
 *     for (step = ...) {
 *         forward, backward
 *         // copies what is not yet flushed; mostly nothing
 *         for each group g: ckpt_saver_before_update(saver, g);
 *             update the arrays of g
 *         if (step is due) ckpt_saver_save(saver, step, state_json, err);   // returns at once
 *     }
 *     ckpt_saver_wait(saver, err);
 *     ckpt_saver_close(saver);
 *
 * The snapshot is **copy before update**: arrays change only between before_update and the end of
 * the update, so the writer thread takes their bytes from where they lie, and a group is copied to
 * staging only if the writer has not reached it when its update comes. On a device copies are
 * queued, and the update waits for them, not the caller; but an array in the device's pinned memory
 * is copied by the calling thread at once. Staging is bounded; beyond it before_update waits. A
 * save that falls due while one is in progress waits for that one first. ckpt_saver_save returns
 * the error of the save before it, if that failed.
 *
 * Commit: as docs/reference/checkpoints.md's protocol; a step folder that is listed is whole. A
 * failure on any rank fails the save on all, and leaves the checkpoints before it as they are; only
 * if making the new name durable is what failed, the step may stand there, whole (io.h,
 * transaction_commit).
 *
 * Loading:
 *     ckpt_find(io, "runs/a/ckpt", path, &step, log, err);        // the newest whole one
 *     ckpt_reader_open(io, path, &reader, err);                   // reads the manifest
 *     // any boxes; only the bytes needed, verified
 *     ckpt_reader_load(reader, tensors, tensors_count, err);
 *     ckpt_reader_close(reader);
 *
 * A reader holds its step: retention and ckpt_prune leave it alone until the reader is closed
 * (docs/reference/checkpoints.md tells on which file systems other hosts' readers are seen).
 *
 * Arrays on a device are settled when save is called: what the caller queued that writes them has
 * ended.
 *
 * Names starting with "optimizer." are of the section `optimizer`, all others of `model`.
 *
 * Threads: a saver's calls come from one thread (its own writer thread works beside it), but
 * ckpt_saver_stats from any; readers are single-threaded.
 */
#ifndef MILLRACE_CKPT_CKPT_H
#define MILLRACE_CKPT_CKPT_H

#include "base/dtype.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "comm/comm.h"
#include "device/device.h"
#include "io/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct json_t;
struct trace;

#define CKPT_OPTIMIZER_PREFIX "optimizer."
#define CKPT_FOLDER_NAME                                                                           \
    "ckpt" /* of a run's folder of steps in its own, where nothing else is said */

/* One array, as this rank holds it: the box start..start+extent of the global array, row-major,
 * without gaps. */
struct ckpt_tensor {
    const char *name; /* borrowed as long as the saver or call that was given it */
    enum dtype dtype;
    uint32_t rank;                  /* dimensions, 0 for a scalar */
    uint64_t shape[DTYPE_RANK_MAX]; /* global */
    uint64_t start[DTYPE_RANK_MAX], extent[DTYPE_RANK_MAX];
    bool
        /* all ranks hold the same whole array: stored once, its rows spread over the ranks */
        replicated;
    uint32_t group; /* saving: which update changes it, 0..groups-1 */
    /* Loading: dtype may be another floating-point one than that of the save; values are rounded
     * once, to nearest, ties to even (cast.h). Without it another dtype is an error. */
    bool cast;
    void *data; /* on the saver's device */
};

enum ckpt_mode { CKPT_MIN, CKPT_MAX };
/* What files a step has (docs/reference/checkpoints.md). Each layout is read by whatever reads the
 * other. */
enum ckpt_layout {
    CKPT_SHARDED, /* one a rank, with what it stores of all */
    /* The model's section is in one file, `model.safetensors`, as whole tensors: all ranks write it
     * together, each the bytes that it holds. Of an array that is not replicated each rank's part
     * is one run of the array's bytes, as rows are. */
    CKPT_FULL,
};
enum { CKPT_METRIC_BYTES_MAX = 64, CKPT_NODE_BYTES_MAX = 256 };

/* Which whole steps of a folder stay: each that one of these rules names, the newest one, and those
 * that somebody reads. */
struct ckpt_keep {
    uint32_t last;  /* the newest so many; 0: all steps stay, whatever the rest says */
    uint64_t every; /* those whose number is a multiple of it; 0: none */
    struct {
        const char *
            /* in the state's `metrics`, as "val_loss"; NULL: none. A step that lacks it is no best
             * one */
            metric;
        enum ckpt_mode mode;
        uint32_t count;
    } best;
};

/* Immutable after open; texts are copied. */
struct ckpt_saver_options {
    const char *folder; /* holds step-00001000/, ... ; made if absent */
    struct io *io;
    /* NULL: one rank. The saver splits its own from it, on which ranks wait for each other as long
     * as they live (comm.h, set_timeout), however long one of them writes. */
    struct comm *comm;
    /* Each node has a folder of its own under that name, with the files of its ranks and a copy of
     * what is replicated (docs/reference/checkpoints.md). Otherwise all ranks write to one folder.
     * Not with CKPT_FULL. */
    bool per_node;
    const char *
        /* this rank's, of fewer than CKPT_NODE_BYTES_MAX bytes; NULL: the host's name and boot */
        node;
    struct device *device; /* NULL: host memory */
    /* Of the device: where the caller queues updates after before_update, which makes it wait for
     * what is still being copied; borrowed. NULL: before_update blocks until it is copied. */
    struct device_stream *updates;
    enum ckpt_layout layout;
    uint32_t groups_count;
    uint64_t
        /* 0: 64 MiB; at least 4 MiB: memory for writing and for copies before updates */
        staging_bytes;
    struct ckpt_keep keep;
    struct io_lock_options lock; /* how the folder is owned */
    const char *run_id;          /* names the owner of temporaries */
    const char *numerics_id;
    const struct log *log;
    struct trace *
        /* of the program, which outlives the saver: its thread adds what it does (base/trace.h);
         * NULL: none */
        trace;
};

struct ckpt_saver;

/* Takes the folder (-EBUSY names its owner), removes what dead owners left, plans the files,
 * allocates all memory. Collective: all ranks pass the same replicated arrays in the same order,
 * and boxes that together cover each other one. Borrows tensors and names during the call, what
 * data points to as long as the saver. -EINVAL names an array, -ENOTSUP one whose part is not one
 * run (CKPT_FULL). */
int ckpt_saver_open(const struct ckpt_saver_options *options, const struct ckpt_tensor *tensors,
                    uint64_t tensors_count, struct ckpt_saver **ret_saver, struct err *err);
/* Waits for a save in progress; its error is lost (ask ckpt_saver_wait before). NULL is fine. */
void ckpt_saver_close(struct ckpt_saver *saver);

/* Begins a save of the arrays as they are now. state_json: an object, copied. Blocks only for a
 * save still in progress. If the previous save failed, its error is returned and the new one is
 * begun all the same. A state that is no object or nested more than 63 levels deep, or a step
 * beyond 2^63, is refused on this rank at once, and the save fails on the others, whose wait or
 * next save says so; how the previous one failed is then told by the next call. */
int ckpt_saver_save(struct ckpt_saver *saver, uint64_t step, const char *state_json,
                    struct err *err);
/* Must be called before an update of the group's arrays begins, or is queued on the stream of
 * updates (not while that is captured). Cheap when no save is in progress; blocks while staging is
 * full. */
void ckpt_saver_before_update(struct ckpt_saver *saver, uint32_t group);
/* Blocks until the save in progress is durable or has failed; its status, once. 0 where there was
 * none. */
int ckpt_saver_wait(struct ckpt_saver *saver, struct err *err);
bool ckpt_saver_busy(struct ckpt_saver *saver);

struct ckpt_saver_stats {
    uint64_t saves_count, failures_count;
    uint64_t written_bytes;
    uint64_t blocked_ns;   /* the caller, in save, before_update and wait together */
    uint64_t copied_bytes; /* staged by the caller, before an update */
    uint64_t
        ahead_bytes; /* staged by the writer while the disk was busy, so that no update has to */
    uint64_t buffer_waits_count; /* blocks for which before_update waited, staging being full */
    uint64_t last_save_ns;       /* from ckpt_saver_save to durable, or until it failed */
    uint64_t last_step;          /* of the newest durable save of this saver, UINT64_MAX: none */
};
struct ckpt_saver_stats ckpt_saver_stats(struct ckpt_saver *saver);

/* The metric of a step by its state: the number `metrics.NAME`. Where the metrics tell of which
 * step they are, as `val_step` does of `val_loss` (NAME up to its first `_`, and `_step`), that of
 * another step is none. False: unknown. */
bool ckpt_metric(const struct json_t *state, const char *name, uint64_t step, double *ret_metric);
/* Which of its values are good, where a metric's name tells: those of `loss` and `..._loss` that
 * are small, those of `accuracy` and `..._accuracy` that are large. False: unknown. */
bool ckpt_metric_mode(const char *name, enum ckpt_mode *ret_mode);

/* Why a step stays; several may hold. */
enum ckpt_reason {
    CKPT_KEPT_LAST = 1 << 0,   /* one of the newest, or the newest */
    CKPT_KEPT_EVERY = 1 << 1,  /* its number is a multiple */
    CKPT_KEPT_BEST = 1 << 2,   /* one of the best */
    CKPT_KEPT_SAVED = 1 << 3,  /* it was just saved */
    CKPT_KEPT_READ = 1 << 4,   /* somebody reads it: to be removed the next time */
    CKPT_KEPT_BROKEN = 1 << 5, /* it is not whole: no rule speaks of it */
};

struct ckpt_verdict {
    uint64_t step;
    const char *path;
    uint64_t size_bytes; /* of a whole one */
    unsigned reasons;    /* of enum ckpt_reason; 0: it goes */
    int status;          /* of a removal: 0, or -errno; told through log */
};

struct ckpt_prune_options {
    struct ckpt_keep keep; /* borrowed during the call */
    bool dry_run;          /* only tell */
    void (*verdict)(
        void *context,
        const struct ckpt_verdict *verdict); /* of each step, by rising number; NULL: nobody asks */
    void *context;
    const struct log *log;
};
/* Removes the whole steps that no rule keeps, and with a step what was put aside for it
 * (docs/reference/checkpoints.md). A step that somebody reads stays. -ENOENT where the folder has
 * no step and never had an owner, -EINVAL where it is itself a step. Takes the folder's lock
 * (-EBUSY names the owner), but for a dry run. What can't be removed is logged and does not keep
 * the rest; the first such status is returned. */
int ckpt_prune(struct io *io, const char *folder, const struct ckpt_prune_options *options,
               struct err *err);

/* A whole checkpoint in a folder of steps. */
struct ckpt_entry {
    uint64_t step;
    const char *path;
    uint64_t size_bytes; /* all files */
    uint64_t wall_ns;
    struct json_t *state;
};
/* Each whole checkpoint of a folder by rising step; one whose manifest can't be read is named
 * through log and left out. The callback's first non-zero result ends the walk. -ENOENT where the
 * folder is absent. */
int ckpt_list(struct io *io, const char *folder,
              int (*entry)(void *context, const struct ckpt_entry *entry), void *context,
              const struct log *log, struct err *err);
/* Each step of a folder by rising number, whole or not, unread. The callback's first non-zero
 * result ends the walk. -ENOENT where the folder is absent. */
int ckpt_each_step(struct io *io, const char *folder,
                   int (*each)(void *context, uint64_t step, const char *path), void *context,
                   struct err *err);
/* path_or_folder: a step folder, or a folder of steps, whose newest whole one is meant. Path of
 * IO_PATH_BYTES_MAX. A damaged step (manifest or files missing, cut or unreadable as such) is
 * passed over for an older one, and named through log (LOG_WARN; NULL: silently). -ENOENT only
 * where there is no step at all: where all are damaged it is -EBADMSG with the newest one's detail,
 * and an I/O error on the way (-EIO, -EACCES, ...) is that error, since an older step would be a
 * guess. */
int ckpt_find(struct io *io, const char *path_or_folder, char *path, uint64_t *ret_step,
              const struct log *log, struct err *err);

/* The same of the steps that will do; path_or_folder as a step is read whatever its number. */
struct ckpt_choice {
    uint64_t below; /* only steps before this one; UINT64_MAX: all. -ENOENT where there is none */
    bool stop_at_damage; /* a damaged step is an error and not passed over */
};
int ckpt_find_among(struct io *io, const char *path_or_folder, const struct ckpt_choice *choice,
                    char *path, uint64_t *ret_step, const struct log *log, struct err *err);

/* Turns the folder of a run (run.dir) into the folder of checkpoints in it; any other path stays as
 * it is. ret_path: of IO_PATH_BYTES_MAX. Fails only where the path is too long. */
int ckpt_resolve(struct io *io, const char *path, char *ret_path, struct err *err);

struct ckpt_reader;
int ckpt_reader_open(struct io *io, const char *step_path, struct ckpt_reader **ret_reader,
                     struct err *err);
void ckpt_reader_close(struct ckpt_reader *reader); /* NULL is fine */
const char *
ckpt_reader_path(const struct ckpt_reader *reader); /* of the step; borrowed from the reader */
uint64_t ckpt_reader_step(const struct ckpt_reader *reader);
const char *ckpt_reader_numerics_id(const struct ckpt_reader *reader);
const struct json_t *
ckpt_reader_state(const struct ckpt_reader *reader); /* borrowed from the reader */
const struct manifest *ckpt_reader_manifest(const struct ckpt_reader *reader);
/* Fills the boxes asked for: same name, global shape and (but for those that say cast) dtype as
 * saved. Reads only what is needed, by rising offset, and verifies every block that it touches.
 * -ENOENT names a missing tensor, or a file that lies on another node, -EBADMSG a block whose CRC
 * differs, with tensor, file and offset, -EINVAL a tensor of another dtype or shape, with both.
 * -ESTALE where the step was saved again or removed since the reader was opened: read it again.
 * Host memory (device NULL: blocks are read straight to their place where they can be), or the
 * device's by its copies. On failure the arrays hold anything. */
int ckpt_reader_load(struct ckpt_reader *reader, const struct ckpt_tensor *wanted,
                     uint64_t wanted_count, struct device *device, struct err *err);

/* For ranks that go on together, each with its own reader: collective, and the same verdict on all
 * ranks. What one finds damaged is damaged for all, -EBADMSG everywhere with the words of the first
 * who saw it ("rank 2: ..."), so that all fall back to the same older step or all stop. Where a
 * rank failed otherwise, nobody gets -EBADMSG: it has its own status, those who did not fail
 * -EREMOTEIO and its words. */

/* ckpt_find_among and ckpt_reader_open in one: the newest step that is whole on every rank and the
 * same save on all, whether they see one folder or one a node (per_node), where a death may leave a
 * node with a step that another lacks. -ENOENT where no rank has a step, -ESTALE where there are
 * steps, but none that all have. log: each warning comes from the first rank that has it. */
int ckpt_reader_open_collective(struct io *io, const char *path_or_folder,
                                const struct ckpt_choice *choice, struct comm *comm,
                                struct ckpt_reader **ret_reader, const struct log *log,
                                struct err *err);
/* The same without a reader, and so without a lock. path: this rank's. */
int ckpt_find_collective(struct io *io, const char *path_or_folder,
                         const struct ckpt_choice *choice, struct comm *comm, char *path,
                         uint64_t *ret_step, const struct log *log, struct err *err);
/* As ckpt_reader_load. On failure the arrays hold anything on all ranks. */
int ckpt_reader_load_collective(struct ckpt_reader *reader, struct comm *comm,
                                const struct ckpt_tensor *wanted, uint64_t wanted_count,
                                struct device *device, struct err *err);

/* Who is told how far a long read is; NULL, or progress NULL: nobody. */
struct ckpt_watch {
    void (*progress)(void *context, uint64_t bytes_done, uint64_t bytes);
    void *context;
};

/* xxh3-128 over tensors sorted by name: for each name length u32, name, dtype name length u32,
 * dtype name, rank u32, dimensions u64, bytes. loader: over the entries of state.loader sorted by
 * key: key length u32, key, compact JSON (keys sorted at every depth) length u32, JSON. A section
 * without tensors is absent. Nothing of step, time, path, files, ranks or layout. path: a step, a
 * folder of steps, or a safetensors file (then only the sections that it has). log: as
 * ckpt_find's. */
enum ckpt_section { CKPT_MODEL, CKPT_OPTIMIZER, CKPT_LOADER, CKPT_SECTION_COUNT };
const char *ckpt_section_name(enum ckpt_section section);
struct ckpt_hashes {
    bool present[CKPT_SECTION_COUNT];
    struct hash128 hash[CKPT_SECTION_COUNT];
};
int ckpt_hash(struct io *io, const char *path, struct ckpt_hashes *ret_hashes,
              const struct log *log, const struct ckpt_watch *watch, struct err *err);

/* Every block of every file of a checkpoint against the manifest, by several threads; headers
 * against the chunks. bad is called, by this thread, with what differs (tensor, offset), by rising
 * file and offset; watch's progress by one thread at a time. Returns how many, or -errno where it
 * could not be read at all (-ESTALE as ckpt_reader_load). */
int ckpt_verify(struct io *io, const char *step_path,
                void (*bad)(void *context, const struct err *detail), void *context,
                const struct ckpt_watch *watch, struct err *err);

struct ckpt_copy_options {
    struct io *from, *to; /* may be one */
    const char *source;   /* a step, or a folder of steps, whose newest whole one is meant */
    const char *folder;   /* of steps; made if absent: the copy is step-N in it */
    bool force;           /* a step of that number gives way, unless somebody reads it */
    const struct log *log;
    const struct ckpt_watch *watch; /* NULL: nobody */
};
struct ckpt_copied {
    uint64_t step, files_count, written_bytes;
    char path[IO_PATH_BYTES_MAX];
};
/* Every block is verified before it is written, and the copy appears whole and durable, or not at
 * all, as a save does. Owns the folder meanwhile (-EBUSY names the owner), and removes what dead
 * owners left in it. -EEXIST without force, -EBADMSG names what is damaged in the source, -EBUSY
 * where what would give way is read, -EINVAL where the folder is a step. Memory: 48 MiB. */
int ckpt_copy(const struct ckpt_copy_options *options, struct ckpt_copied *ret_copied,
              struct err *err);

/* Removes what dead owners left in the folder: temporaries of saves, copies and removals, and no
 * other `.tmp-*`; each is told to `each` (NULL: nobody). Returns how many, -EBUSY naming the owner
 * where one lives, -ENOENT and -EINVAL as ckpt_prune. */
int ckpt_sweep(struct io *io, const char *folder, void (*each)(void *context, const char *name),
               void *context, struct err *err);

#ifdef __cplusplus
}
#endif

#endif
