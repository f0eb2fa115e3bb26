/*
 * file_writer — see file_writer.h.
 *
 * One of two buffers fills while the other is written. Writes bypass the page cache, if the file
 * system allows it: copying a large file into the cache takes more CPU time than everything else
 * here, and crowds out what is being read. They are BUFFER_BYTES long and aligned; the last one is
 * padded to IO_ALIGN_BYTES, and finalizing truncates it.
 */
#include "io/file_writer.h"

#include "base/bytes.h"
#include "base/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { BUFFER_BYTES = 1 << 20, BUFFERS_COUNT = 2 };

static_assert(BUFFER_BYTES % IO_ALIGN_BYTES == 0, "writes are aligned");

struct file_writer {
    struct io *io;
    struct io_file *file;
    const char *path;
    struct io_queue *queue;
    struct hash_stream *hash;
    uint8_t *buffers[BUFFERS_COUNT];
    struct io_request requests[BUFFERS_COUNT];
    bool in_flight[BUFFERS_COUNT];
    unsigned current;
    size_t filled_bytes;
    uint64_t offset;
};

int file_writer_open(struct io *io, struct io_file *file, const char *path,
                     struct file_writer **ret_writer, struct err *err)
{
    struct file_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return err_set(err, -ENOMEM, "out of memory for writing a file");
    writer->io = io;
    writer->file = file;
    writer->path = path;
    writer->hash = hash_stream_open();
    bool has_memory = writer->hash;
    for (int i = 0; i < BUFFERS_COUNT && has_memory; i++) {
        writer->buffers[i] = aligned_alloc(IO_ALIGN_BYTES, BUFFER_BYTES);
        has_memory = writer->buffers[i];
    }
    int status = has_memory ? io->ops->queue_open(io, BUFFERS_COUNT, &writer->queue, err)
                            : err_set(err, -ENOMEM, "out of memory for writing a file");
    if (status)
        file_writer_close(writer);
    else
        *ret_writer = writer;
    return status;
}

void file_writer_close(struct file_writer *writer)
{
    if (!writer)
        return;
    if (writer->queue)
        writer->io->ops->queue_close(writer->queue);
    hash_stream_close(writer->hash);
    for (int i = 0; i < BUFFERS_COUNT; i++)
        free(writer->buffers[i]);
    free(writer);
}

static int wait_for_buffer(struct file_writer *writer, unsigned buffer, struct err *err)
{
    while (writer->in_flight[buffer]) {
        struct io_request *done = NULL;
        int count = writer->io->ops->reap(writer->queue, &done, 1, 1, IO_FOREVER);
        if (count < 0 || (done && done->result < 0)) {
            int status = count < 0 ? count : (int)done->result;
            err_errno(err, status, "could not write");
            err_at(err, writer->path, done ? (int64_t)done->offset : ERR_NO_OFFSET);
            return status;
        }
        if (done)
            writer->in_flight[done - writer->requests] = false;
    }
    return 0;
}

static int submit_buffer(struct file_writer *writer, size_t bytes, struct err *err)
{
    unsigned buffer = writer->current;
    struct io_request *request = &writer->requests[buffer];
    *request = (struct io_request){.kind = IO_WRITE,
                                   .file = writer->file,
                                   .offset = writer->offset - writer->filled_bytes,
                                   .data = writer->buffers[buffer],
                                   .bytes = bytes,
                                   .flags = IO_NOREUSE};
    int taken = writer->io->ops->submit(writer->queue, &request, 1);
    if (taken < 0) {
        err_errno(err, taken, "could not write");
        err_at(err, writer->path, (int64_t)request->offset);
        return taken;
    }
    assert(taken == 1); /* the queue has one slot per buffer */
    writer->in_flight[buffer] = true;
    writer->current = (buffer + 1) % BUFFERS_COUNT;
    writer->filled_bytes = 0;
    return wait_for_buffer(writer, writer->current, err);
}

int file_writer_append(struct file_writer *writer, const void *data, uint64_t bytes,
                       struct err *err)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        size_t piece = (size_t)bytes_min(bytes, BUFFER_BYTES - writer->filled_bytes);
        uint8_t *to = writer->buffers[writer->current] + writer->filled_bytes;
        if (from) {
            memcpy(to, from, piece);
            from += piece;
        } else {
            memset(to, 0, piece);
        }
        hash_stream_update(writer->hash, to, piece);
        writer->filled_bytes += piece;
        writer->offset += piece;
        bytes -= piece;
        if (writer->filled_bytes == BUFFER_BYTES) {
            int status = submit_buffer(writer, BUFFER_BYTES, err);
            if (status)
                return status;
        }
    }
    return 0;
}

uint64_t file_writer_bytes(const struct file_writer *writer)
{
    return writer->offset;
}

int file_writer_finish(struct file_writer *writer, struct err *err)
{
    int status = 0;
    if (writer->filled_bytes > 0) {
        size_t padded = bytes_round_up(writer->filled_bytes, IO_ALIGN_BYTES);
        memset(writer->buffers[writer->current] + writer->filled_bytes, 0,
               padded - writer->filled_bytes);
        status = submit_buffer(writer, padded, err);
    }
    for (unsigned i = 0; i < BUFFERS_COUNT && !status; i++)
        status = wait_for_buffer(writer, i, err);
    return status;
}

uint64_t file_writer_xxh3(const struct file_writer *writer)
{
    return hash_stream_64(writer->hash);
}
