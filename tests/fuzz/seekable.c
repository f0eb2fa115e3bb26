/*
 * seekable — fuzz target: files in zstd's seekable format (io/zstd/seekable_io.h). What a file
 * reads in one piece, it reads in parts.
 */
#include "io/file_util.h"
#include "io/zstd/seekable_io.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { CONTENT_BYTES_MAX = 8 << 20, PARTS = 8 };

static void read_parts(struct io *io, struct io_file *file, struct io_queue *queue,
                       const uint8_t *content, uint64_t bytes)
{
    static uint8_t part[CONTENT_BYTES_MAX];
    for (uint64_t i = 0; i < PARTS; i++) {
        uint64_t begin = bytes * i / (PARTS + 1), count = bytes / PARTS;
        if (io_read_exact(queue, io, file, "input.zst", begin, part, count, NULL) ||
            memcmp(part, content + begin, count) != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint8_t content[CONTENT_BYTES_MAX];
    struct memory_io memory;
    struct io *io;
    struct io_file *file;
    struct io_queue *queue;
    struct err err;
    memory_io_init(&memory, data, bytes);
    if (seekable_io_open(&memory.io, 1, &io, &err))
        return 0;
    if (io->ops->file_open(io, "input.zst", &file, &err) == 0) {
        uint64_t content_bytes = io->ops->file_size(file);
        if (content_bytes <= CONTENT_BYTES_MAX && io->ops->queue_open(io, 1, &queue, &err) == 0) {
            if (io_read_exact(queue, io, file, "input.zst", 0, content, content_bytes, NULL) == 0)
                read_parts(io, file, queue, content, content_bytes);
            io->ops->queue_close(queue);
        }
        io->ops->file_close(file);
    }
    io_close(io);
    return 0;
}
