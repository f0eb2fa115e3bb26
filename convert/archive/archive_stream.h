/*
 * archive_stream — reads a tar, compressed or not, or a zip, from its first to its last byte.
 *
 *     archive_stream_open(io, path, &stream, err);
 *     while ((result = archive_stream_next(stream, &member, err)) == 1)   // names and sizes
 *         ...
 *     archive_stream_open(io, path, &stream, err);
 *     archive_stream_read(stream, offset, data, bytes, err);   // a second pass, in order
 *
 * Offsets count decompressed bytes. A tar's are those of the tar. A zip's are those of an imaginary
 * file that holds the data of all its members, each from a multiple of 512 on. Compressed data
 * before an offset is decompressed to reach it, except that of zip members.
 */
#ifndef MILLRACE_CONVERT_ARCHIVE_ARCHIVE_STREAM_H
#define MILLRACE_CONVERT_ARCHIVE_ARCHIVE_STREAM_H

#include "io/io.h"

#include <stdbool.h>

/* Whether a file begins like a gzip, bzip2, xz, zstd, lz4 or zip file. */
bool archive_is_compressed(const char *head, size_t bytes);

struct archive_member {
    const char *name; /* valid until the next call */
    uint64_t header_offset, data_offset, bytes;
};

struct archive_stream; /* use from one thread only */
/* -EBADMSG: the file begins like a zip but is none. */
int archive_stream_open(struct io *io, const char *path, struct archive_stream **ret_stream,
                        struct err *err);
void archive_stream_close(struct archive_stream *stream); /* NULL is fine */
int archive_stream_identity(const struct archive_stream *stream, struct io_identity *ret_identity,
                            struct err *err);
uint64_t archive_stream_file_bytes(const struct archive_stream *stream);
/* Bytes of the file that were read so far, for progress. */
uint64_t archive_stream_bytes_done(const struct archive_stream *stream);

/* Returns 1 with the next regular file, 0 at the end, or -errno. Checks that its data is complete,
 * and at the end all checksums of a compressed tar. Sparse files of a tar are left out. -EBADMSG:
 * damaged, truncated or not a tar; -ENOTSUP: a zip member is encrypted. Blocks. */
int archive_stream_next(struct archive_stream *stream, struct archive_member *ret_member,
                        struct err *err);
/* The offset must not lie before the end of the last read. At the end of a zip member, checks its
 * checksum. -EBADMSG: damaged or truncated; -ENODATA: the stream ends before. Blocks. */
int archive_stream_read(struct archive_stream *stream, uint64_t offset, void *data, size_t bytes,
                        struct err *err);

#endif
