/*
 * npz — see npz.h.
 *
 *     local header  30 bytes, name, extra field; then the member's bytes
 *     ...
 *     directory     per member 46 bytes, name, extra field, comment
 *     end record    22 bytes and a comment; before it, in archives above 4 GiB or if the writer
 *                   likes, a 64-bit end record of 56 bytes and a locator of 20 bytes
 */
#include "convert/source/npz.h"

#include "base/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    LOCAL_BYTES = 30,
    ENTRY_BYTES = 46,
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    COMMENT_BYTES_MAX = 65535,
    TAIL_BYTES_MAX = LOCATOR_BYTES + END_BYTES + COMMENT_BYTES_MAX,
    FLAG_ENCRYPTED = 1,
    METHOD_STORED = 0,
    EXTRA_ZIP64 = 1,
};
static const uint32_t LOCAL_MAGIC = 0x04034b50, ENTRY_MAGIC = 0x02014b50, END_MAGIC = 0x06054b50,
                      LOCATOR_MAGIC = 0x07064b50, END64_MAGIC = 0x06064b50;

struct archive {
    struct io *io;
    struct io_queue *queue;
    const struct listed_file *file;
    const char *path;
    struct err *err;
    struct str block; /* of the last read */
};

static int damaged(const struct archive *archive, uint64_t offset, const char *expected)
{
    err_set(archive->err, -EBADMSG, "an .npz file is damaged");
    err_at(archive->err, archive->path, (int64_t)offset);
    err_expected(archive->err, "%s", expected);
    return -EBADMSG;
}

/* Reads a range into archive->block. -EBADMSG: it is not within the file. */
static int read_range(struct archive *archive, uint64_t offset, uint64_t bytes)
{
    str_clear(&archive->block);
    if (offset > archive->file->bytes || bytes > archive->file->bytes - offset)
        return damaged(archive, archive->file->bytes, "a longer file");
    return listed_file_read(archive->file, archive->io, archive->queue, archive->path, offset,
                            bytes, &archive->block, archive->err);
}

struct directory {
    uint64_t offset, bytes, count;
};

static int read_end64(struct archive *archive, uint64_t offset, struct directory *ret_directory)
{
    int status = read_range(archive, offset, END64_BYTES);
    if (status)
        return status;
    const char *end = archive->block.data;
    if (bytes_get_u32(end) != END64_MAGIC)
        return damaged(archive, offset, "a 64-bit end record");
    *ret_directory = (struct directory){.count = bytes_get_u64(end + 32),
                                        .bytes = bytes_get_u64(end + 40),
                                        .offset = bytes_get_u64(end + 48)};
    return 0;
}

static int find_directory(struct archive *archive, struct directory *ret_directory)
{
    uint64_t tail_bytes = bytes_min(archive->file->bytes, TAIL_BYTES_MAX);
    uint64_t tail_offset = archive->file->bytes - tail_bytes;
    int status = read_range(archive, tail_offset, tail_bytes);
    if (status)
        return status;
    const char *tail = archive->block.data;
    int64_t at = (int64_t)tail_bytes - END_BYTES;
    while (at >= 0 && (bytes_get_u32(tail + at) != END_MAGIC ||
                       (uint64_t)at + END_BYTES + bytes_get_u16(tail + at + 20) != tail_bytes))
        at--;
    if (at < 0) {
        damaged(archive, 0, "a ZIP archive");
        return -EBADMSG;
    }
    *ret_directory = (struct directory){.count = bytes_get_u16(tail + at + 10),
                                        .bytes = bytes_get_u32(tail + at + 12),
                                        .offset = bytes_get_u32(tail + at + 16)};
    const char *locator = tail + at - LOCATOR_BYTES;
    if (at >= LOCATOR_BYTES && bytes_get_u32(locator) == LOCATOR_MAGIC)
        status = read_end64(archive, bytes_get_u64(locator + 8), ret_directory);
    if (!status && (ret_directory->count > NPZ_MEMBERS_MAX ||
                    ret_directory->bytes > NPZ_DIRECTORY_BYTES_MAX)) {
        err_set(archive->err, -E2BIG, "an .npz file has too many arrays");
        err_at(archive->err, archive->path, ERR_NO_OFFSET);
        err_expected(archive->err, "at most %d", NPZ_MEMBERS_MAX);
        err_found(archive->err, "%" PRIu64, ret_directory->count);
        return -E2BIG;
    }
    return status;
}

/* Replaces values of 0xffffffff by those of the 64-bit extra field. */
static bool read_zip64(const char *extra, size_t extra_bytes, uint64_t *values[3])
{
    const char *at = extra, *end = extra + extra_bytes;
    while (end - at >= 4 && bytes_get_u16(at) != EXTRA_ZIP64)
        at += bytes_min(4 + bytes_get_u16(at + 2), (uint64_t)(end - at));
    bool is_found = end - at >= 4 && bytes_get_u16(at + 2) <= end - at - 4;
    if (is_found)
        end = at + 4 + bytes_get_u16(at + 2);
    at += is_found ? 4 : 0;
    for (int i = 0; i < 3; i++) {
        if (*values[i] != UINT32_MAX)
            continue;
        if (!is_found || end - at < 8)
            return false;
        *values[i] = bytes_get_u64(at);
        at += 8;
    }
    return true;
}

