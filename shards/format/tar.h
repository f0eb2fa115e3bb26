/*
 * tar — headers of tar archives (POSIX.1-1988 ustar, POSIX.1-2001 pax; GNU long names when
 * reading).
 *
 * Pure functions over bytes; other files do the I/O.
 */
#ifndef MILLRACE_SHARDS_FORMAT_TAR_H
#define MILLRACE_SHARDS_FORMAT_TAR_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { TAR_BLOCK_BYTES = 512, TAR_END_BYTES = 1024, TAR_NAME_BYTES_MAX = 4096 };

/* Appends the header of a regular file: mode 0444, uid, gid, mtime 0, no user or group name. Uses
 * ustar if name and size fit, else a pax extended header before it. name: UTF-8, no leading slash.
 * -ENAMETOOLONG, -ENOMEM. */
int tar_add_header(struct str *out, const char *name, uint64_t size_bytes, struct err *err);

/* TAR_SPARSE: a regular file whose data is not stored verbatim. */
enum tar_kind { TAR_FILE, TAR_SPARSE, TAR_FOLDER, TAR_OTHER, TAR_END };

/* One member. name belongs to the scanner and is valid until its next call. */
struct tar_member {
    enum tar_kind kind;
    const char *name;
    uint64_t header_offset; /* of its first header, including extended ones */
    uint64_t data_offset;
    uint64_t size_bytes;
};

/* Walks an archive's headers; the caller supplies the read function. Owner thread. */
struct tar_scanner {
    /* Reads exactly `bytes` at offset; 0, -ENODATA at the end of the file, or another -errno. */
    int (*read)(void *context, uint64_t offset, void *data, size_t bytes);
    void *context;
    const char *path; /* for messages */
    uint64_t offset;  /* of the next header */
    uint64_t file_bytes;
    struct str name, pending_name, global_name; /* zero at first */
    /* The last call failed because the data of the regular file `name` extends beyond the end;
     * everything before it is intact. */
    bool is_truncated;
};

/* Returns the next member, or kind TAR_END at the first of two zero blocks or at a clean end of the
 * file (data_offset is then the archive's end). -EBADMSG with the offset: bad checksum, bad number,
 * truncated member. */
int tar_scan(struct tar_scanner *scanner, struct tar_member *ret_member, struct err *err);
void tar_scanner_deinit(struct tar_scanner *scanner);

#endif
