/*
 * frame_reader — reads parts of the content of files in zstd's seekable format.
 */
#ifndef MILLRACE_IO_ZSTD_FRAME_READER_H
#define MILLRACE_IO_ZSTD_FRAME_READER_H

#include "io/io.h"
#include "io/zstd/seek_table.h"

#include <zstd.h>

/* Immutable. */
struct frames_file {
    struct io_file *file; /* of the frame reader's backend */
    struct seek_table table;
    uint64_t number; /* from 1; differs between all files that a reader reads */
};

/* Use from one thread only. Zero-initialize, except io. Keeps the last frame of which a part was
 * read. */
struct frame_reader {
    struct io *io; /* borrowed */
    struct io_queue *queue;
    ZSTD_DCtx *context;
    uint8_t *stored; /* STORED_BYTES or more */
    size_t stored_capacity;
    uint8_t *frame; /* the content of the kept frame */
    size_t frame_capacity;
    uint64_t kept_number; /* of a file; 0: none */
    uint32_t kept_frame;
};

/* Reads like IO_READ: fewer bytes only at the end of the content. Returns their number or -errno;
 * -EBADMSG: a frame is damaged, or the file was truncated. Blocks. */
ssize_t frame_reader_read(struct frame_reader *reader, const struct frames_file *file,
                          uint64_t offset, void *data, size_t bytes);
/* Reads the file as it is stored. */
ssize_t frame_reader_read_stored(struct frame_reader *reader, const struct frames_file *file,
                                 uint64_t offset, void *data, size_t bytes);
void frame_reader_deinit(struct frame_reader *reader);

#endif
