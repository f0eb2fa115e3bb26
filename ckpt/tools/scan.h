/*
 * scan — every block of a step's files, read and compared with its checksum by several threads:
 * which of them are bad.
 *
 * The threads take runs of neighbouring blocks in turn, each with its own reads ahead (blocks.h):
 * SCAN_THREADS_MAX * BLOCKS_AHEAD blocks of memory at most. Several processes can share the work:
 * each takes every so manieth run. What is wrong with a block is for who reads the marked ones
 * again, in order.
 */
#ifndef MILLRACE_CKPT_TOOLS_SCAN_H
#define MILLRACE_CKPT_TOOLS_SCAN_H

#include "base/err.h"
#include "ckpt/ckpt.h"
#include "ckpt/format/manifest.h"
#include "io/io.h"

#include <stdbool.h>
#include <stdint.h>

enum { SCAN_THREADS_MAX = 4, SCAN_RUN_BLOCKS = 8 };

/* One of `count` who together read all; number is below count. */
struct scan_share {
    uint32_t number, count;
};

struct scan_options {
    struct io *io;
    const char *path;
    const struct manifest *manifest;
    struct scan_share share;
    const bool *skipped;            /* [files] not to be read */
    const uint64_t *first;          /* [files] where the marks of a file's blocks begin */
    uint64_t bytes;                 /* of the share, about */
    const struct ckpt_watch *watch; /* told by one thread at a time; may be NULL */
};

/* Whether who has that share reads a block, by the manifest alone: all who share agree. */
static inline bool scan_is_mine(const struct scan_share *share, uint32_t file, uint64_t block)
{
    return (file + block / SCAN_RUN_BLOCKS) % share->count == share->number;
}

/* Blocks. is_bad[first[file] + block] is set where a block can't be read or differs; returns how
 * many are, or -errno where it could not go on. */
int64_t scan_blocks(const struct scan_options *options, bool *is_bad, struct err *err);

#endif
