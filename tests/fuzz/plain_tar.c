/*
 * plain_tar — fuzz target: indexing a plain tar (shards/format/plain_tar.h). The index can be read,
 * and salvaging an undamaged tar gives the same index.
 */
#include "shards/format/plain_tar.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static void check(const struct plain_tar_index *found, uint64_t bytes)
{
    struct shard_index *index;
    struct err err;
    if (found->trailer.archive_end > bytes)
        abort();
    if (shard_index_decode((const uint8_t *)found->index.data, found->index.bytes, &found->trailer,
                           "input", &index, &err))
        abort();
    fuzz_walk_index(index, found->trailer.archive_end);
    shard_index_close(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct salvage salvage = {0};
    struct plain_tar_options options = {.with_crcs = bytes % 2 == 0, .accept_lost_index = true};
    struct plain_tar_index strict = {0}, salvaged = {0};
    struct memory_io memory;
    struct io_file *file;
    struct err err;
    memory_io_init(&memory, data, bytes);
    if (memory.io.ops->file_open(&memory.io, "input", &file, &err))
        return 0;
    bool is_sound = plain_tar_index_build(&memory.io, file, "input", &options, &strict, &err) == 0;
    if (is_sound)
        check(&strict, bytes);
    options.salvage = &salvage;
    if (plain_tar_index_build(&memory.io, file, "input", &options, &salvaged, &err) == 0) {
        check(&salvaged, bytes);
        if (salvaged.is_partial == is_sound)
            abort();
    } else if (is_sound) {
        abort();
    }
    if (is_sound && (salvaged.identity_crc32c != strict.identity_crc32c ||
                     salvaged.trailer.index_crc32c != strict.trailer.index_crc32c))
        abort();
    plain_tar_index_deinit(&strict);
    plain_tar_index_deinit(&salvaged);
    memory.io.ops->file_close(file);
    return 0;
}
