/*
 * zip_directory — see zip_directory.h.
 */
#include "convert/archive/zip_directory.h"

#include "base/bytes.h"

#include <errno.h>
#include <inttypes.h>

enum {
    LOCAL_BYTES = 30,
    ENTRY_BYTES = 46,
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    COMMENT_BYTES_MAX = 65535,
    TAIL_BYTES_MAX = LOCATOR_BYTES + END_BYTES + COMMENT_BYTES_MAX,
    EXTRA_ZIP64 = 1,
};
static const uint32_t LOCAL_MAGIC = 0x04034b50, ENTRY_MAGIC = 0x02014b50, END_MAGIC = 0x06054b50,
                      LOCATOR_MAGIC = 0x07064b50, END64_MAGIC = 0x06064b50;

static int damaged(const struct zip_file *file, uint64_t offset, const char *expected,
                   struct err *err)
{
    err_set(err, -EBADMSG, "a zip file is damaged");
    err_at(err, file->path, (int64_t)offset);
    err_expected(err, "%s", expected);
    return -EBADMSG;
}

/* Replaces the contents of out. -EBADMSG: the range is not within the file. */
static int read_range(const struct zip_file *file, uint64_t offset, uint64_t bytes, struct str *out,
                      struct err *err)
{
    str_clear(out);
    if (offset > file->bytes || bytes > file->bytes - offset)
        return damaged(file, file->bytes, "a longer file", err);
    return file->read(file->context, offset, bytes, out, err);
}

struct end {
    uint64_t directory_offset, directory_bytes, count;
};

static int read_end64(const struct zip_file *file, uint64_t offset, struct end *ret_end,
                      struct err *err)
{
    struct str record = {0};
    int status = read_range(file, offset, END64_BYTES, &record, err);
    if (!status && bytes_get_u32(record.data) != END64_MAGIC)
        status = damaged(file, offset, "a 64-bit end record", err);
    if (!status)
        *ret_end = (struct end){.count = bytes_get_u64(record.data + 32),
                                .directory_bytes = bytes_get_u64(record.data + 40),
                                .directory_offset = bytes_get_u64(record.data + 48)};
    str_deinit(&record);
    return status;
}

static int find_end(const struct zip_file *file, struct str *tail, struct end *ret_end,
                    struct err *err)
{
    uint64_t tail_bytes = bytes_min(file->bytes, TAIL_BYTES_MAX);
    uint64_t tail_offset = file->bytes - tail_bytes;
    int status = read_range(file, tail_offset, tail_bytes, tail, err);
    if (status)
        return status;
    int64_t at = (int64_t)tail_bytes - END_BYTES;
    while (at >= 0 &&
           (bytes_get_u32(tail->data + at) != END_MAGIC ||
            (uint64_t)at + END_BYTES + bytes_get_u16(tail->data + at + 20) != tail_bytes))
        at--;
    if (at < 0)
        return damaged(file, 0, "a ZIP archive", err);
    const char *record = tail->data + at;
    *ret_end = (struct end){.count = bytes_get_u16(record + 10),
                            .directory_bytes = bytes_get_u32(record + 12),
                            .directory_offset = bytes_get_u32(record + 16)};
    return at >= LOCATOR_BYTES && bytes_get_u32(record - LOCATOR_BYTES) == LOCATOR_MAGIC
               ? read_end64(file, bytes_get_u64(record - LOCATOR_BYTES + 8), ret_end, err)
               : 0;
}

int zip_directory_read(struct zip_directory *directory, const struct zip_file *file,
                       struct err *err)
{
    struct end end = {0};
    int status = find_end(file, &directory->data, &end, err);
    if (status)
        return status;
    if (end.directory_bytes > ZIP_DIRECTORY_BYTES_MAX) {
        err_set(err, -E2BIG, "a zip file has too many members");
        err_at(err, file->path, ERR_NO_OFFSET);
        err_expected(err, "a directory of at most %d bytes", ZIP_DIRECTORY_BYTES_MAX);
        err_found(err, "%" PRIu64, end.directory_bytes);
        return -E2BIG;
    }
    directory->offset = end.directory_offset;
    directory->count = end.count;
    directory->next = 0;
    return read_range(file, end.directory_offset, end.directory_bytes, &directory->data, err);
}

void zip_directory_deinit(struct zip_directory *directory)
{
    str_deinit(&directory->data);
}

/* Replaces values of 0xffffffff by those of the 64-bit extra field. */
static bool read_zip64(const struct zip_entry *entry, uint64_t *values[3])
{
    const char *at = entry->extra, *end = entry->extra + entry->extra_bytes;
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

int zip_directory_next(struct zip_directory *directory, const struct zip_file *file,
                       struct zip_entry *ret_entry, struct err *err)
{
    const char *entry = directory->data.data + directory->next;
    size_t rest = directory->data.bytes - directory->next;
    uint64_t offset = directory->offset + directory->next;
    if (directory->count == 0)
        return rest == 0 ? 0 : damaged(file, offset, "the end of the directory", err);
    if (rest < ENTRY_BYTES || bytes_get_u32(entry) != ENTRY_MAGIC)
        return damaged(file, offset, "a directory entry", err);
    size_t name_bytes = bytes_get_u16(entry + 28), extra_bytes = bytes_get_u16(entry + 30),
           comment_bytes = bytes_get_u16(entry + 32);
    if (name_bytes + extra_bytes + comment_bytes > rest - ENTRY_BYTES)
        return damaged(file, offset, "a directory entry within the directory", err);
    *ret_entry = (struct zip_entry){.name = entry + ENTRY_BYTES,
                                    .name_bytes = name_bytes,
                                    .extra = entry + ENTRY_BYTES + name_bytes,
                                    .extra_bytes = extra_bytes,
                                    .offset = bytes_get_u32(entry + 42),
                                    .bytes = bytes_get_u32(entry + 24),
                                    .stored_bytes = bytes_get_u32(entry + 20),
                                    .crc32 = bytes_get_u32(entry + 16),
                                    .flags = bytes_get_u16(entry + 8),
                                    .method = bytes_get_u16(entry + 10),
                                    .entry_offset = offset};
    if (!read_zip64(ret_entry, (uint64_t *[]){&ret_entry->bytes, &ret_entry->stored_bytes,
                                              &ret_entry->offset}))
        return damaged(file, offset, "64-bit sizes", err);
    directory->next += ENTRY_BYTES + name_bytes + extra_bytes + comment_bytes;
    directory->count--;
    return 1;
}

int zip_find_data(const struct zip_file *file, const struct zip_entry *entry, uint64_t *ret_offset,
                  struct err *err)
{
    struct str local = {0};
    int status = read_range(file, entry->offset, LOCAL_BYTES, &local, err);
    if (!status && bytes_get_u32(local.data) != LOCAL_MAGIC)
        status = damaged(file, entry->offset, "a local header", err);
    if (!status) {
        *ret_offset = entry->offset + LOCAL_BYTES + (uint64_t)bytes_get_u16(local.data + 26) +
                      bytes_get_u16(local.data + 28);
        if (*ret_offset > file->bytes || entry->stored_bytes > file->bytes - *ret_offset)
            status = damaged(file, file->bytes, "a longer file", err);
    }
    str_deinit(&local);
    return status;
}
