/*
 * unarchive — the adapter of libarchive: decompresses bzip2, xz, zstd and lz4 files, and reads the
 * members of zip files. (gunzip.h: libarchive does not check the CRC of gzip.)
 */
#ifndef MILLRACE_CONVERT_ARCHIVE_UNARCHIVE_H
#define MILLRACE_CONVERT_ARCHIVE_UNARCHIVE_H

#include "convert/archive/file_blocks.h"

#include <stdbool.h>

enum unarchive_format {
    UNARCHIVE_COMPRESSED, /* the data of a compressed file, as if it were the only member */
    UNARCHIVE_ZIP,
};

struct unarchive_member {
    const char *name; /* UTF-8 if the zip says so; valid until the next call */
    uint64_t bytes;   /* size of its data; UNARCHIVE_COMPRESSED: 0 */
};

struct unarchive; /* use from one thread only */
/* blocks: borrowed. -EBADMSG: not such a file. */
int unarchive_open(struct file_blocks *blocks, enum unarchive_format format,
                   struct unarchive **ret_unarchive, struct err *err);
void unarchive_close(struct unarchive *unarchive); /* NULL is fine */
/* Returns 1 with the next regular file, 0 at the end, or -errno. -ENOTSUP: the member is
 * encrypted, or compressed with an unknown method. -EBADMSG: damaged, or a member's names in a
 * zip's directory and in its local header differ. */
int unarchive_next(struct unarchive *unarchive, struct unarchive_member *ret_member,
                   struct err *err);
/* Reads up to `bytes` bytes of the member; *ret_bytes is 0 only at its end, after its checksum was
 * found to be right. -EBADMSG: the data is damaged or truncated. */
int unarchive_read(struct unarchive *unarchive, void *data, size_t bytes, size_t *ret_bytes,
                   struct err *err);

const char *unarchive_library(char *text); /* as in base/versions.h */

#endif
