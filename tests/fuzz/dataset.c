/*
 * dataset — fuzz target: dataset.json (shards/dataset/dataset.h). An accepted file can be written
 * and reads back unchanged.
 */
#include "shards/dataset/dataset.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct memory_io memory;
    struct dataset *dataset, *again;
    struct str text = {0};
    struct err err;
    memory_io_init(&memory, data, bytes);
    if (dataset_open(&memory.io, "dataset.json", &dataset, &err))
        return 0;
    if (dataset->samples > 0) {
        uint64_t within, shard = dataset_locate(dataset, dataset->samples - 1, &within);
        char path[IO_PATH_BYTES_MAX];
        if (shard >= dataset->shards_count || within >= dataset->shards[shard].samples)
            abort();
        dataset_shard_path(dataset, shard, path, &err);
    }
    if (dataset_encode(dataset, &text, &err) == 0) {
        memory_io_init(&memory, (const uint8_t *)text.data, text.bytes);
        if (dataset_open(&memory.io, "dataset.json", &again, &err) == 0) {
            if (again->fingerprint != dataset->fingerprint || again->samples != dataset->samples)
                abort();
            dataset_close(again);
        }
    }
    str_deinit(&text);
    dataset_close(dataset);
    return 0;
}
