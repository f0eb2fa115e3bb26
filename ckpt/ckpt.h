/*
 * ckpt — saves named arrays while their owner keeps computing, and loads them in any layout.
 *
 *     ckpt_saver_open(&options, tensors, tensors_count, &saver, err);
 *     for (step = ...) {
 *         forward, backward
 *         for each group g:
 *             ckpt_saver_before_update(saver, g);
 *             update the arrays of g
 *         if (step is due) ckpt_saver_save(saver, step, state_json, err);   // returns at once
 *     }
 *     ckpt_saver_wait(saver, err);
 *     ckpt_saver_close(saver);
 *
 *     ckpt_find(io, "runs/a/ckpt", path, &step, log, err);
 *     ckpt_reader_open(io, path, &reader, err);
 *     ckpt_reader_load(reader, tensors, tensors_count, NULL, err); // any boxes, verified
 *     ckpt_reader_close(reader);
 *
 * The snapshot is **copy before update**. Arrays change only between before_update and the end of
 * the update. The writer thread reads them in place; before_update copies to staging only what the
 * writer has not reached, and waits while staging is full. Copies from a device are queued: the
 * update waits for them, the caller does not. Arrays in the device's pinned memory are copied by
 * the calling thread itself. All queued writes to device arrays must finish before ckpt_saver_save.
 *
 * Every listed step is complete (docs/reference/checkpoints.md). A failure on any rank fails the
 * save on all ranks and leaves earlier checkpoints unchanged. If only the last fsync of the folder
 * fails, a complete step may exist although the save failed (io.h, commit).
 *
 * An open reader protects its step from retention and ckpt_prune, on some file systems even on
 * other hosts.
 *
 * Names beginning with "optimizer." belong to the section `optimizer`, all others to `model`.
 *
 * Threads: call a saver from one thread only, except for ckpt_saver_stats, which any thread may
 * call. A saver runs one writer thread. Use a reader from one thread only.
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
#define CKPT_FOLDER_NAME      "ckpt" /* relative to the run's folder */

/* This rank's part of an array: the box start..start+extent, row-major and dense. */
struct ckpt_tensor {
    const char *name; /* borrowed by the saver or call */
    enum dtype dtype;
    uint32_t rank;                  /* dimensions; 0 for a scalar */
    uint64_t shape[DTYPE_RANK_MAX]; /* global */
    uint64_t start[DTYPE_RANK_MAX], extent[DTYPE_RANK_MAX];
    /* All ranks hold the whole array. Each rank stores some of its rows. */
    bool replicated;
    uint32_t group; /* saves: index of the update that changes it, 0..groups_count-1 */
    /* Loads: convert values from a different floating-point dtype, rounding once, to nearest even
     * (cast.h). If false, a different dtype is an error. */
    bool cast;
    void *data; /* on the saver's device */
};

enum ckpt_metric_mode { CKPT_MODE_MIN, CKPT_MODE_MAX };
/* The files of a step (docs/reference/checkpoints.md). Readers accept both layouts. */
enum ckpt_layout {
    CKPT_SHARDED, /* one file per rank */
    /* All ranks write the model to one file, `model.safetensors`. Unless an array is replicated,
     * each rank's part of it must be contiguous. */
    CKPT_CONSOLIDATED,
};
enum { CKPT_METRIC_BYTES_MAX = 64, CKPT_NODE_BYTES_MAX = 256 };

/* The newest step, steps with an open reader, and steps that match a rule are kept. */
struct ckpt_keep_rules {
    uint32_t last;  /* number of newest steps; 0: all steps */
    uint64_t every; /* keeps steps that are multiples; 0: no rule */
    struct {
        /* A key of the state's `metrics`, such as "val_loss"; NULL: no rule. Steps without it are
         * never among the best. */
        const char *metric;
        enum ckpt_metric_mode mode;
        uint32_t count;
    } best;
};

