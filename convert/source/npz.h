/*
 * npz — lists and checks the arrays in an .npz file of NumPy: a ZIP archive (PKWARE's APPNOTE.TXT
 * 6.3) whose members are .npy files. Only uncompressed members can be read at any row.
 */
#ifndef MILLRACE_CONVERT_SOURCE_NPZ_H
#define MILLRACE_CONVERT_SOURCE_NPZ_H

#include "base/str.h"
#include "convert/source/file_list.h"

#include <stdatomic.h>

enum {
    NPZ_NAME_BYTES_MAX = 256,
    NPZ_MEMBERS_MAX = 1024,
    NPZ_DIRECTORY_BYTES_MAX = 1 << 20,
};

struct npz_member {
    char name[NPZ_NAME_BYTES_MAX]; /* without .npy */
    uint64_t offset, bytes;        /* of the .npy file within the archive */
    uint32_t crc32;
};

/* Appends struct npz_member in the archive's order. file: as listed. -ENOTSUP: a member is
 * compressed or encrypted; -EBADMSG: not an archive, damaged, or members that are not arrays;
 * -ESTALE: the file has changed. Blocks. */
int npz_list(struct io *io, struct io_queue *queue, const struct listed_file *file,
             const char *path, struct str *members, struct err *err);

/* Reads all of a member and checks its CRC. stop: as in struct convert_options. -EBADMSG: it is
 * damaged; -EINTR. Blocks. */
int npz_check(struct io *io, struct io_queue *queue, const struct listed_file *file,
              const char *path, const struct npz_member *member, const atomic_int *stop,
              struct err *err);

#endif
