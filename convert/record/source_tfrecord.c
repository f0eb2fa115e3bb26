/*
 * source_tfrecord — the source for TFRecord files of tf.train.Example.
 *
 * A file is a sequence of records (tensorflow/core/lib/io/record_writer.h):
 *
 *     0           u64 length
 *     8           u32 masked CRC32C of the length
 *     12          the message
 *     12 + length u32 masked CRC32C of the message
 *
 * Listing reads only the lengths; files are listed in parallel.
 */
#include "base/bytes.h"
#include "base/crc.h"
#include "base/os/thread_pool.h"
#include "convert/record/record_source.h"
#include "convert/record/tf_example.h"
#include "convert/record/tfrecord.h"
#include "convert/source/archive_paths.h"
#include "convert/source/file_names.h"
#include "io/file_util.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    FOOTER_BYTES = 4,
    /* The lengths of records below SMALL_BYTES are read in blocks. */
    SMALL_BYTES = 16 << 10,
    BLOCK_BYTES = 256 << 10,
    STOP_CHECK_RECORDS = 1024,
};

static uint32_t masked_crc(const void *data, size_t bytes)
{
    uint32_t crc = crc32c(0, data, bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

bool tfrecord_is_header(const uint8_t header[TFRECORD_HEADER_BYTES])
{
    return masked_crc(header, 8) == bytes_get_u32(header + 8);
}

static bool is_tfrecord(const struct source_layout *layout)
{
    if (!layout->file)
        return !layout->has_tokenizer && layout->has_tfrecords && source_layout_has_records(layout);
    const char *slash = strrchr(layout->file, '/');
    return (layout->head_bytes >= TFRECORD_HEADER_BYTES &&
            tfrecord_is_header((const uint8_t *)layout->head)) ||
           name_has_tfrecord(slash ? slash + 1 : layout->file);
}

/* ---- Listing. ---- */

struct listing {
    struct io *io;
    const struct convert_options *options;
    struct record_file *files;
    int *statuses;
};

/* Bytes of a file. */
struct block {
    uint8_t data[BLOCK_BYTES];
    uint64_t offset;
    size_t bytes;
};

struct scan {
    struct io *io;
    struct io_queue *queue;
    struct io_file *handle;
    const char *path;
    uint64_t file_bytes;
    struct block *block;
    struct str offsets;
    struct err *err;
};

static int reject_truncated(const struct scan *scan, uint64_t offset, uint64_t expected)
{
    err_set(scan->err, -EBADMSG, "a TFRecord file is truncated");
    err_at(scan->err, scan->path, (int64_t)offset);
    err_expected(scan->err, "a record of %" PRIu64 " bytes", expected);
    err_found(scan->err, "%" PRIu64 " bytes to the end of the file", scan->file_bytes - offset);
    err_advise(scan->err, "fetch or write the file again");
    return -EBADMSG;
}

static int reject_header(const struct scan *scan, uint64_t offset, const uint8_t *header)
{
    err_set(scan->err, -EBADMSG, "the length of a record has a wrong checksum");
    err_at(scan->err, scan->path, (int64_t)offset);
    err_expected(scan->err, "%08" PRIx32, bytes_get_u32(header + 8));
    err_found(scan->err, "%08" PRIx32, masked_crc(header, 8));
    err_advise(scan->err, "the file is damaged, or not a TFRecord file");
    return -EBADMSG;
}

/* Finds the header at an offset. last_bytes: size of the record before it. */
static int read_header(struct scan *scan, uint64_t offset, uint64_t last_bytes,
                       const uint8_t **ret_header)
{
    struct block *block = scan->block;
    if (offset < block->offset || offset + TFRECORD_HEADER_BYTES > block->offset + block->bytes) {
        size_t bytes = last_bytes < SMALL_BYTES ? BLOCK_BYTES : TFRECORD_HEADER_BYTES;
        block->offset = offset;
        block->bytes = bytes_min(bytes, scan->file_bytes - offset);
        int status = io_read_exact(scan->queue, scan->io, scan->handle, scan->path, offset,
                                   block->data, block->bytes, scan->err);
        if (status)
            return status;
    }
    *ret_header = block->data + (offset - block->offset);
    return 0;
}

static int scan_records(struct scan *scan, const atomic_int *stop)
{
    uint64_t offset = 0, last_bytes = SMALL_BYTES;
    for (uint64_t count = 0; offset < scan->file_bytes; count++) {
        const uint8_t *header;
        uint64_t rest = scan->file_bytes - offset;
        if (rest < TFRECORD_HEADER_BYTES + FOOTER_BYTES)
            return reject_truncated(scan, offset, TFRECORD_HEADER_BYTES + FOOTER_BYTES);
        int status = read_header(scan, offset, last_bytes, &header);
        if (status)
            return status;
        if (!tfrecord_is_header(header))
            return reject_header(scan, offset, header);
        uint64_t length = bytes_get_u64(header);
        if (length > rest - TFRECORD_HEADER_BYTES - FOOTER_BYTES)
            return reject_truncated(scan, offset, length);
        if (count % STOP_CHECK_RECORDS == 0 && stop && atomic_load(stop))
            return err_set(scan->err, -EINTR, "stopped while records were listed");
        str_add(&scan->offsets, &offset, sizeof offset);
        last_bytes = TFRECORD_HEADER_BYTES + length + FOOTER_BYTES;
        offset += last_bytes;
    }
    str_add(&scan->offsets, &offset, sizeof offset);
    return str_status(&scan->offsets) ? err_set(scan->err, -ENOMEM, "out of memory for records")
                                      : 0;
}

static int list_file(struct listing *listing, struct record_file *file, struct err *err)
{
    struct io *io = listing->io;
    struct io_stat info;
    struct scan scan = {.io = io, .path = file->path, .err = err};
    int status = io->names->stat(io, file->path, &info, err);
    if (!status && info.kind != IO_ENTRY_FILE) {
        status = err_set(err, -EINVAL, "not a regular file");
        err_at(err, file->path, ERR_NO_OFFSET);
    }
    if (status)
        return status;
    listed_file_set(&file->file, &info);
    scan.file_bytes = info.size_bytes;
    scan.block = calloc(1, sizeof *scan.block);
    if (!scan.block)
        status = err_set(err, -ENOMEM, "out of memory for records");
    if (!status)
        status = io->ops->queue_open(io, 1, &scan.queue, err);
    if (!status)
        status = io->ops->file_open(io, file->path, &scan.handle, err);
    if (!status)
        status = listed_file_check(&file->file, io, scan.handle, file->path, err);
    if (!status)
        status = scan_records(&scan, listing->options->stop);
    if (!status) {
        file->records_count = scan.offsets.bytes / sizeof(uint64_t) - 1;
        file->offsets = (uint64_t *)(void *)scan.offsets.data; /* malloc'ed */
    } else {
        str_deinit(&scan.offsets);
    }
    if (scan.handle)
        io->ops->file_close(scan.handle);
    if (scan.queue)
        io->ops->queue_close(scan.queue);
    free(scan.block);
    return status;
}

static void list_task(void *context, size_t number, unsigned worker)
{
    struct listing *listing = context;
    (void)worker;
    listing->statuses[number] = list_file(listing, &listing->files[number], NULL);
}

/* Finds the first word of a name that is a split, such as the train in x-train.tfrecord. */
static bool find_split(const char *name, char split[16])
{
    size_t bytes = 0;
    for (;; name++) {
        if (isalpha((unsigned char)*name)) {
            split[bytes < 15 ? bytes : 15] = (char)tolower((unsigned char)*name);
            bytes++;
            continue;
        }
        split[bytes < 15 ? bytes : 15] = '\0';
        if (bytes > 0 && bytes < 16 && name_is_split(split))
            return true;
        if (!*name)
            return false;
        bytes = 0;
    }
}

/* A folder with the records of several splits is not one dataset. */
static int check_splits(const struct convert_options *options, const struct url_list *paths,
                        struct err *err)
{
    char first[16] = "", split[16];
    for (size_t i = 0; i < paths->count; i++) {
        const char *slash = strrchr(paths->urls[i], '/');
        if (!find_split(slash ? slash + 1 : paths->urls[i], split))
            continue;
        if (!first[0])
            strcpy(first, split);
        if (strcmp(first, split) == 0)
            continue;
        err_set(err, -EINVAL, "a folder holds the records of several splits");
        err_at(err, options->source, ERR_NO_OFFSET);
        err_found(err, "%s and %s", first, split);
        err_advise(err,
                   "convert each by itself, for example '%.100s/*%s*'; a pattern of all files "
                   "joins them",
                   options->source, first);
        return -EINVAL;
    }
    return 0;
}

static int list_files(struct io *io, const struct convert_options *options,
                      const struct url_list *paths, struct record_file *files, struct err *err)
{
    struct listing listing = {.io = io, .options = options, .files = files};
    struct thread_pool *pool = NULL;
    listing.statuses = calloc(paths->count, sizeof *listing.statuses);
    bool has_memory = listing.statuses;
    for (size_t i = 0; i < paths->count && has_memory; i++) {
        files[i].path = strdup(paths->urls[i]);
        has_memory = files[i].path;
    }
    int status = has_memory ? thread_pool_open(options->workers, &pool, err)
                            : err_set(err, -ENOMEM, "out of memory for a list of files");
    if (!status)
        thread_pool_run(pool, paths->count, list_task, &listing);
    for (size_t i = 0; i < paths->count && !status; i++)
        if (listing.statuses[i]) /* again, for the error */
            status = list_file(&listing, &files[i], err);
    thread_pool_close(pool);
    free(listing.statuses);
    return status;
}

static int tfrecord_list(struct io *io, const struct convert_options *options,
                         struct record_file **ret_files, size_t *ret_count, void **ret_state,
                         struct err *err)
{
    struct url_list paths = {0};
    struct io_stat info;
    int status = archive_paths_list(io, options, name_is_tfrecord, &paths, err);
    (void)ret_state;
    if (!status && io->names->stat(io, options->source, &info, NULL) == 0 &&
        info.kind == IO_ENTRY_FOLDER)
        status = check_splits(options, &paths, err);
    struct record_file *files = calloc(paths.count + 1, sizeof *files);
    if (!status && !files)
        status = err_set(err, -ENOMEM, "out of memory for a list of files");
    if (!status)
        status = list_files(io, options, &paths, files, err);
    if (status) {
        record_files_free(files, paths.count);
    } else {
        *ret_files = files;
        *ret_count = paths.count;
    }
    url_list_deinit(&paths);
    return status;
}

/* ---- Reading. ---- */

static int tfrecord_decode(const struct record_file *file, const uint8_t *data, size_t bytes,
                           struct record *record, struct err *err)
{
    size_t length = bytes - TFRECORD_HEADER_BYTES - FOOTER_BYTES;
    uint32_t expected = bytes_get_u32(data + TFRECORD_HEADER_BYTES + length),
             found = masked_crc(data + TFRECORD_HEADER_BYTES, length);
    (void)file;
    if (!tfrecord_is_header(data) || bytes_get_u64(data) != length)
        return record_reject(record, 0, "the length of a record changed after it was listed",
                             "the same length", err);
    if (found == expected)
        return tf_example_decode(data + TFRECORD_HEADER_BYTES, length, TFRECORD_HEADER_BYTES,
                                 record, err);
    err_set(err, -EBADMSG, "a record has a wrong checksum: the data was damaged");
    err_at(err, record->path, (int64_t)record->offset);
    err_expected(err, "%08" PRIx32, expected);
    err_found(err, "%08" PRIx32, found);
    return -EBADMSG;
}

static const struct record_format tfrecord_format = {
    .name = "TFRecord files", .list = tfrecord_list, .decode = tfrecord_decode};

static int tfrecord_open(struct io *io, struct source *source, struct err *err)
{
    return record_source_open(io, source, &tfrecord_format, err);
}

const struct source_ops source_tfrecord_ops = {
    .name = "tfrecord",
    .is_ordered = true,
    .has_columns = true,
    .probe = is_tfrecord,
    .open = tfrecord_open,
    .close = record_source_close,
    .describe = record_source_describe,
    .read = record_source_read,
    .reader_open = record_source_reader_open,
    .reader_close = record_source_reader_close,
};