/* Immutable after open. Strings are copied. */
struct ckpt_saver_options {
    const char *folder; /* holds step-00001000/, ...; created if absent */
    struct io *io;
    /* NULL: one rank. The saver splits off its own communicator, whose calls have no deadline,
     * since writes may be slow. */
    struct comm *comm;
    /* Each node has its own `folder`, which holds its ranks' files and a copy of all replicated
     * arrays. Cannot be combined with CKPT_CONSOLIDATED. */
    bool per_node;
    /* Name of this rank's node, shorter than CKPT_NODE_BYTES_MAX; NULL: the host's name and boot
     * ID. */
    const char *node;
    struct device *device; /* NULL: host memory */
    /* The stream that runs the caller's updates; before_update makes it wait for copies in
     * progress. Borrowed. NULL: before_update blocks until they are done. */
    struct device_stream *updates;
    enum ckpt_layout layout;
    uint32_t groups_count;
    uint64_t staging_bytes; /* at least 4 MiB; 0: 64 MiB */
    struct ckpt_keep_rules keep;
    struct io_lock_options lock; /* for locking the folder */
    const char *run_id;          /* identifies the owner of temporary files */
    const char *numerics_id;
    const struct log *log;
    struct trace *trace; /* must outlive the saver; may be NULL */
};

struct ckpt_saver;

/* Locks the folder, removes leftovers of dead owners, plans the files and allocates all memory.
 * Collective. All ranks pass the same replicated arrays in the same order; their boxes of every
 * other array must cover it. Borrows tensors and names during the call, and the arrays' data for
 * the saver's lifetime. -EBUSY names the folder's owner, -EINVAL an invalid array, -ENOTSUP a part
 * that is not contiguous (CKPT_CONSOLIDATED). */
int ckpt_saver_open(const struct ckpt_saver_options *options, const struct ckpt_tensor *tensors,
                    uint64_t tensors_count, struct ckpt_saver **ret_saver, struct err *err);
/* Waits for a save in progress. Discards its error: call ckpt_saver_wait first to get it. NULL is
 * fine. */
void ckpt_saver_close(struct ckpt_saver *saver);

/* Begins a save of the arrays' present contents. state_json: an object; copied. Blocks only for a
 * previous save; if that failed, returns its error and begins the new save anyway. Rejects a step
 * above 2^63 and a state that is not an object or is nested more than 63 levels deep; the save then
 * also fails on the other ranks; their next call returns the error. */
int ckpt_saver_save(struct ckpt_saver *saver, uint64_t step, const char *state_json,
                    struct err *err);
/* Call before an update of the group's arrays begins or is queued on the updates stream, but not
 * while that stream is being captured. Cheap when no save is in progress; blocks while staging is
 * full. */
void ckpt_saver_before_update(struct ckpt_saver *saver, uint32_t group);
/* Blocks until the save in progress is durable or has failed. Returns the status of each save once,
 * and 0 if there is none to return. */
int ckpt_saver_wait(struct ckpt_saver *saver, struct err *err);
bool ckpt_saver_is_busy(struct ckpt_saver *saver);

struct ckpt_saver_stats {
    uint64_t saves_count, failures_count;
    uint64_t written_bytes;
    uint64_t blocked_ns;         /* time that save, before_update and wait blocked */
    uint64_t copied_bytes;       /* staged by the caller before updates */
    uint64_t ahead_bytes;        /* staged by the writer while the disk was busy */
    uint64_t buffer_waits_count; /* blocks for which before_update waited for staging */
    uint64_t last_save_ns;       /* from ckpt_saver_save until durable or failed */
    uint64_t last_step;          /* step of the newest durable save; UINT64_MAX: none */
};
struct ckpt_saver_stats ckpt_saver_stats(struct ckpt_saver *saver);

/* Gets `metrics.NAME` from a step's state. If the metrics also contain the measurement's step, it
 * must equal `step`. Its key is NAME up to the first `_`, then `_step`: `val_step` for `val_loss`.
 * False: unknown. */
bool ckpt_get_metric(const struct json_t *state, const char *name, uint64_t step,
                     double *ret_metric);
/* Smaller is better for `loss` and `..._loss`, larger for `accuracy` and `..._accuracy`. False:
 * unknown. */
bool ckpt_guess_metric_mode(const char *name, enum ckpt_metric_mode *ret_mode);

/* Why a step is kept; a bit mask. */
enum ckpt_keep_reason {
    CKPT_KEPT_LAST = 1 << 0, /* among the newest */
    CKPT_KEPT_EVERY = 1 << 1,
    CKPT_KEPT_BEST = 1 << 2,
    CKPT_KEPT_SAVED = 1 << 3,      /* just saved */
    CKPT_KEPT_READ = 1 << 4,       /* has an open reader; a later prune may remove the step */
    CKPT_KEPT_INCOMPLETE = 1 << 5, /* rules apply only to complete steps */
};

struct ckpt_verdict {
    uint64_t step;
    const char *path;
    uint64_t size_bytes;
    unsigned reasons; /* bits of enum ckpt_keep_reason; 0: removed */
    int status;       /* of the removal; failures are also logged */
};

