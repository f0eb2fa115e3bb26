/*
 * shard_writer — see shard.h.
 */
#include "shards/format/shard.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "io/file_util.h"
#include "io/file_writer.h"
#include "io/zstd/frame_writer.h"
#include "shards/format/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shard_writer {
    struct io *io;
    struct io_transaction *transaction;
    bool is_borrowed; /* the caller's transaction, of a folder */
    struct io_file *file;
    struct file_writer *output;
    struct frame_writer *frames; /* NULL: not compressed */
    struct shard_index_builder *builder;
    uint64_t offset; /* in the uncompressed shard */
    uint64_t field_bytes, index_bytes_estimate;
    struct str scratch; /* a header, later the index */
    char path[IO_PATH_BYTES_MAX];
    char key[SHARD_KEY_BYTES_MAX];
    /* The last field's extension in the current sample; "" if there is none yet. */
    char last_extension[SHARD_EXTENSION_BYTES_MAX];
};

/* folder NULL: the shard is the only file of its own transaction. */
static int open_writer(struct io *io, struct io_transaction *folder, const char *name,
                       const char *path, bool replace, struct shard_writer **ret_writer,
                       struct err *err)
{
    struct shard_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return err_set(err, -ENOMEM, "out of memory for a shard writer");
    writer->io = io;
    int status = 0;
    if ((size_t)snprintf(writer->path, sizeof writer->path, "%s", path) >= sizeof writer->path) {
        status = io_long_path_error("", path, err);
        goto out;
    }
    status = shard_index_builder_open(&writer->builder, err);
    struct io_transaction_options options = {
        .path = writer->path, .single_file = true, .replace = replace};
    writer->is_borrowed = folder != NULL;
    writer->transaction = folder;
    if (!status && !folder)
        status = io->transactions->begin(io, &options, &writer->transaction, err);
    if (!status)
        status = io->transactions->create(writer->transaction, name, 0, &writer->file, err);
    if (!status)
        status = file_writer_open(io, writer->file, writer->path, &writer->output, err);
out:
    if (status)
        shard_writer_abort(writer);
    else
        *ret_writer = writer;
    return status;
}

int shard_writer_open(struct io *io, const char *path, bool replace,
                      struct shard_writer **ret_writer, struct err *err)
{
    return open_writer(io, NULL, "", path, replace, ret_writer, err);
}

int shard_writer_open_in(struct io *io, struct io_transaction *transaction, const char *name,
                         const char *path, struct shard_writer **ret_writer, struct err *err)
{
    return open_writer(io, transaction, name, path, false, ret_writer, err);
}

static int write_stored(void *context, const void *data, size_t bytes, struct err *err)
{
    struct shard_writer *writer = context;
    return file_writer_append(writer->output, data, bytes, err);
}

int shard_writer_compress(struct shard_writer *writer, int level, unsigned threads, struct err *err)
{
    const struct frame_writer_options options = {
        .level = level, .threads = threads, .write = write_stored, .context = writer};
    assert(writer->offset == 0);
    return frame_writer_open(&options, &writer->frames, err);
}

/* Appends bytes of the archive or the tail. data: NULL appends zeros. */
static int append(struct shard_writer *writer, const void *data, uint64_t bytes, struct err *err)
{
    writer->offset += bytes;
    return writer->frames ? frame_writer_add(writer->frames, data, bytes, err)
                          : file_writer_append(writer->output, data, bytes, err);
}

static int append_padding(struct shard_writer *writer, struct err *err)
{
    return append(writer, NULL, bytes_round_up(writer->offset, TAR_BLOCK_BYTES) - writer->offset,
                  err);
}

static int invalid_input(const struct shard_writer *writer, struct err *err, const char *what,
                         const char *text, const char *expected)
{
    err_set(err, -EINVAL, "%s", what);
    err_at(err, writer->path, (int64_t)writer->offset);
    err_expected(err, "%s", expected);
    err_found(err, "\"%s\"", text);
    return -EINVAL;
}

/* Accepts only keys that all readers parse the same way: no dots in the base name, no parts that
 * readers skip; and that stay below the folder into which a tar is unpacked. */
