/*
 * foreign — fuzz target: a tar of another tool, walked to an index (shards/foreign.h). An index that was built can be read.
 */
#include "shards/foreign.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct foreign_options options = {.crcs = bytes % 2 == 0, .accept_lost_index = true};
    struct foreign_index found = {0};
    struct shard_index *index;
    struct memory_io memory;
    struct io_file *file;
    struct err err;
    memory_io_init(&memory, data, bytes);
    if (memory.io.ops->file_open(&memory.io, "input", &file, &err))
        return 0;
    if (foreign_index_build(&memory.io, file, "input", &options, &found, &err) == 0) {
        if (found.trailer.archive_end > bytes)
            abort();
        if (shard_index_decode((const uint8_t *)found.index.data, found.index.bytes, &found.trailer, "input",
                               &index, &err))
            abort();
        fuzz_walk_index(index, found.trailer.archive_end);
        shard_index_close(index);
    }
    foreign_index_deinit(&found);
    memory.io.ops->file_close(file);
    return 0;
}
