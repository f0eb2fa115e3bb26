/*
 * file_blocks — reads a file in order, block by block, for decoders that take their input in
 * pieces.
 */
#ifndef MILLRACE_CONVERT_ARCHIVE_FILE_BLOCKS_H
#define MILLRACE_CONVERT_ARCHIVE_FILE_BLOCKS_H

#include "io/io.h"

enum {
    FILE_BLOCK_BYTES = 256 << 10,
    FILE_BLOCK_MARGIN_BYTES = 64, /* writable bytes before each block, for a decoder */
};

/* Use from one thread only. Zero-initialize. */
struct file_blocks {
    struct io *io;
    struct io_file *file;
    struct io_queue *queue;
    char path[IO_PATH_BYTES_MAX];
    uint64_t bytes;  /* size of the file */
    uint64_t offset; /* of the next block; a decoder may set it */
    uint8_t *block;
};

int file_blocks_open(struct file_blocks *blocks, struct io *io, const char *path, struct err *err);
void file_blocks_close(struct file_blocks *blocks); /* may be zeroed */
/* Reads the next block. *ret_bytes is 0 at the end. The block is valid until the next call. */
int file_blocks_next(struct file_blocks *blocks, uint8_t **ret_data, size_t *ret_bytes,
                     struct err *err);

#endif
