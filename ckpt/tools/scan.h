/*
 * scan — finds the bad blocks of a step with several threads.
 *
 * Threads take runs of neighboring blocks, each with its own read-ahead (blocks.h): at most
 * SCAN_THREADS_MAX * BLOCKS_AHEAD blocks of memory. Processes can share the work: each takes every
 * count-th run. A caller that needs the error for a block reads the block again.
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

/* One of `count` shares that together cover all blocks; number < count. */
struct scan_share {
    uint32_t number, count;
};

struct scan_options {
    struct io *io;
    const char *path;
    const struct manifest *manifest;
    struct scan_share share;
    const bool *skipped;               /* [files] not to be read */
    const uint64_t *first;             /* [files] index of the file's first block in is_bad */
    uint64_t bytes;                    /* approximate size of the share */
    const struct ckpt_progress *watch; /* called by one thread at a time; may be NULL */
};

/* Whether a block belongs to a share. The answer is the same in all processes. */
static inline bool scan_is_mine(const struct scan_share *share, uint32_t file, uint64_t block)
{
    return (file + block / SCAN_RUN_BLOCKS) % share->count == share->number;
}

/* Blocks. Sets is_bad[first[file] + block] for blocks that cannot be read or differ. Returns their
 * number, or -errno if the scan could not continue. */
int64_t scan_blocks(const struct scan_options *options, bool *is_bad, struct err *err);

#endif