struct ckpt_prune_options {
    struct ckpt_keep_rules keep; /* borrowed */
    bool dry_run;
    /* Called for each step in ascending order. May be NULL. */
    void (*verdict)(void *context, const struct ckpt_verdict *verdict);
    void *context;
    const struct log *log;
};
/* Removes the complete steps that no rule keeps, and their backups. Keeps steps with an open
 * reader. Locks the folder (-EBUSY names the owner) except for a dry run. Logs failed removals,
 * continues, and returns the first failure. -ENOENT: the folder has no step and never had an owner.
 * -EINVAL: the folder is itself a step. */
int ckpt_prune(struct io *io, const char *folder, const struct ckpt_prune_options *options,
               struct err *err);

/* A complete checkpoint in a folder. */
struct ckpt_entry {
    uint64_t step;
    const char *path;
    uint64_t size_bytes;
    uint64_t wall_ns;
    struct json_t *state;
};
/* Calls entry for each complete checkpoint of a folder, in ascending order. Logs and skips
 * incomplete ones. Stops at the callback's first non-zero result and returns it. -ENOENT: the
 * folder does not exist. */
int ckpt_list(struct io *io, const char *folder,
              int (*entry)(void *context, const struct ckpt_entry *entry), void *context,
              const struct log *log, struct err *err);
/* Like ckpt_list, but includes incomplete steps and reads no manifest. */
int ckpt_for_each_step(struct io *io, const char *folder,
                       int (*each)(void *context, uint64_t step, const char *path), void *context,
                       struct err *err);
/* Finds a step, or the newest complete step in a folder. path holds IO_PATH_BYTES_MAX bytes. Logs
 * (LOG_WARN) and skips damaged steps: their manifest or files are missing, truncated or malformed.
 * -ENOENT: there is no step. -EBADMSG: all are damaged; the detail describes the newest. Returns
 * I/O errors (-EIO, -EACCES, ...) unchanged: a readable older step may not be the newest. */
int ckpt_find(struct io *io, const char *path_or_folder, char *path, uint64_t *ret_step,
              const struct log *log, struct err *err);

struct ckpt_find_options {
    uint64_t below;      /* only earlier steps; UINT64_MAX: all */
    bool stop_at_damage; /* fail at a damaged step instead of skipping it */
};
/* Like ckpt_find; options apply unless path_or_folder is itself a step. */
int ckpt_find_with(struct io *io, const char *path_or_folder,
                   const struct ckpt_find_options *options, char *path, uint64_t *ret_step,
                   const struct log *log, struct err *err);

/* Maps a run's folder (run.dir) to its checkpoint folder; copies other paths. ret_path holds
 * IO_PATH_BYTES_MAX bytes. Fails only if the path is too long. */
int ckpt_resolve_folder(struct io *io, const char *path, char *ret_path, struct err *err);

struct ckpt_reader;
int ckpt_reader_open(struct io *io, const char *step_path, struct ckpt_reader **ret_reader,
                     struct err *err);
void ckpt_reader_close(struct ckpt_reader *reader); /* NULL is fine */
/* Results are borrowed from the reader. */
const char *ckpt_reader_path(const struct ckpt_reader *reader);
uint64_t ckpt_reader_step(const struct ckpt_reader *reader);
const char *ckpt_reader_numerics_id(const struct ckpt_reader *reader);
const struct json_t *ckpt_reader_state(const struct ckpt_reader *reader);
const struct manifest *ckpt_reader_manifest(const struct ckpt_reader *reader);
/* Fills the wanted boxes. Name, global shape and (without cast) dtype must match the saved ones.
 * Reads only the blocks needed, in ascending order, and verifies each. data is in host memory if
 * device is NULL (blocks are then read in place where possible), else in the device's memory. On
 * failure the arrays' contents are unspecified.
 *   -ENOENT    names a missing tensor, or a file on another node
 *   -EBADMSG   names a block whose CRC differs, with tensor, file and offset
 *   -EINVAL    names a tensor whose dtype or shape differs, with both values
 *   -ESTALE    the step was replaced or removed since the reader was opened; open it again */
int ckpt_reader_load(struct ckpt_reader *reader, const struct ckpt_tensor *wanted,
                     uint64_t wanted_count, struct device *device, struct err *err);

/* Each rank has its own reader. If a rank finds damage, all return -EBADMSG with the detail of the
 * first such rank ("rank 2: ..."), and can fall back to the same older step. If a rank fails for
 * another reason, it returns its own status and the others return -EREMOTEIO with its detail; no
 * rank returns -EBADMSG. */

