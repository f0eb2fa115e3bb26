/*
 * safetensors — fuzz target: the header of a safetensors file (ckpt/format/safetensors.h).
 */
#include "ckpt/format/safetensors.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct memory_io memory;
    struct safetensors file;
    struct err err;
    memory_io_init(&memory, data, bytes);
    if (safetensors_read(&memory.io, "input", &file, &err))
        return 0;
    for (uint64_t i = 0; i < file.count; i++) {
        const struct safetensors_entry *entry = &file.entries[i];
        if (entry->offset_bytes > bytes || entry->size_bytes > bytes - entry->offset_bytes)
            abort();
    }
    safetensors_deinit(&file);
    return 0;
}
