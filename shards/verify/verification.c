/*
 * verification — see verification.h.
 */
#include "shards/verify/verification.h"

#include "base/bytes.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int verification_open(struct verification *v)
{
    struct verify_stream *stream = &v->stream;
    stream->file_bytes = v->io->ops->file_size(stream->shard->file);
    stream->hash = hash_stream_open();
    stream->buffer = malloc(VERIFY_BUFFER_BYTES);
    if (!stream->hash || !stream->buffer)
        return err_set(v->err, -ENOMEM, "out of memory for verifying");
    return v->io->ops->queue_open(v->io, 1, &stream->queue, v->err);
}

void verification_close(struct verification *v)
{
    if (v->stream.queue)
        v->io->ops->queue_close(v->stream.queue);
    hash_stream_close(v->stream.hash);
    free(v->stream.buffer);
    shard_close(v->stream.shard);
    io_close(v->io);
    str_deinit(&v->member);
}

static int fill_buffer(struct verification *v)
{
    struct verify_stream *stream = &v->stream;
    stream->buffer_offset += stream->buffer_bytes;
    if (v->options->stop && atomic_load(v->options->stop)) {
        err_set(v->err, -EINTR, "verification was stopped on request");
        err_at(v->err, v->path, (int64_t)stream->buffer_offset);
        return -EINTR;
    }
    stream->buffer_bytes =
        bytes_min(VERIFY_BUFFER_BYTES, stream->file_bytes - stream->buffer_offset);
    int status = io_read_exact(stream->queue, v->io, stream->shard->file, v->path,
                               stream->buffer_offset, stream->buffer, stream->buffer_bytes, v->err);
    if (status)
        return status;
    hash_stream_update(stream->hash, stream->buffer, stream->buffer_bytes);
    v->result->bytes += stream->buffer_bytes;
    if (v->options->progress)
        v->options->progress(v->options->context,
                             v->bytes_before + stream->buffer_offset + stream->buffer_bytes,
                             v->bytes_total);
    return 0;
}

int verification_read(struct verification *v, uint64_t offset, void *data, uint64_t bytes)
{
    struct verify_stream *stream = &v->stream;
    uint8_t *to = data;
    if (offset < stream->buffer_offset || offset > stream->file_bytes ||
        bytes > stream->file_bytes - offset)
        return -ENODATA;
    while (bytes > 0) {
        uint64_t end = stream->buffer_offset + stream->buffer_bytes;
        if (offset >= end) {
            int status = fill_buffer(v);
            if (status)
                return status;
            continue;
        }
        uint64_t piece = bytes_min(bytes, end - offset);
        if (to) {
            memcpy(to, stream->buffer + (offset - stream->buffer_offset), piece);
            to += piece;
        }
        offset += piece;
        bytes -= piece;
    }
    return 0;
}

int verification_hash_stored(struct verification *v, uint64_t *ret_xxh3, uint64_t *ret_bytes)
{
    struct io *io = v->stored_io;
    struct io_file *file = NULL;
    struct io_queue *queue = NULL;
    struct hash_stream *hash = hash_stream_open();
    uint8_t *buffer = v->stream.buffer;
    uint64_t bytes = 0;
    int status = hash ? io->ops->file_open(io, v->path, &file, v->err)
                      : err_set(v->err, -ENOMEM, "out of memory for verifying");
    if (!status)
        status = io->ops->queue_open(io, 1, &queue, v->err);
    for (uint64_t at = 0; !status && at < (bytes = io->ops->file_size(file));) {
        size_t piece = bytes_min(VERIFY_BUFFER_BYTES, bytes - at);
        status = io_read_exact(queue, io, file, v->path, at, buffer, piece, v->err);
        if (!status)
            hash_stream_update(hash, buffer, piece);
        at += piece;
    }
    if (!status) {
        *ret_xxh3 = hash_stream_64(hash);
        *ret_bytes = bytes;
    }
    if (queue)
        io->ops->queue_close(queue);
    if (file)
        io->ops->file_close(file);
    hash_stream_close(hash);
    return status;
}

int verification_check_zeros(struct verification *v, const char *key, uint64_t offset, uint64_t end)
{
    uint8_t block[SHARD_TRAILER_BYTES];
    while (offset < end) {
        uint64_t bytes = bytes_min(sizeof block, end - offset);
        int status = verification_read(v, offset, block, bytes);
        if (status)
            return status;
        for (uint64_t i = 0; i < bytes; i++) {
            if (block[i]) {
                verification_report_mismatch(v, key, offset + i, "padding is not zero", 0,
                                             block[i]);
                return 0;
            }
        }
        offset += bytes;
    }
    return 0;
}

bool verification_next_field(struct verification *v, struct shard_field *ret_field)
{
    const struct shard_index *index = v->stream.shard->index;
    for (; v->sample < shard_index_samples(index); v->sample++, v->field = 0) {
        for (; v->field < shard_index_fields(index); v->field++) {
            shard_index_field(index, v->sample, v->field, ret_field);
            if (ret_field->present)
                return true;
        }
    }
    return false;
}

void verification_key(const struct verification *v, char key[SHARD_KEY_BYTES_MAX])
{
    uint32_t bytes;
    const char *text = shard_index_key(v->stream.shard->index, v->sample, &bytes);
    memcpy(key, text, bytes);
    key[bytes] = '\0';
}

void verification_report(struct verification *v, enum verify_kind kind, const char *key,
                         const struct err *err)
{
    struct verify_problem problem = {.kind = kind, .path = v->path, .key = key, .err = err};
    v->result->problems_count++;
    v->result->kinds_count[kind]++;
    if (v->options->on_problem)
        v->options->on_problem(v->options->context, &problem);
}

void verification_note(struct verification *v, const char *key, uint64_t offset, const char *what,
                       const char *advice)
{
    struct err err;
    struct verify_problem noted = {.path = v->path, .key = key, .err = &err};
    err_set(&err, -EBADMSG, "%s", what);
    err_at(&err, v->path, (int64_t)offset);
    err_advise(&err, "%s", advice);
    v->result->notes_count++;
    if (v->options->on_note)
        v->options->on_note(v->options->context, &noted);
}

void verification_report_mismatch(struct verification *v, const char *key, uint64_t offset,
                                  const char *what, uint64_t expected, uint64_t found)
{
    struct err err;
    err_set(&err, -EBADMSG, "%s", what);
    err_at(&err, v->path, (int64_t)offset);
    err_expected(&err, "%" PRIu64, expected);
    err_found(&err, "%" PRIu64, found);
    verification_report(v, VERIFY_ARCHIVE, key, &err);
}

void verification_report_checksum_mismatch(struct verification *v, const char *key, uint64_t offset,
                                           const char *what, int digits, uint64_t expected,
                                           uint64_t found)
{
    struct err err;
    err_set(&err, -EBADMSG, "%s", what);
    err_at(&err, v->path, (int64_t)offset);
    err_expected(&err, "%0*" PRIx64, digits, expected);
    err_found(&err, "%0*" PRIx64, digits, found);
    verification_report(v, VERIFY_CHECKSUM, key, &err);
}
