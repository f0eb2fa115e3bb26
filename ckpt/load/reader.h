/*
 * reader — what ckpt.h's readers are made of; also a plain safetensors file read as if it were a
 * step.
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
    bool is_file;     /* path is of one safetensors file */
    bool is_borrower; /* the manifest is another reader's */
    struct blocks *blocks;
    struct io_shared_lock *lock; /* of a step's manifest: retention leaves it alone */
};

/* Against removal, for who reads the step's files. -ENOENT also where it is being removed.
 * *ret_lock is NULL where nothing can be held; to be let go by io_unlock_shared. */
int reader_lock(struct io *io, const char *step_path, struct io_shared_lock **ret_lock,
                struct err *err);

/* What ckpt_find_among finds, held: a step that is removed between the two is looked for again.
 * -ENOENT only where ckpt_find_among says so, -EAGAIN where one after the other goes. choice NULL:
 * any. log: as ckpt_find's. */
int reader_find(struct io *io, const char *path_or_folder, const struct ckpt_choice *choice,
                char step_path[IO_PATH_BYTES_MAX], struct io_shared_lock **ret_lock,
                const struct log *log, struct err *err);

/* As ckpt_reader_open; takes the lock, also where it fails. */
int reader_open_locked(struct io *io, const char *step_path, struct io_shared_lock *lock,
                       struct ckpt_reader **ret_reader, struct err *err);

/* A step, or a folder of steps, or one safetensors file: then nothing can be verified but its
 * header, step is 0 and the state empty. log: as ckpt_find's. */
int reader_open_any(struct io *io, const char *path, struct ckpt_reader **ret_reader,
                    const struct log *log, struct err *err);
/* Another reader of the same for another thread, which borrows from the first (whose lock serves
 * both). ahead: as of struct blocks_options. */
int reader_open_beside(const struct ckpt_reader *reader, unsigned ahead,
                       struct ckpt_reader **ret_reader, struct err *err);

#endif
