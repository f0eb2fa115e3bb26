/*
 * unarchive — see unarchive.h.
 */
#include "convert/archive/unarchive.h"

#include "base/bytes.h"
#include "base/versions.h"
#include "convert/archive/zip_names.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unarchive {
    struct file_blocks *blocks;
    struct archive *archive;
    bool is_zip;
    struct zip_names names; /* of a zip */
    /* Decompressed bytes that belong to libarchive, and those of them that are read. */
    const uint8_t *data;
    size_t data_bytes, read_bytes;
    uint64_t offset; /* of data in the member */
    struct err io_err;
};

/* libarchive converts names from UTF-8 to this. One for all threads: glibc frees and loads a locale
 * in ways that ThreadSanitizer takes for races. */
static locale_t utf8_locale;

static void open_utf8_locale(void)
{
    utf8_locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

static la_ssize_t read_block(struct archive *archive, void *context, const void **ret_data)
{
    struct unarchive *unarchive = context;
    uint8_t *data = NULL;
    size_t bytes = 0;
    int status = file_blocks_next(unarchive->blocks, &data, &bytes, &unarchive->io_err);
    if (status) {
        archive_set_error(archive, -status, "read error");
        return ARCHIVE_FATAL;
    }
    *ret_data = data;
    return (la_ssize_t)bytes;
}

static la_int64_t seek_file(struct archive *archive, void *context, la_int64_t offset, int whence)
{
    struct unarchive *unarchive = context;
    struct file_blocks *blocks = unarchive->blocks;
    int64_t from = whence == SEEK_SET   ? 0
                   : whence == SEEK_CUR ? (int64_t)blocks->offset
                                        : (int64_t)blocks->bytes;
    (void)archive;
    if (offset < -from || offset > (int64_t)blocks->bytes - from)
        return ARCHIVE_FATAL;
    blocks->offset = (uint64_t)(from + offset);
    return (la_int64_t)blocks->offset;
}

/* Reports libarchive's message, or the read error behind it. */
static int report(const struct unarchive *unarchive, int status, struct err *err)
{
    const char *text = archive_error_string(unarchive->archive);
    if (unarchive->io_err.code) {
        if (err)
            *err = unarchive->io_err;
        return unarchive->io_err.code;
    }
    if (archive_errno(unarchive->archive) == ENOMEM)
        return err_set(err, -ENOMEM, "out of memory for decompressing a file");
    err_set(err, status, "the archive could not be read: %s", text ? text : "unknown error");
    err_at(err, unarchive->blocks->path, ERR_NO_OFFSET);
    err_advise(err, "test it with its own tool, and copy or download the file again");
    return status;
}

static int choose_format(struct archive *archive, enum unarchive_format format)
{
    if (format == UNARCHIVE_ZIP)
        return archive_read_support_format_zip_seekable(archive);
    bool is_supported = archive_read_support_filter_bzip2(archive) == ARCHIVE_OK &&
                        archive_read_support_filter_xz(archive) == ARCHIVE_OK &&
                        archive_read_support_filter_zstd(archive) == ARCHIVE_OK &&
                        archive_read_support_filter_lz4(archive) == ARCHIVE_OK;
    return is_supported ? archive_read_support_format_raw(archive) : ARCHIVE_FATAL;
}

static int open_archive(struct unarchive *unarchive, enum unarchive_format format)
{
    struct archive *archive = unarchive->archive;
    if (choose_format(archive, format) != ARCHIVE_OK ||
        archive_read_set_read_callback(archive, read_block) != ARCHIVE_OK ||
        archive_read_set_seek_callback(archive, seek_file) != ARCHIVE_OK ||
        archive_read_set_callback_data(archive, unarchive) != ARCHIVE_OK)
        return ARCHIVE_FATAL;
    return archive_read_open1(archive);
}

int unarchive_open(struct file_blocks *blocks, enum unarchive_format format,
                   struct unarchive **ret_unarchive, struct err *err)
{
    struct unarchive *unarchive = calloc(1, sizeof *unarchive);
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_utf8_locale);
    if (unarchive) {
        unarchive->blocks = blocks;
        unarchive->archive = archive_read_new();
    }
    if (!unarchive || !unarchive->archive) {
        unarchive_close(unarchive);
        return err_set(err, -ENOMEM, "out of memory for decompressing a file");
    }
    unarchive->is_zip = format == UNARCHIVE_ZIP;
    int status = unarchive->is_zip ? zip_names_read(&unarchive->names, blocks, err) : 0;
    if (!status && open_archive(unarchive, format) != ARCHIVE_OK)
        status = report(unarchive, -EBADMSG, err);
    if (status)
        unarchive_close(unarchive);
    else
        *ret_unarchive = unarchive;
    return status;
}

