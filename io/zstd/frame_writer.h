/*
 * frame_writer — writes content in zstd's seekable format (seek_table.h), compressing several
 * frames at a time. The bytes do not depend on the number of threads.
 *
 *     frame_writer_open(&options, &writer, err);
 *     frame_writer_add(writer, data, bytes, err);   // any number of times
 *     frame_writer_end_record(writer, err);         // a frame may end here
 *     frame_writer_finish(writer, tail, tail_bytes, err);
 *     frame_writer_close(writer);
 */
#ifndef MILLRACE_IO_ZSTD_FRAME_WRITER_H
#define MILLRACE_IO_ZSTD_FRAME_WRITER_H

#include "base/err.h"

#include <stddef.h>

enum {
    FRAME_WRITER_LEVEL_MAX = 22,
    /* A frame ends with the record that fills it: large enough to compress well, small enough to
     * decompress for one record. */
    FRAME_WRITER_FRAME_BYTES = 256 << 10,
    /* A record beyond this is cut into several frames. */
    FRAME_WRITER_FRAME_BYTES_MAX = 1 << 20,
};

struct frame_writer_options {
    int level;        /* 1..FRAME_WRITER_LEVEL_MAX */
    unsigned threads; /* 0: one per usable CPU */
    /* Called with the bytes of the file, in order, by the thread that uses the writer. */
    int (*write)(void *context, const void *data, size_t bytes, struct err *err);
    void *context;
};

struct frame_writer; /* use from one thread only */
int frame_writer_open(const struct frame_writer_options *options, struct frame_writer **ret_writer,
                      struct err *err);
void frame_writer_close(struct frame_writer *writer); /* NULL is fine */
/* Errors of options->write; -ENOMEM. data: NULL adds zeros. */
int frame_writer_add(struct frame_writer *writer, const void *data, size_t bytes, struct err *err);
int frame_writer_end_record(struct frame_writer *writer, struct err *err);
/* Ends a frame here, unless it would be empty. */
int frame_writer_end_frame(struct frame_writer *writer, struct err *err);
/* Writes the remaining frames, the tail, if any, and the seek table. */
int frame_writer_finish(struct frame_writer *writer, const void *tail, size_t tail_bytes,
                        struct err *err);
/* The version of the library that compresses; another one may give other bytes. */
unsigned frame_writer_version(void);
const char *frame_writer_library(char *text); /* as in base/versions.h */

#endif
