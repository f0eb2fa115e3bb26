/*
 * shard — fuzz target: trailer and index of a shard (shards/format/shard.h, shards/format/index.h).
 *
 * The target corrects both CRCs and the file size first, since no mutation would pass them.
 */
#include "shards/format/shard.h"
#include "base/bytes.h"
#include "base/crc.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void fix_checksums(uint8_t *file, size_t bytes)
{
    uint8_t *trailer = file + bytes - SHARD_TRAILER_BYTES;
    uint64_t index_offset = bytes_get_u64(trailer + 16), index_bytes = bytes_get_u64(trailer + 24);
    if (index_offset <= bytes && index_bytes <= bytes - index_offset)
        bytes_put_u32(trailer + 56, crc32c(0, file + index_offset, (size_t)index_bytes));
    bytes_put_u64(trailer + 32, bytes);
    bytes_put_u32(trailer + 508, crc32c(0, trailer, 508));
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
        fix_checksums(file, bytes);
    memory_io_init(&memory, file, bytes);
    if (shard_open(&memory.io, "input", &shard, &err) == 0) {
        fuzz_walk_index(shard->index, shard->trailer.archive_end);
        shard_close(shard);
    }
    free(file);
    return 0;
}