static bool key_is_valid(const char *key)
{
    const char *slash = strrchr(key, '/'), *base = slash ? slash + 1 : key;
    if (key[0] == '/' || !base[0] || strchr(base, '.') || strncmp(key, "../", 3) == 0 ||
        strstr(key, "/../"))
        return false;
    for (const unsigned char *at = (const unsigned char *)key; *at; at++)
        if (*at < 0x20 || *at == 0x7f)
            return false;
    return true;
}

int shard_writer_begin_sample(struct shard_writer *writer, const char *key, struct err *err)
{
    if (!key_is_valid(key))
        return invalid_input(
            writer, err, "bad key of a sample", key,
            "a relative path without \"..\" and control characters, no dot in its last "
            "part");
    int status = writer->frames ? frame_writer_end_record(writer->frames, err) : 0;
    if (!status)
        status = shard_index_builder_begin_sample(writer->builder, key, err);
    if (status)
        return status;
    strcpy(writer->key, key);
    writer->last_extension[0] = '\0';
    writer->index_bytes_estimate += strlen(key) + 4;
    return 0;
}

static bool extension_is_valid(const char *extension)
{
    for (const unsigned char *at = (const unsigned char *)extension; *at; at++)
        if (*at <= 0x20 || *at == 0x7f || *at == '/' || (*at >= 'A' && *at <= 'Z'))
            return false;
    return extension[0] != '\0' && strlen(extension) < SHARD_EXTENSION_BYTES_MAX;
}

int shard_writer_add_raw_image(struct shard_writer *writer, const char *extension, const void *data,
                               uint64_t size_bytes, struct shard_raw_image picture, struct err *err)
{
    assert(shard_index_builder_samples(writer->builder) > 0);
    if (!extension_is_valid(extension))
        return invalid_input(writer, err, "bad extension of a field", extension,
                             "1 to 47 bytes without capitals, spaces and slashes");
    if (strcmp(writer->last_extension, extension) > 0)
        return invalid_input(writer, err, "fields of a sample are out of order", extension,
                             "byte order of extensions");
    char name[SHARD_KEY_BYTES_MAX + SHARD_EXTENSION_BYTES_MAX];
    size_t key_bytes = strlen(writer->key);
    memcpy(name, writer->key, key_bytes);
    name[key_bytes] = '.';
    strcpy(name + key_bytes + 1, extension);
    str_clear(&writer->scratch);
    int status = tar_add_header(&writer->scratch, name, size_bytes, err);
    if (!status)
        status = shard_index_builder_add_field(writer->builder, extension,
                                               writer->offset + writer->scratch.bytes, data,
                                               size_bytes, &picture, err);
    if (!status)
        status = append(writer, writer->scratch.data, writer->scratch.bytes, err);
    if (!status)
        status = append(writer, data, size_bytes, err);
    if (!status)
        status = append_padding(writer, err);
    if (status)
        return status;
    strcpy(writer->last_extension, extension);
    writer->field_bytes += size_bytes;
    writer->index_bytes_estimate +=
        12 + (size_bytes > SHARD_BLOCK_BYTES ? size_bytes / SHARD_BLOCK_BYTES * 4 + 4 : 0);
    return 0;
}

int shard_writer_add_field(struct shard_writer *writer, const char *extension, const void *data,
                           uint64_t size_bytes, struct err *err)
{
    return shard_writer_add_raw_image(writer, extension, data, size_bytes,
                                      (struct shard_raw_image){0}, err);
}

int shard_writer_add_number(struct shard_writer *writer, const char *name, double value,
                            struct err *err)
{
    writer->index_bytes_estimate += sizeof value;
    return shard_index_builder_add_number(writer->builder, name, value, err);
}

uint64_t shard_writer_bytes(const struct shard_writer *writer)
{
    return writer->offset + TAR_END_BYTES +
           bytes_round_up(writer->index_bytes_estimate, TAR_BLOCK_BYTES) + SHARD_TRAILER_BYTES;
}

uint64_t shard_writer_samples(const struct shard_writer *writer)
{
    return shard_index_builder_samples(writer->builder);
}

/* Encodes the index into scratch. */
static int encode_index(struct shard_writer *writer, bool with_crcs, uint32_t *ret_fields,
                        uint32_t *ret_crc32c, struct err *err)
{
    str_clear(&writer->scratch);
    int status =
        shard_index_builder_encode(writer->builder, with_crcs, &writer->scratch, ret_fields, err);
    if (!status)
        *ret_crc32c = crc32c(0, writer->scratch.data, writer->scratch.bytes);
    return status;
}

