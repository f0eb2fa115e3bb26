/*
 * shard_writer — see shard.h.
 *
 * One of two buffers fills while the other is written. For direct I/O, writes are BUFFER_BYTES
 * long and aligned; the last one is padded to IO_ALIGN_BYTES, and finalizing truncates it.
 */
#include "shards/format/shard.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/hash.h"
#include "io/file_util.h"
#include "shards/format/tar.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20, BUFFERS_COUNT = 2 };

static_assert(BUFFER_BYTES % IO_ALIGN_BYTES == 0, "writes are aligned");

struct shard_writer {
    struct io *io;
    struct io_transaction *transaction;
    bool is_borrowed; /* the caller's transaction, of a folder */
    struct io_file *file;
    struct io_queue *queue;
    struct shard_index_builder *builder;
    struct hash_stream *hash;
    uint8_t *buffers[BUFFERS_COUNT];
    struct io_request requests[BUFFERS_COUNT];
    bool in_flight[BUFFERS_COUNT];
    unsigned current;
    size_t filled_bytes;
    uint64_t offset;
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
    writer->hash = hash_stream_open();
    for (int i = 0; i < BUFFERS_COUNT; i++)
        writer->buffers[i] = aligned_alloc(IO_ALIGN_BYTES, BUFFER_BYTES);
    if (!writer->hash || !writer->buffers[0] || !writer->buffers[1]) {
        status = err_set(err, -ENOMEM, "out of memory for a shard writer's buffers");
        goto out;
    }
    status = shard_index_builder_open(&writer->builder, err);
    if (!status)
        status = io->ops->queue_open(io, BUFFERS_COUNT, &writer->queue, err);
    struct io_transaction_options options = {
        .path = writer->path, .single_file = true, .replace = replace};
    writer->is_borrowed = folder != NULL;
    writer->transaction = folder;
    if (!status && !folder)
        status = io->transactions->begin(io, &options, &writer->transaction, err);
    if (!status)
        status = io->transactions->create(writer->transaction, name, 0, &writer->file, err);
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

static int wait_for_buffer(struct shard_writer *writer, unsigned buffer, struct err *err)
{
    while (writer->in_flight[buffer]) {
        struct io_request *done = NULL;
        int count = writer->io->ops->reap(writer->queue, &done, 1, 1, IO_FOREVER);
        if (count < 0 || (done && done->result < 0)) {
            int status = count < 0 ? count : (int)done->result;
            err_errno(err, status, "could not write");
            err_at(err, writer->path, done ? (int64_t)done->offset : ERR_NO_OFFSET);
            return status;
        }
        if (done)
            writer->in_flight[done - writer->requests] = false;
    }
    return 0;
}

static int submit_buffer(struct shard_writer *writer, size_t bytes, struct err *err)
{
    unsigned buffer = writer->current;
    struct io_request *request = &writer->requests[buffer];
    *request = (struct io_request){.kind = IO_WRITE,
                                   .file = writer->file,
                                   .offset = writer->offset - writer->filled_bytes,
                                   .data = writer->buffers[buffer],
                                   .bytes = bytes};
    int taken = writer->io->ops->submit(writer->queue, &request, 1);
    if (taken < 0) {
        err_errno(err, taken, "could not write");
        err_at(err, writer->path, (int64_t)request->offset);
        return taken;
    }
    assert(taken == 1); /* the queue has one slot per buffer */
    writer->in_flight[buffer] = true;
    writer->current = (buffer + 1) % BUFFERS_COUNT;
    writer->filled_bytes = 0;
    return wait_for_buffer(writer, writer->current, err);
}

/* data: NULL appends zeros. */
static int append(struct shard_writer *writer, const void *data, uint64_t bytes, struct err *err)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        size_t piece = (size_t)bytes_min(bytes, BUFFER_BYTES - writer->filled_bytes);
        uint8_t *to = writer->buffers[writer->current] + writer->filled_bytes;
        if (from) {
            memcpy(to, from, piece);
            from += piece;
        } else {
            memset(to, 0, piece);
        }
        hash_stream_update(writer->hash, to, piece);
        writer->filled_bytes += piece;
        writer->offset += piece;
        bytes -= piece;
        if (writer->filled_bytes == BUFFER_BYTES) {
            int status = submit_buffer(writer, BUFFER_BYTES, err);
            if (status)
                return status;
        }
    }
    return 0;
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
    int status = shard_index_builder_begin_sample(writer->builder, key, err);
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
    snprintf(name, sizeof name, "%s.%s", writer->key, extension);
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

