/*
 * blocks — reads blocks of a checkpoint's files ahead of use, in the requested order, and verifies
 * them.
 *
 * `next_request` runs up to `ahead` blocks before `take_block`, which receives each block with its
 * status. A block may be read straight into its destination. Memory: `ahead` blocks. Keeps the last
 * block for a walk that begins where the previous walk ended.
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

enum { BLOCKS_AHEAD_MAX = 32, BLOCKS_FILES_OPEN_MAX = 64 };

struct block_request {
    uint32_t file;
    uint64_t block;
    void *destination; /* preferred destination; NULL: the reader's own buffer */
};

/* data is valid during the call, and undefined on failure. status: 0, or with detail -EBADMSG
 * (checksum), -ENODATA, -EIO, ..., -ESTALE (folder_classify_failure). */
struct block_result {
    uint32_t file;
    uint64_t block;
    const char *data;
    size_t bytes;
    int status;
    const struct err *detail;
};

struct blocks_visitor {
    /* files must ascend; false: no more requests */
    bool (*next_request)(void *context, struct block_request *ret_request);
    /* a non-zero result ends the walk and is returned */
    int (*take_block)(void *context, const struct block_result *result);
    void *context;
};

struct blocks;

/* path: the step's folder, or the file itself if is_file. Files without checksums are not verified.
 * Borrows manifest and path. */
struct blocks_options {
    struct io *io;
    const char *path;
    bool is_file;
    const struct manifest *manifest;
    unsigned ahead; /* at most BLOCKS_AHEAD_MAX; 0: BLOCKS_AHEAD_MAX */
};
int blocks_open(const struct blocks_options *options, struct blocks **ret_blocks, struct err *err);
void blocks_close(struct blocks *blocks); /* NULL is fine */
int blocks_walk(struct blocks *blocks, const struct blocks_visitor *visitor);

#endif
