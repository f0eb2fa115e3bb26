/*
 * reader — internals of ckpt.h's readers. They also read a plain safetensors file as a step.
 */
#ifndef MILLRACE_CKPT_LOAD_READER_H
#define MILLRACE_CKPT_LOAD_READER_H

#include "ckpt/ckpt.h"
#include "ckpt/format/manifest.h"
#include "ckpt/load/blocks.h"

struct ckpt_reader {
    struct io *io;
    char path[IO_PATH_BYTES_MAX];
    struct manifest manifest;
    bool is_file;
    bool is_clone; /* the manifest belongs to another reader */
    struct blocks *blocks;
    struct io_shared_lock *lock; /* on the step's manifest; prevents removal */
};

/* Takes a shared lock to prevent removal of the step. -ENOENT also if a removal is in progress.
 * *ret_lock is NULL if the file system has no locks. Release it with io_unlock_shared. */
int reader_lock(struct io *io, const char *step_path, struct io_shared_lock **ret_lock,
                struct err *err);

/* Finds a step (ckpt_find_with) and locks it; searches again if the step is removed in between.
 * -EAGAIN if one step after another is removed. options: NULL: any step. log: as in ckpt_find. */
int reader_find(struct io *io, const char *path_or_folder, const struct ckpt_find_options *options,
                char step_path[IO_PATH_BYTES_MAX], struct io_shared_lock **ret_lock,
                const struct log *log, struct err *err);

/* Like ckpt_reader_open. Takes ownership of the lock, even on failure. */
int reader_open_locked(struct io *io, const char *step_path, struct io_shared_lock *lock,
                       struct ckpt_reader **ret_reader, struct err *err);

/* path: a step, a folder of steps, or one safetensors file: step 0, no state, and only its header
 * is verified. log: as in ckpt_find. */
int reader_open_path(struct io *io, const char *path, struct ckpt_reader **ret_reader,
                     const struct log *log, struct err *err);
/* Opens a reader of the same step for another thread. Borrows from the first reader; its lock
 * protects both. ahead: as in struct blocks_options. */
int reader_clone(const struct ckpt_reader *reader, unsigned ahead, struct ckpt_reader **ret_reader,
                 struct err *err);

/* Returns state.loader; NULL: none. */
struct json_t *reader_loader_state(const struct ckpt_reader *reader);

#endif
