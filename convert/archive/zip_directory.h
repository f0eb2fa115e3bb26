/*
 * zip_directory — reads the central directory of a zip file (PKWARE's APPNOTE.TXT 6.3.10, sections
 * 4.3.12 to 4.3.16), with 64-bit sizes.
 *
 *     local header  30 bytes, name, extra field; then the member's bytes
 *     ...
 *     directory     per member 46 bytes, name, extra field, comment
 *     end record    22 bytes and a comment; before it, in archives above 4 GiB or if the writer
 *                   likes, a 64-bit end record of 56 bytes and a locator of 20 bytes
 */
#ifndef MILLRACE_CONVERT_ARCHIVE_ZIP_DIRECTORY_H
#define MILLRACE_CONVERT_ARCHIVE_ZIP_DIRECTORY_H

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

enum {
    ZIP_DIRECTORY_BYTES_MAX = 1 << 28, /* about two million members */
    ZIP_FLAG_ENCRYPTED = 1,
    ZIP_METHOD_STORED = 0,
};

struct zip_file {
    /* Appends the range to out. The range lies within the file. */
    int (*read)(void *context, uint64_t offset, uint64_t bytes, struct str *out, struct err *err);
    void *context;
    const char *path; /* for messages */
    uint64_t bytes;
};

/* A member as the directory lists it. name is not NUL-terminated, and may hold any bytes. */
struct zip_entry {
    const char *name;
    size_t name_bytes;
    const char *extra; /* the extra field */
    size_t extra_bytes;
    uint64_t offset; /* of the local header */
    uint64_t bytes, stored_bytes;
    uint32_t crc32;
    uint16_t flags, method;
    uint64_t entry_offset; /* for messages */
};

/* The entries in their order. data owns the names. */
struct zip_directory {
    struct str data;
    uint64_t offset, count;
    size_t next; /* offset in data of the next entry */
};

/* Finds and reads the directory. directory: zeroed; deinit it also after a failure. -EBADMSG: not a
 * zip, or damaged. -E2BIG. */
int zip_directory_read(struct zip_directory *directory, const struct zip_file *file,
                       struct err *err);
void zip_directory_deinit(struct zip_directory *directory);
/* Returns 1 with the next entry, 0 after the last, or -EBADMSG. */
int zip_directory_next(struct zip_directory *directory, const struct zip_file *file,
                       struct zip_entry *ret_entry, struct err *err);
/* Finds where the member's data begins, behind its local header. -EBADMSG: it has none there, or
 * its data does not fit into the file. */
int zip_find_data(const struct zip_file *file, const struct zip_entry *entry, uint64_t *ret_offset,
                  struct err *err);

#endif
