/*
 * image_writer — computes the checksums of the snapshot's blocks and writes the blocks to their
 * files, in multiples of 4 KiB, with several writes in progress.
 *
 * Threads: the writer only.
 */
#ifndef MILLRACE_CKPT_SAVE_IMAGE_WRITER_H
#define MILLRACE_CKPT_SAVE_IMAGE_WRITER_H

#include "base/err.h"
#include "base/os/trace.h"
#include "ckpt/save/snapshot.h"
#include "io/io.h"

/* More concurrent writes do not raise throughput. At the limit, the next blocks are staged. */
enum { IMAGE_WRITES_MAX = 32 };

/* Reused by all saves. */
struct image_writer {
    struct snapshot *snapshot;
    struct io *io;
    struct io_queue *queue; /* used by the running thread; NULL from a failure until the next run */
    struct io_request *requests;          /* [buffers_count] */
    uint32_t *block_crc32c;               /* [blocks_count] borrowed */
    const char *file_names[LAYOUT_FILES]; /* borrowed; set after init, for error messages */
    struct trace_track *track;            /* borrowed; may be NULL */
};

/* Borrows snapshot and block_crc32c. */
int image_writer_init(struct image_writer *image, struct snapshot *snapshot, uint32_t *block_crc32c,
                      struct io *io, struct err *err);
void image_writer_deinit(struct image_writer *image);
/* Writes each block to its file in path, and fills block_crc32c. A file without blocks may be NULL.
 * Blocks. On failure all submitted writes and the caller's waits have ended. If waiting on the
 * queue fails, closes it; the next run opens a new one. */
int image_writer_run(struct image_writer *image, struct io_file *const files[LAYOUT_FILES],
                     const char *path, struct err *err);

#endif