/* Finds (as ckpt_find_with) and opens the newest step that is complete and from the same save on
 * every rank. If nodes have their own folders (per_node), a crash may leave a step on only some of
 * them. -ENOENT: no rank has a step. -ESTALE: there are steps, but none that all ranks have. If
 * ranks have identical warnings, only the first such rank logs them. */
int ckpt_reader_open_collective(struct io *io, const char *path_or_folder,
                                const struct ckpt_find_options *options, struct comm *comm,
                                struct ckpt_reader **ret_reader, const struct log *log,
                                struct err *err);
/* Like ckpt_reader_open_collective, but opens no reader, so the step is not protected. */
int ckpt_find_collective(struct io *io, const char *path_or_folder,
                         const struct ckpt_find_options *options, struct comm *comm, char *path,
                         uint64_t *ret_step, const struct log *log, struct err *err);
/* Like ckpt_reader_load. On failure the contents of all ranks' arrays are unspecified. */
int ckpt_reader_load_collective(struct ckpt_reader *reader, struct comm *comm,
                                const struct ckpt_tensor *wanted, uint64_t wanted_count,
                                struct device *device, struct err *err);

/* Progress of a long read. `report` and pointers to this struct may be NULL. */
struct ckpt_progress {
    void (*report)(void *context, uint64_t bytes_done, uint64_t bytes);
    void *context;
};

/* Model and optimizer: xxh3-128 over the tensors sorted by name, each as name length u32, name,
 * dtype name length u32, dtype name, rank u32, dimensions u64, bytes. Loader: xxh3-128 over the
 * entries of state.loader sorted by key, each as key length u32, key, JSON length u32, compact JSON
 * with keys sorted at every depth. A section without tensors is absent. Step, time, path, files,
 * ranks and layout do not affect the hashes. path: a step, a folder of steps, or a safetensors
 * file. log: as in ckpt_find. */
enum ckpt_section { CKPT_MODEL, CKPT_OPTIMIZER, CKPT_LOADER, CKPT_SECTION_COUNT };
const char *ckpt_section_name(enum ckpt_section section);
struct ckpt_hashes {
    bool present[CKPT_SECTION_COUNT];
    struct hash128 hash[CKPT_SECTION_COUNT];
};
int ckpt_hash(struct io *io, const char *path, struct ckpt_hashes *ret_hashes,
              const struct log *log, const struct ckpt_progress *progress, struct err *err);

/* Verifies all blocks against the manifest, and the files' headers against the manifest's chunks,
 * using several threads. Calls bad from the calling thread for each difference, ordered by file and
 * offset, and progress->report from one thread at a time. Returns the number of differences, or
 * -errno if the checkpoint cannot be read (-ESTALE as in ckpt_reader_load). */
int ckpt_verify(struct io *io, const char *step_path,
                void (*bad)(void *context, const struct err *detail), void *context,
                const struct ckpt_progress *progress, struct err *err);

struct ckpt_copy_options {
    struct io *source_io, *target_io; /* may be the same */
    const char *source_path;          /* a step, or a folder: copies its newest complete step */
    const char *target_folder;        /* created if absent; receives step-N */
    bool force;                       /* replaces an existing step unless it has a reader */
    const struct log *log;
    const struct ckpt_progress *progress; /* may be NULL */
};
struct ckpt_copy_result {
    uint64_t step, files_count, written_bytes;
    char path[IO_PATH_BYTES_MAX];
};
/* Copies a step atomically and durably; verifies each block before writing it. Locks the target
 * folder and removes leftovers of dead owners. Uses 48 MiB of memory. -EEXIST: the step exists
 * (without force). -EBADMSG names the damage in the source. -EBUSY: the folder has another owner,
 * or the step to be replaced has a reader. -EINVAL: target_folder is a step. */
int ckpt_copy(const struct ckpt_copy_options *options, struct ckpt_copy_result *ret_copied,
              struct err *err);

/* Removes temporary files that dead owners left from saves, copies and removals, but no other
 * `.tmp-*`. Calls each (may be NULL) with each removed name. Returns the number removed. -EBUSY
 * names a living owner; returns -ENOENT and -EINVAL like ckpt_prune. */
int ckpt_sweep(struct io *io, const char *folder, void (*each)(void *context, const char *name),
               void *context, struct err *err);

#ifdef __cplusplus
}
#endif

#endif
