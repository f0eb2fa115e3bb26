/*
 * fuzz — shared by the fuzz targets: libFuzzer's entry point, and an io backend that holds one file
 * in memory.
 *
 * A target wraps a real parser in a few lines. For any input the parser returns 0 or an error;
 * crashes, leaks, reads out of bounds, undefined arithmetic and hangs are findings. `scripts/fuzz`
 * creates the initial corpus and runs the targets.
 */
#ifndef MILLRACE_TESTS_FUZZ_FUZZ_H
#define MILLRACE_TESTS_FUZZ_FUZZ_H

#include "io/io.h"
#include "shards/format/index.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* libFuzzer calls this for every input. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The input as a string, which the target frees; NULL: out of memory. */
static inline char *fuzz_text(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (text) {
        memcpy(text, data, bytes);
        text[bytes] = '\0';
    }
    return text;
}

/* A read-only backend in which every path names one file with the borrowed bytes. The caller owns
 * the struct. */
struct memory_io {
    struct io io;
    const uint8_t *data;
    size_t bytes;
};
void memory_io_init(struct memory_io *memory, const uint8_t *data, size_t bytes);

/* Runs every query that an index supports; aborts unless all results lie within the archive. */
void fuzz_walk_index(const struct shard_index *index, uint64_t archive_end);

#endif
