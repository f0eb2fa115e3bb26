/*
 * identity — see identity.h.
 */
#include "convert/checkpoint/identity.h"

#include "base/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    /* Increment if the same options begin to yield different bytes or pieces. */
    IDENTITY_VERSION = 2
};

static void add_u64(struct hash_stream *stream, uint64_t value)
{
    hash_stream_update(stream, &value, sizeof value);
}

static void add_text(struct hash_stream *stream, const char *text)
{
    hash_stream_update(stream, text, strlen(text) + 1);
}

static void add_tensor(struct hash_stream *stream, const struct manifest_tensor *tensor)
{
    add_text(stream, tensor->name);
    add_u64(stream, tensor->dtype);
    add_u64(stream, tensor->rank);
    hash_stream_update(stream, tensor->shape, tensor->rank * sizeof tensor->shape[0]);
    for (uint64_t i = 0; i < tensor->chunks_count; i++) {
        const struct manifest_chunk *chunk = &tensor->chunks[i];
        add_u64(stream, chunk->file);
        add_u64(stream, chunk->offset_bytes);
        hash_stream_update(stream, chunk->start, tensor->rank * sizeof chunk->start[0]);
        hash_stream_update(stream, chunk->extent, tensor->rank * sizeof chunk->extent[0]);
    }
}

static void add_file(struct hash_stream *stream, const struct manifest_file *file)
{
    add_u64(stream, file->size_bytes);
    if (file->block_crc32c)
        hash_stream_update(stream, file->block_crc32c,
                           file->blocks_count * sizeof file->block_crc32c[0]);
    hash_stream_update(stream, file->identity.bytes, file->identity.bytes_count);
}

int identity_compute(const struct ckpt_reader *reader, const char *options, char *text,
                     struct err *err)
{
    const struct manifest *manifest = &reader->manifest;
    struct hash_stream *stream = hash_stream_open();
    if (!stream)
        return err_set(err, -ENOMEM, "not enough memory to convert a checkpoint");
    add_u64(stream, IDENTITY_VERSION);
    add_text(stream, options);
    for (uint64_t i = 0; i < manifest->tensors_count; i++)
        add_tensor(stream, &manifest->tensors[i]);
    for (uint64_t i = 0; i < manifest->files_count; i++)
        add_file(stream, &manifest->files[i]);
    snprintf(text, IDENTITY_BYTES, "convert.%016" PRIx64, hash_stream_64(stream));
    hash_stream_close(stream);
    return 0;
}