void unarchive_close(struct unarchive *unarchive)
{
    if (!unarchive)
        return;
    if (unarchive->archive)
        archive_read_free(unarchive->archive);
    zip_names_deinit(&unarchive->names);
    free(unarchive);
}

static int reject_member(const struct unarchive *unarchive, int status, const char *name,
                         const char *what, struct err *err)
{
    err_set(err, status, "%s", what);
    err_at(err, unarchive->blocks->path, ERR_NO_OFFSET);
    err_found(err, "\"%.200s\"", name);
    err_advise(err, "unpack the archive with its own tool, and convert the folder");
    return status;
}

/* A link or a folder is no member; an entry that readers cannot understand is an error. */
static int next_entry(struct unarchive *unarchive, struct unarchive_member *member, struct err *err)
{
    struct archive_entry *entry;
    do {
        int result = archive_read_next_header(unarchive->archive, &entry);
        if (result == ARCHIVE_EOF)
            return 0;
        if (result != ARCHIVE_OK)
            return report(unarchive, -EBADMSG, err);
    } while (archive_entry_filetype(entry) != AE_IFREG);
    member->name = archive_entry_pathname(entry);
    if (!member->name)
        return reject_member(unarchive, -EBADMSG, "", "a member of the archive has no name", err);
    if (unarchive->is_zip && !zip_names_take(&unarchive->names, member->name)) {
        reject_member(unarchive, -EBADMSG, member->name,
                      "a member has another name in the zip's directory than in its local header",
                      err);
        err_advise(err, "test the archive with `unzip -t`, and copy or download it again");
        return -EBADMSG;
    }
    if (archive_entry_is_encrypted(entry))
        return reject_member(unarchive, -ENOTSUP, member->name,
                             "a member of the archive is encrypted", err);
    member->bytes = archive_entry_size_is_set(entry) ? (uint64_t)archive_entry_size(entry) : 0;
    return 1;
}

int unarchive_next(struct unarchive *unarchive, struct unarchive_member *ret_member,
                   struct err *err)
{
    locale_t before = utf8_locale ? uselocale(utf8_locale) : (locale_t)0;
    int result = next_entry(unarchive, ret_member, err);
    if (before)
        uselocale(before);
    unarchive->data_bytes = unarchive->read_bytes = 0;
    unarchive->offset = 0;
    return result;
}

/* Gets the next piece of the member's data. A zip may store a file with holes only as zeros. */
static int next_data(struct unarchive *unarchive, struct err *err)
{
    const void *data = NULL;
    size_t bytes = 0;
    la_int64_t offset = 0;
    int result;
    unarchive->offset += unarchive->data_bytes;
    unarchive->data_bytes = unarchive->read_bytes = 0;
    do
        result = archive_read_data_block(unarchive->archive, &data, &bytes, &offset);
    while (result == ARCHIVE_OK && bytes == 0);
    if (result == ARCHIVE_EOF)
        return 0;
    if (result != ARCHIVE_OK) /* a warning is a wrong checksum */
        return report(unarchive, -EBADMSG, err);
    if ((uint64_t)offset != unarchive->offset)
        return reject_member(unarchive, -ENOTSUP, "", "a member of the archive has holes", err);
    unarchive->data = data;
    unarchive->data_bytes = bytes;
    return 0;
}

int unarchive_read(struct unarchive *unarchive, void *data, size_t bytes, size_t *ret_bytes,
                   struct err *err)
{
    if (unarchive->read_bytes == unarchive->data_bytes) {
        int status = next_data(unarchive, err);
        if (status)
            return status;
    }
    size_t count = (size_t)bytes_min(bytes, unarchive->data_bytes - unarchive->read_bytes);
    if (count > 0)
        memcpy(data, unarchive->data + unarchive->read_bytes, count);
    unarchive->read_bytes += count;
    *ret_bytes = count;
    return 0;
}

const char *unarchive_library(char *text)
{
    snprintf(text, VERSION_TEXT_BYTES, "%s", archive_version_string()); /* "libarchive 3.6.2" */
    return text;
}
