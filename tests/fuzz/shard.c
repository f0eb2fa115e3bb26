/*
 * shard — fuzz target: trailer and index of a shard (shards/format/shard.h, shards/format/index.h).
 *
 * The target corrects both CRCs and the file size first, since no mutation would pass them. An
 * expected index_offset, right or wrong, must change nothing.
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

/* Opens the file with the trailer's own offset, and with one from its first bytes. */
static void open_with_offsets(struct memory_io *memory, const uint8_t *file, size_t bytes,
                              const struct shard *expected)
{
    uint64_t offsets[] = {bytes_get_u64(file + bytes - SHARD_TRAILER_BYTES + 16),
                          bytes_get_u64(file) % (bytes + 1) / 512 * 512};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        const struct shard_open_options options = {.index_offset = offsets[i]};
        struct shard *shard = NULL;
        struct err err;
        int status = shard_open_with(&memory->io, "input", &options, &shard, &err);
        if ((status == 0) != (expected != NULL))
            abort();
        if (!status && (shard->identity_crc32c != expected->identity_crc32c ||
                        shard->is_plain_tar != expected->is_plain_tar ||
                        shard_index_samples(shard->index) != shard_index_samples(expected->index)))
            abort();
        shard_close(shard);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t *file = malloc(bytes > 0 ? bytes : 1);
    struct memory_io memory;
    struct shard *shard = NULL;
    struct err err;
    if (!file)
        return 0;
    memcpy(file, data, bytes);
    if (bytes >= SHARD_TRAILER_BYTES)
        fix_checksums(file, bytes);
    memory_io_init(&memory, file, bytes);
    if (shard_open(&memory.io, "input", &shard, &err) == 0)
        fuzz_walk_index(shard->index, shard->trailer.archive_end);
    if (bytes >= SHARD_TRAILER_BYTES)
        open_with_offsets(&memory, file, bytes, shard);
    shard_close(shard);
    free(file);
    return 0;
}
