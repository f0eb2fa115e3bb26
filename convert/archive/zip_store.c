/*
 * zip_store — see zip_store.h.
 */
#include "convert/archive/zip_store.h"

#include "base/bytes.h"
#include "base/str.h"
#include "convert/archive/unarchive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 256 << 10 };

struct zip_store {
    struct unarchive *source;
    struct archive *target;
    struct archive_entry *entry;
    struct str ready; /* written, and not read yet from `read` on */
    size_t read;
    bool is_in_member, is_at_end;
    char block[BLOCK_BYTES];
};

static la_ssize_t take_written(struct archive *archive, void *context, const void *data,
                               size_t bytes)
{
    struct zip_store *zip = context;
    str_add(&zip->ready, data, bytes);
    if (!str_status(&zip->ready))
        return (la_ssize_t)bytes;
    archive_set_error(archive, ENOMEM, "out of memory");
    return -1;
}

static bool open_target(struct zip_store *zip)
{
    return zip->target && zip->entry && archive_write_set_format_zip(zip->target) == ARCHIVE_OK &&
           archive_write_zip_set_compression_store(zip->target) == ARCHIVE_OK &&
           archive_write_set_bytes_per_block(zip->target, 0) == ARCHIVE_OK &&
           archive_write_open(zip->target, zip, NULL, take_written, NULL) == ARCHIVE_OK;
}

int zip_store_open(struct file_blocks *blocks, struct zip_store **ret_zip, struct err *err)
{
    struct zip_store *zip = calloc(1, sizeof *zip);
    int status = zip ? unarchive_open(blocks, UNARCHIVE_ZIP, &zip->source, err) : -ENOMEM;
    if (!status) {
        zip->target = archive_write_new();
        zip->entry = archive_entry_new();
        status = open_target(zip) ? 0 : -ENOMEM;
    }
    if (status == -ENOMEM)
        err_set(err, -ENOMEM, "out of memory for decompressing a zip");
    if (status)
        zip_store_close(zip);
    else
        *ret_zip = zip;
    return status;
}

void zip_store_close(struct zip_store *zip)
{
    if (!zip)
        return;
    unarchive_close(zip->source);
    if (zip->target)
        archive_write_free(zip->target);
    if (zip->entry)
        archive_entry_free(zip->entry);
    str_deinit(&zip->ready);
    free(zip);
}

static int check_written(const struct zip_store *zip, la_ssize_t result, struct err *err)
{
    const char *text = archive_error_string(zip->target);
    if (str_status(&zip->ready))
        return err_set(err, -ENOMEM, "out of memory for decompressing a zip");
    return result >= ARCHIVE_OK
               ? 0
               : err_set(err, -EIO, "a zip could not be decompressed: %s", text ? text : "");
}

static int begin_member(struct zip_store *zip, const struct unarchive_member *member,
                        struct err *err)
{
    archive_entry_clear(zip->entry);
    archive_entry_set_pathname(zip->entry, member->name);
    archive_entry_set_filetype(zip->entry, AE_IFREG);
    archive_entry_set_perm(zip->entry, 0644);
    archive_entry_set_size(zip->entry, (la_int64_t)member->bytes);
    zip->is_in_member = true;
    return check_written(zip, archive_write_header(zip->target, zip->entry), err);
}

/* Writes the header of the next member, a block of it, or the directory. */
static int write_some(struct zip_store *zip, struct err *err)
{
    struct unarchive_member member;
    size_t bytes;
    int status;
    if (zip->is_in_member) {
        status = unarchive_read(zip->source, zip->block, BLOCK_BYTES, &bytes, err);
        if (status)
            return status;
        zip->is_in_member = bytes > 0;
        return check_written(zip,
                             bytes > 0 ? archive_write_data(zip->target, zip->block, bytes)
                                       : archive_write_finish_entry(zip->target),
                             err);
    }
    int result = unarchive_next(zip->source, &member, err);
    if (result == 1)
        return begin_member(zip, &member, err);
    zip->is_at_end = result == 0;
    return result < 0 ? result : check_written(zip, archive_write_close(zip->target), err);
}

int zip_store_read(struct zip_store *zip, void *data, size_t bytes, size_t *ret_bytes,
                   struct err *err)
{
    int status = 0;
    if (zip->read == zip->ready.bytes) {
        str_clear(&zip->ready);
        zip->read = 0;
    }
    while (!status && zip->ready.bytes == 0 && !zip->is_at_end)
        status = write_some(zip, err);
    if (status)
        return status;
    size_t count = (size_t)bytes_min(bytes, zip->ready.bytes - zip->read);
    if (count > 0)
        memcpy(data, zip->ready.data + zip->read, count);
    zip->read += count;
    *ret_bytes = count;
    return 0;
}
