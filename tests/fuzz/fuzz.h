/*
 * fuzz — what the fuzz targets share: libFuzzer's entry, and a backend of io that holds one file in
 * memory.
 *
 * A target is a few lines over a real parser: whatever the bytes, it returns 0 or an error;
 * crashes, leaks, reads out of bounds, undefined arithmetic and hangs are findings. `scripts/fuzz`
 * makes the first inputs and runs them.
 */
#ifndef MILLRACE_TESTS_FUZZ_FUZZ_H
#define MILLRACE_TESTS_FUZZ_FUZZ_H

#include "io/io.h"
#include "shards/index.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* libFuzzer calls it for every input; always 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The input as a text, which the target frees; NULL: no memory. */
static inline char *fuzz_text(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (text) {
        memcpy(text, data, bytes);
        text[bytes] = '\0';
    }
    return text;
}

/* A backend whose every path is one file with these bytes, which are borrowed; reading only.
 * Caller's storage. */
struct memory_io {
    struct io io;
    const uint8_t *data;
    size_t bytes;
};
void memory_io_init(struct memory_io *memory, const uint8_t *data, size_t bytes);

/* Asks everything that a user of an index may ask; aborts unless all of it lies within the
 * archive. */
void fuzz_walk_index(const struct shard_index *index, uint64_t archive_end);

#endif
