/*
 * blocks — blocks of a checkpoint's files, read ahead and verified, handed over in the order in
 * which they are asked for.
 *
 * `next` is asked for blocks up to `ahead` of them ahead of `take`, which gets each with its
 * verdict. A block that is wanted in one piece can be read straight to where it belongs. Memory: so
 * many blocks. The last block stays, so that a walk which begins where the one before ended does
 * not read it again.
 *
 * Threads: one at a time.
 */
#ifndef MILLRACE_CKPT_LOAD_BLOCKS_H
#define MILLRACE_CKPT_LOAD_BLOCKS_H

#include "base/err.h"
#include "ckpt/format/manifest.h"
#include "io/io.h"

#include <stdbool.h>
#include <stdint.h>

enum { BLOCKS_AHEAD = 32, BLOCKS_FILES_OPEN_MAX = 64 };

struct block_want {
    uint32_t file;
    uint64_t block;
    void *direct; /* the block's bytes go there; NULL: to the walk's own memory */
};

/* data lives during the call. status: 0, -EBADMSG (checksum), -ENODATA, -EIO, ..., -ESTALE (another
 * save stands there now: folder_judge_failure) with detail; then data means nothing. */
struct block_got {
    uint32_t file;
    uint64_t block;
    const char *data;
    size_t bytes;
    int status;
    const struct err *detail;
};

struct blocks_visitor {
    bool (*next)(void *context, struct block_want *ret_want); /* files rising; false: no more */
    int (*take)(void *context,
                const struct block_got *got); /* non-zero ends the walk and is returned */
    void *context;
};

struct blocks;

/* path: the step's folder; is_file: the one file itself. Files without checksums (NULL) are read as
 * they are. Borrows manifest and path. */
struct blocks_options {
    struct io *io;
    const char *path;
    bool is_file;
    const struct manifest *manifest;
    unsigned ahead; /* blocks, BLOCKS_AHEAD at most; 0: so many */
};
int blocks_open(const struct blocks_options *options, struct blocks **ret_blocks, struct err *err);
void blocks_close(struct blocks *blocks); /* NULL is fine */
int blocks_walk(struct blocks *blocks, const struct blocks_visitor *visitor);

#endif
