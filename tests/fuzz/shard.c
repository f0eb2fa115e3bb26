/*
 * shard — fuzz target: trailer and index of a shard (shards/shard.h, shards/index.h).
 *
 * Both CRCs are made right first, and the file's size: otherwise no mutation would come past them.
 */
#include "shards/shard.h"
#include "base/bytes.h"
#include "base/crc.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void mend_sums(uint8_t *file, size_t bytes)
{
    uint8_t *trailer = file + bytes - SHARD_TRAILER_BYTES;
    uint64_t index_offset = bytes_get_u64(trailer + 16), index_bytes = bytes_get_u64(trailer + 24);
    if (index_offset <= bytes && index_bytes <= bytes - index_offset)
        bytes_put_u32(trailer + 56, crc32c(0, file + index_offset, (size_t)index_bytes));
    bytes_put_u64(trailer + 32, bytes);
    bytes_put_u32(trailer + 508, crc32c(0, trailer, 508));
}

/* Everything that a user of the index may ask; the promise is that all of it lies within the archive. */
static void walk(const struct shard *shard)
{
    for (uint64_t i = 0; i < shard_index_samples(shard->index); i++) {
        uint32_t key_bytes;
        const char *key = shard_index_key(shard->index, i, &key_bytes);
        uint64_t sum = 0;
        for (uint32_t k = 0; k < key_bytes; k++)
            sum += (unsigned char)key[k];
        for (uint32_t f = 0; f < shard_index_fields(shard->index); f++) {
            struct shard_field field;
            shard_index_field(shard->index, i, f, &field);
            if (!field.present)
                continue;
            if (field.data_offset > shard->trailer.archive_end ||
                field.size_bytes > shard->trailer.archive_end - field.data_offset)
                abort();
            for (uint64_t b = 0; field.block_crc32c && b * SHARD_BLOCK_BYTES < field.size_bytes; b++)
                sum += bytes_get_u32(field.block_crc32c + 4 * b);
        }
        if (sum == UINT64_MAX) /* keeps the reads */
            abort();
    }
    for (uint32_t f = 0; f < shard_index_fields(shard->index); f++) {
        if (shard_index_find(shard->index, shard_index_extension(shard->index, f)) != (int)f)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t *file = malloc(bytes > 0 ? bytes : 1);
    struct memory_io memory;
    struct shard *shard;
    struct err err;
    if (!file)
        return 0;
    memcpy(file, data, bytes);
    if (bytes >= SHARD_TRAILER_BYTES)
        mend_sums(file, bytes);
    memory_io_init(&memory, file, bytes);
    if (shard_open(&memory.io, "input", &shard, &err) == 0) {
        walk(shard);
        shard_close(shard);
    }
    free(file);
    return 0;
}
