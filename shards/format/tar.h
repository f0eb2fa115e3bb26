/*
 * tar — encodes and scans tar headers: POSIX.1-1988 ustar, POSIX.1-2001 pax, and, when reading,
 * GNU long names. Performs no I/O.
 */
#ifndef MILLRACE_SHARDS_FORMAT_TAR_H
#define MILLRACE_SHARDS_FORMAT_TAR_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { TAR_BLOCK_BYTES = 512, TAR_END_BYTES = 1024, TAR_NAME_BYTES_MAX = 4096 };

/* Appends the header of a regular file with mode 0444, zero uid, gid and mtime, and no user or
 * group name. A pax extended header precedes it if name or size do not fit ustar. name: UTF-8
 * without a leading slash. -ENAMETOOLONG, -ENOMEM. */
int tar_add_header(struct str *out, const char *name, uint64_t size_bytes, struct err *err);

/* TAR_SPARSE: a regular file whose data is not stored verbatim. */
enum tar_kind { TAR_FILE, TAR_SPARSE, TAR_FOLDER, TAR_OTHER, TAR_END };

/* name belongs to the scanner and is valid until the next tar_scan. */
struct tar_member {
    enum tar_kind kind;
    const char *name;
    uint64_t header_offset; /* offset of the first header, which may be an extended one */
    uint64_t data_offset;
    uint64_t size_bytes;
};

/* Use from one thread only. */
struct tar_scanner {
    /* Reads exactly `bytes`. Returns 0, -ENODATA at the end of the file, or another -errno. */
    int (*read)(void *context, uint64_t offset, void *data, size_t bytes);
    void *context;
    const char *path;
    uint64_t offset; /* offset of the next header */
    uint64_t file_bytes;
    struct str name, pending_name, global_name; /* initially zero */
    /* The last call failed because the file was truncated within the data of the regular file
     * `name`. Everything before that member is intact. */
    bool is_truncated;
};

/* Returns the next member. kind is TAR_END at the first of two zero blocks or at the end of the
 * file; data_offset is then the end of the archive. -EBADMSG with the offset: bad checksum, bad
 * number, truncated member. */
int tar_scan(struct tar_scanner *scanner, struct tar_member *ret_member, struct err *err);
void tar_scanner_deinit(struct tar_scanner *scanner);

#endif
