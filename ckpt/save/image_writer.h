/*
 * image_writer — the snapshot's blocks into their files: checksums, and writes of 4 KiB multiples
 * of which several are in progress.
 *
 * Threads: the writer's.
 */
#ifndef MILLRACE_CKPT_SAVE_IMAGE_WRITER_H
#define MILLRACE_CKPT_SAVE_IMAGE_WRITER_H

#include "base/err.h"
#include "base/trace.h"
#include "ckpt/save/snapshot.h"
#include "io/io.h"

enum {
    IMAGE_WRITES_MAX = 32
}; /* in progress at a time: more would bring nothing, and while they are the next are staged */

/* What a writer keeps from save to save. */
struct image_writer {
    struct snapshot *snapshot;
    struct io *io;
    struct io_queue *queue; /* of the thread that runs; NULL after it broke, until the next run */
    struct io_request *requests;          /* [buffers_count] */
    uint32_t *block_crc32c;               /* [blocks_count] borrowed */
    const char *file_names[LAYOUT_FILES]; /* borrowed; set after init, to name the one that fails */
    struct trace_track *track;            /* borrowed; NULL: no trace */
};

/* Borrows snapshot and block_crc32c. */
int image_writer_init(struct image_writer *image, struct snapshot *snapshot, uint32_t *block_crc32c,
                      struct io *io, struct err *err);
void image_writer_deinit(struct image_writer *image);
/* Writes all blocks, each to its file (NULL: it has none) below path, and fills block_crc32c.
 * Blocks. On failure everything submitted has ended, and the caller's waiting too; a queue that can
 * no longer wait is closed, and the next run opens another. */
int image_writer_run(struct image_writer *image, struct io_file *const files[LAYOUT_FILES],
                     const char *path, struct err *err);

#endif
