/*
 * decompressor — reads what a compressed file decompresses to, from its first to its last byte:
 * gzip and zlib by gunzip.h, bzip2, xz, zstd and lz4 by unarchive.h, zips by zip_store.h. Checksums
 * are verified.
 */
#ifndef MILLRACE_CONVERT_ARCHIVE_DECOMPRESSOR_H
#define MILLRACE_CONVERT_ARCHIVE_DECOMPRESSOR_H

#include "convert/archive/file_blocks.h"

enum compression {
    COMPRESSION_NONE,
    COMPRESSION_GZIP,
    COMPRESSION_ZLIB,
    COMPRESSION_OTHER, /* bzip2, xz, zstd or lz4 */
    COMPRESSION_ZIP,   /* reads as a zip with the same members, uncompressed */
};

/* By a file's first bytes. Never COMPRESSION_ZLIB, whose two bytes begin many other files, and
 * never COMPRESSION_ZIP. */
enum compression compression_of(const char *head, size_t bytes);

struct decompressor; /* use from one thread only */
/* blocks: borrowed, at the start of the file. Not COMPRESSION_NONE. -EBADMSG: damaged. */
int decompressor_open(struct file_blocks *blocks, enum compression compression,
                      struct decompressor **ret_decompressor, struct err *err);
void decompressor_close(struct decompressor *decompressor); /* NULL is fine */
/* Reads up to `bytes` bytes; *ret_bytes is 0 only at the end. -EBADMSG: damaged or truncated. */
int decompressor_read(struct decompressor *decompressor, void *data, size_t bytes,
                      size_t *ret_bytes, struct err *err);

#endif