static int reject_member(const struct archive *archive, uint64_t offset, int code, const char *what,
                         const char *name)
{
    err_set(archive->err, code, "an array in an .npz file is %s", what);
    err_at(archive->err, archive->path, (int64_t)offset);
    err_found(archive->err, "%.150s", name);
    err_advise(archive->err,
               "save it uncompressed: python3 -c \"import numpy; numpy.savez('new.npz', "
               "**numpy.load('%.120s'))\"",
               archive->path);
    return code;
}

/* Parses a directory entry at *at. member->offset is that of the local header. */
static int parse_entry(const struct archive *archive, const struct str *directory,
                       uint64_t directory_offset, size_t *at, struct npz_member *member)
{
    const char *entry = directory->data + *at;
    size_t rest = directory->bytes - *at;
    uint64_t offset = directory_offset + *at;
    if (rest < ENTRY_BYTES || bytes_get_u32(entry) != ENTRY_MAGIC)
        return damaged(archive, offset, "a directory entry");
    size_t name_bytes = bytes_get_u16(entry + 28), extra_bytes = bytes_get_u16(entry + 30),
           comment_bytes = bytes_get_u16(entry + 32);
    uint64_t stored_bytes = bytes_get_u32(entry + 20);
    const char *name = entry + ENTRY_BYTES;
    if (name_bytes + extra_bytes + comment_bytes > rest - ENTRY_BYTES)
        return damaged(archive, offset, "a directory entry within the directory");
    if (name_bytes < 5 || name_bytes >= NPZ_NAME_BYTES_MAX || memchr(name, '\0', name_bytes) ||
        memcmp(name + name_bytes - 4, ".npy", 4) != 0)
        return damaged(archive, offset, "only members with names such as images.npy");
    *member = (struct npz_member){.bytes = bytes_get_u32(entry + 24),
                                  .offset = bytes_get_u32(entry + 42)};
    memcpy(member->name, name, name_bytes - 4);
    if (!read_zip64(name + name_bytes, extra_bytes,
                    (uint64_t *[]){&member->bytes, &stored_bytes, &member->offset}))
        return damaged(archive, offset, "64-bit sizes");
    if (bytes_get_u16(entry + 8) & FLAG_ENCRYPTED)
        return reject_member(archive, offset, -ENOTSUP, "encrypted", member->name);
    if (bytes_get_u16(entry + 10) != METHOD_STORED)
        return reject_member(archive, offset, -ENOTSUP, "compressed", member->name);
    if (stored_bytes != member->bytes)
        return damaged(archive, offset, "equal sizes of an uncompressed member");
    *at += ENTRY_BYTES + name_bytes + extra_bytes + comment_bytes;
    return 0;
}

/* Moves member->offset from the local header to the data. */
static int find_data(struct archive *archive, struct npz_member *member)
{
    int status = read_range(archive, member->offset, LOCAL_BYTES);
    if (status)
        return status;
    const char *local = archive->block.data;
    if (bytes_get_u32(local) != LOCAL_MAGIC)
        return damaged(archive, member->offset, "a local header");
    member->offset += LOCAL_BYTES + (uint64_t)bytes_get_u16(local + 26) + bytes_get_u16(local + 28);
    if (member->offset > archive->file->bytes ||
        member->bytes > archive->file->bytes - member->offset)
        return damaged(archive, archive->file->bytes, "a longer file");
    return 0;
}

static int list_members(struct archive *archive, struct str *members)
{
    struct directory directory;
    struct str entries = {0};
    size_t at = 0;
    int status = find_directory(archive, &directory);
    if (!status)
        status = read_range(archive, directory.offset, directory.bytes);
    if (!status)
        str_add(&entries, archive->block.data, archive->block.bytes);
    if (!status && str_status(&entries))
        status = err_set(archive->err, -ENOMEM, "out of memory for an .npz file");
    for (uint64_t i = 0; i < directory.count && !status; i++) {
        struct npz_member member;
        status = parse_entry(archive, &entries, directory.offset, &at, &member);
        if (!status)
            status = find_data(archive, &member);
        if (!status)
            str_add(members, &member, sizeof member);
    }
    str_deinit(&entries);
    return !status && str_status(members)
               ? err_set(archive->err, -ENOMEM, "out of memory for an .npz file")
               : status;
}

int npz_list(struct io *io, struct io_queue *queue, const struct listed_file *file,
             const char *path, struct str *members, struct err *err)
{
    struct archive archive = {.io = io, .queue = queue, .file = file, .path = path, .err = err};
    int status = list_members(&archive, members);
    str_deinit(&archive.block);
    return status;
}