/* Encodes index and trailer, the tail of a shard, into scratch. */
static int encode_tail(struct shard_writer *writer, struct shard_trailer *trailer, struct err *err)
{
    uint8_t bytes[SHARD_TRAILER_BYTES];
    int status = encode_index(writer, true, &trailer->fields, &trailer->index_crc32c, err);
    if (status)
        return status;
    trailer->index_bytes = writer->scratch.bytes;
    uint64_t padded_bytes = bytes_round_up(trailer->index_bytes, TAR_BLOCK_BYTES);
    trailer->index_offset = writer->offset;
    trailer->archive_end = writer->offset - TAR_END_BYTES;
    trailer->file_bytes = trailer->index_offset + padded_bytes + SHARD_TRAILER_BYTES;
    trailer->version = SHARD_VERSION;
    trailer->flags = shard_index_builder_flags(writer->builder);
    trailer->samples = shard_index_builder_samples(writer->builder);
    shard_trailer_encode(trailer, bytes);
    str_add_fill(&writer->scratch, 0, padded_bytes - trailer->index_bytes);
    str_add(&writer->scratch, bytes, sizeof bytes);
    return str_status(&writer->scratch) ? err_set(err, -ENOMEM, "out of memory for an index") : 0;
}

static int append_archive_end(struct shard_writer *writer, struct err *err)
{
    int status = writer->frames ? frame_writer_end_frame(writer->frames, err) : 0;
    return status ? status : append(writer, NULL, TAR_END_BYTES, err);
}

/* tail: NULL for a plain tar. Completes ret_summary. */
static int finish_and_commit(struct shard_writer *writer, const struct str *tail,
                             struct shard_summary *ret_summary, struct err *err)
{
    ret_summary->uncompressed_bytes = writer->offset + (tail ? tail->bytes : 0);
    int status = 0;
    if (writer->frames)
        status = frame_writer_finish(writer->frames, tail ? tail->data : NULL,
                                     tail ? tail->bytes : 0, err);
    else if (tail)
        status = append(writer, tail->data, tail->bytes, err);
    if (!status)
        status = file_writer_finish(writer->output, err);
    if (status)
        return status;
    struct io_file *file = writer->file;
    writer->file = NULL;
    ret_summary->samples = shard_index_builder_samples(writer->builder);
    ret_summary->file_bytes = file_writer_bytes(writer->output);
    ret_summary->field_bytes = writer->field_bytes;
    ret_summary->xxh3 = file_writer_xxh3(writer->output);
    status =
        writer->io->transactions->finalize(writer->transaction, file, ret_summary->file_bytes, err);
    if (!status && !writer->is_borrowed) {
        struct io_transaction *transaction = writer->transaction;
        writer->transaction = NULL;
        status = writer->io->transactions->commit(transaction, err);
    }
    return status;
}

int shard_writer_commit(struct shard_writer *writer, struct shard_summary *ret_summary,
                        struct err *err)
{
    struct shard_trailer trailer = {0};
    struct shard_summary summary = {0};
    int status = append_archive_end(writer, err);
    if (!status)
        status = encode_tail(writer, &trailer, err);
    if (!status)
        status = finish_and_commit(writer, &writer->scratch, &summary, err);
    summary.index_offset = trailer.index_offset;
    summary.index_crc32c = trailer.index_crc32c;
    if (!status)
        *ret_summary = summary;
    shard_writer_abort(writer);
    return status;
}

int shard_writer_commit_plain(struct shard_writer *writer, struct shard_summary *ret_summary,
                              struct err *err)
{
    struct shard_summary summary = {0};
    uint32_t fields;
    int status = append_archive_end(writer, err);
    if (!status)
        status = encode_index(writer, false, &fields, &summary.index_crc32c, err);
    if (!status)
        status = finish_and_commit(writer, NULL, &summary, err);
    if (!status)
        *ret_summary = summary;
    shard_writer_abort(writer);
    return status;
}

void shard_writer_abort(struct shard_writer *writer)
{
    if (!writer)
        return;
    frame_writer_close(writer->frames);
    file_writer_close(writer->output);
    if (writer->transaction && !writer->is_borrowed)
        writer->io->transactions->abort(writer->transaction);
    shard_index_builder_close(writer->builder);
    str_deinit(&writer->scratch);
    free(writer);
}
