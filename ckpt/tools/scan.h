/*
 * scan — finds the bad blocks of a step with several threads.
 *
 * Threads take runs of neighboring blocks. Each thread has its own read-ahead (blocks.h). Memory:
 * at most SCAN_THREADS_MAX * BLOCKS_AHEAD_MAX blocks. Processes can share the work: each takes
 * every count-th run. A caller that needs a block's error reads the block again.
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

/* number < count; all shares together cover all blocks. */
struct scan_share {
    uint32_t number, count;
};

struct scan_options {
    struct io *io;
    const char *path;
    const struct manifest *manifest;
    struct scan_share share;
    const bool *skipped;                  /* [files] not to be read */
    const uint64_t *first_block;          /* [files] index of the file's first block in is_bad */
    uint64_t bytes;                       /* approximate size of the share */
    const struct ckpt_progress *progress; /* called by one thread at a time; may be NULL */
};

static inline bool scan_share_has(const struct scan_share *share, uint32_t file, uint64_t block)
{
    return (file + block / SCAN_RUN_BLOCKS) % share->count == share->number;
}

/* Blocks. Sets is_bad[first_block[file] + block] for blocks that are unreadable or differ from the
 * manifest. Returns their number, or -errno if the scan could not continue. */
int64_t scan_blocks(const struct scan_options *options, bool *is_bad, struct err *err);

#endif
