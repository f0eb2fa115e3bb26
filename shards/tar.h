/*
 * tar — the headers of a tar archive (POSIX.1-1988 ustar, POSIX.1-2001 pax; GNU long names when
 * reading).
 *
 * Pure functions over bytes; who reads or writes them is another file's matter.
 */
#ifndef MILLRACE_SHARDS_TAR_H
#define MILLRACE_SHARDS_TAR_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { TAR_BLOCK_BYTES = 512, TAR_END_BYTES = 1024, TAR_NAME_BYTES_MAX = 4096 };

/* Appends the header of a regular file: mode 0444, uid, gid, mtime 0, no user or group name; USTAR
 * where name and size fit, a PAX extended header before it where they do not. name: UTF-8, no
 * leading slash. -ENAMETOOLONG, -ENOMEM. */
int tar_add_header(struct str *out, const char *name, uint64_t size_bytes, struct err *err);

/* TAR_SPARSE: a regular file whose data is not what stands in the archive. */
enum tar_kind { TAR_FILE, TAR_SPARSE, TAR_FOLDER, TAR_OTHER, TAR_END };

/* One member. name belongs to the scanner until its next call. */
struct tar_member {
    enum tar_kind kind;
    const char *name;
    uint64_t header_offset; /* of its first header, extended ones included */
    uint64_t data_offset;
    uint64_t size_bytes;
};

/* Walks the headers of an archive through a caller's reader of blocks. Owner thread. */
struct tar_scanner {
    /* Reads exactly bytes at offset; 0, -ENODATA at the end of the file, other -errno. */
    int (*read)(void *context, uint64_t offset, void *data, size_t bytes);
    void *context;
    const char *path; /* for messages */
    uint64_t offset;  /* of the next header */
    uint64_t file_bytes;
    struct str name, pending_name, global_name; /* zero at first */
    /* The last call failed since the data of the regular file `name` goes beyond the end: all
     * before it is whole. */
    bool is_cut;
};

/* The next member; kind TAR_END at the first of two zero blocks or at a clean end of the file
 * (data_offset is then the archive's end). -EBADMSG with the offset for a bad checksum, a bad
 * number, a truncated member. */
int tar_scan(struct tar_scanner *scanner, struct tar_member *ret_member, struct err *err);
void tar_scanner_deinit(struct tar_scanner *scanner);

#endif