static int append_tail(struct shard_writer *writer, struct shard_trailer *trailer, struct err *err)
{
    trailer->archive_end = writer->offset;
    int status = append(writer, NULL, TAR_END_BYTES, err);
    if (status)
        return status;
    trailer->index_offset = writer->offset;
    status = encode_index(writer, true, &trailer->fields, &trailer->index_crc32c, err);
    if (status)
        return status;
    trailer->index_bytes = writer->scratch.bytes;
    status = append(writer, writer->scratch.data, writer->scratch.bytes, err);
    if (!status)
        status = append_padding(writer, err);
    if (status)
        return status;
    trailer->version = SHARD_VERSION;
    trailer->flags = shard_index_builder_flags(writer->builder);
    trailer->samples = shard_index_builder_samples(writer->builder);
    trailer->file_bytes = writer->offset + SHARD_TRAILER_BYTES;
    uint8_t bytes[SHARD_TRAILER_BYTES];
    shard_trailer_encode(trailer, bytes);
    return append(writer, bytes, sizeof bytes, err);
}

static int flush_and_commit(struct shard_writer *writer, struct err *err)
{
    int status = 0;
    if (writer->filled_bytes > 0) {
        size_t padded = bytes_round_up(writer->filled_bytes, IO_ALIGN_BYTES);
        memset(writer->buffers[writer->current] + writer->filled_bytes, 0,
               padded - writer->filled_bytes);
        status = submit_buffer(writer, padded, err);
    }
    for (unsigned i = 0; i < BUFFERS_COUNT && !status; i++)
        status = wait_for_buffer(writer, i, err);
    if (!status) {
        struct io_file *file = writer->file;
        writer->file = NULL;
        status = writer->io->transactions->finalize(writer->transaction, file, writer->offset, err);
    }
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
    int status = append_tail(writer, &trailer, err);
    if (!status)
        status = flush_and_commit(writer, err);
    if (!status)
        *ret_summary = (struct shard_summary){
            .samples = trailer.samples,
            .file_bytes = trailer.file_bytes,
            .field_bytes = writer->field_bytes,
            .index_offset = trailer.index_offset,
            .xxh3 = hash_stream_64(writer->hash),
            .index_crc32c = trailer.index_crc32c,
        };
    shard_writer_abort(writer);
    return status;
}

int shard_writer_commit_plain(struct shard_writer *writer, struct shard_summary *ret_summary,
                              struct err *err)
{
    uint32_t fields, crc = 0;
    int status = append(writer, NULL, TAR_END_BYTES, err);
    if (!status)
        status = encode_index(writer, false, &fields, &crc, err);
    if (!status)
        status = flush_and_commit(writer, err);
    if (!status)
        *ret_summary = (struct shard_summary){
            .samples = shard_index_builder_samples(writer->builder),
            .file_bytes = writer->offset,
            .field_bytes = writer->field_bytes,
            .xxh3 = hash_stream_64(writer->hash),
            .index_crc32c = crc,
        };
    shard_writer_abort(writer);
    return status;
}

void shard_writer_abort(struct shard_writer *writer)
{
    if (!writer)
        return;
    if (writer->queue)
        writer->io->ops->queue_close(writer->queue);
    if (writer->transaction && !writer->is_borrowed)
        writer->io->transactions->abort(writer->transaction);
    shard_index_builder_close(writer->builder);
    hash_stream_close(writer->hash);
    for (int i = 0; i < BUFFERS_COUNT; i++)
        free(writer->buffers[i]);
    str_deinit(&writer->scratch);
    free(writer);
}
