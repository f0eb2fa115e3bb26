/*
 * npz — see npz.h. An .npz file is a zip of .npy files.
 */
#include "convert/source/npz.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "convert/archive/zip_directory.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct npz {
    struct io *io;
    struct io_queue *queue;
    const struct listed_file *file;
    const char *path;
};

static int read_range(void *context, uint64_t offset, uint64_t bytes, struct str *out,
                      struct err *err)
{
    const struct npz *npz = context;
    return listed_file_read(npz->file, npz->io, npz->queue, npz->path, offset, bytes, out, err);
}

static int reject_member(const struct zip_file *zip, const struct zip_entry *entry, int code,
                         const char *what, struct err *err)
{
    err_set(err, code, "an array in an .npz file is %s", what);
    err_at(err, zip->path, (int64_t)entry->entry_offset);
    err_found(err, "%.*s", (int)(entry->name_bytes < 150 ? entry->name_bytes : 150), entry->name);
    err_advise(err,
               "save it uncompressed: python3 -c \"import numpy; numpy.savez('new.npz', "
               "**numpy.load('%.120s'))\"",
               zip->path);
    return code;
}

static int check_member(const struct zip_file *zip, const struct zip_entry *entry, struct err *err)
{
    if (entry->name_bytes < 5 || entry->name_bytes >= NPZ_NAME_BYTES_MAX ||
        memchr(entry->name, '\0', entry->name_bytes) ||
        memcmp(entry->name + entry->name_bytes - 4, ".npy", 4) != 0) {
        err_set(err, -EBADMSG, "an .npz file has a member that is not an array");
        err_at(err, zip->path, (int64_t)entry->entry_offset);
        err_expected(err, "only members with names such as images.npy");
        return -EBADMSG;
    }
    if (entry->flags & ZIP_FLAG_ENCRYPTED)
        return reject_member(zip, entry, -ENOTSUP, "encrypted", err);
    if (entry->method != ZIP_METHOD_STORED)
        return reject_member(zip, entry, -ENOTSUP, "compressed", err);
    return entry->stored_bytes == entry->bytes
               ? 0
               : reject_member(zip, entry, -EBADMSG, "of unequal sizes", err);
}

static int check_count(const struct zip_file *zip, const struct zip_directory *directory,
                       struct err *err)
{
    if (directory->count <= NPZ_MEMBERS_MAX && directory->data.bytes <= NPZ_DIRECTORY_BYTES_MAX)
        return 0;
    err_set(err, -E2BIG, "an .npz file has too many arrays");
    err_at(err, zip->path, ERR_NO_OFFSET);
    err_expected(err, "at most %d", NPZ_MEMBERS_MAX);
    err_found(err, "%" PRIu64, directory->count);
    return -E2BIG;
}

int npz_list(struct io *io, struct io_queue *queue, const struct listed_file *file,
             const char *path, struct str *members, struct err *err)
{
    struct npz npz = {.io = io, .queue = queue, .file = file, .path = path};
    struct zip_file zip = {.read = read_range, .context = &npz, .path = path, .bytes = file->bytes};
    struct zip_directory directory = {0};
    struct zip_entry entry;
    int status = zip_directory_read(&directory, &zip, err), result = 0;
    if (!status)
        status = check_count(&zip, &directory, err);
    while (!status && (result = zip_directory_next(&directory, &zip, &entry, err)) > 0) {
        struct npz_member member = {.bytes = entry.bytes, .crc32 = entry.crc32};
        status = check_member(&zip, &entry, err);
        if (!status)
            status = zip_find_data(&zip, &entry, &member.offset, err);
        if (status)
            break;
        memcpy(member.name, entry.name, entry.name_bytes - 4);
        str_add(members, &member, sizeof member);
    }
    if (!status)
        status = result;
    if (!status && str_status(members))
        status = err_set(err, -ENOMEM, "out of memory for an .npz file");
    zip_directory_deinit(&directory);
    return status;
}

int npz_check(struct io *io, struct io_queue *queue, const struct listed_file *file,
              const char *path, const struct npz_member *member, const atomic_int *stop,
              struct err *err)
{
    enum { BLOCK_BYTES = 4 << 20 };
    struct str block = {0};
    uint32_t crc = 0;
    int status = 0;
    for (uint64_t at = 0; at < member->bytes && !status; at += block.bytes) {
        if (stop && atomic_load(stop)) {
            status = err_set(err, -EINTR, "stopped while arrays were checked");
            break;
        }
        str_clear(&block);
        status = listed_file_read(file, io, queue, path, member->offset + at,
                                  bytes_min(member->bytes - at, BLOCK_BYTES), &block, err);
        if (!status)
            crc = crc32_zip(crc, block.data, block.bytes);
    }
    str_deinit(&block);
    if (status || crc == member->crc32)
        return status;
    err_set(err, -EBADMSG, "array \"%.100s\" is damaged", member->name);
    err_at(err, path, (int64_t)member->offset);
    err_expected(err, "CRC-32 %08" PRIx32, member->crc32);
    err_found(err, "%08" PRIx32, crc);
    err_advise(err, "write or copy the file again");
    return -EBADMSG;
}
