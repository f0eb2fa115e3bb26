#include "ckpt/save/image_writer.h"

#include "base/bytes.h"
#include "base/crc.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int open_queue(struct image_writer *image, struct err *err)
{
    return image->io->ops->queue_open(image->io, IMAGE_WRITES_MAX, &image->queue, err);
}

int image_writer_init(struct image_writer *image, struct snapshot *snapshot, uint32_t *block_crc32c,
                      struct io *io, struct err *err)
{
    *image = (struct image_writer){.snapshot = snapshot, .io = io, .block_crc32c = block_crc32c};
    image->requests = calloc(snapshot->buffers_count, sizeof *image->requests);
    int status = image->requests ? open_queue(image, err)
                                 : err_set(err, -ENOMEM, "out of memory for writes");
    if (status)
        image_writer_deinit(image);
    return status;
}

void image_writer_deinit(struct image_writer *image)
{
    if (image->queue)
        image->io->ops->queue_close(image->queue);
    free(image->requests);
    *image = (struct image_writer){0};
}

static int submit(struct image_writer *image, struct io_file *const files[LAYOUT_FILES],
                  unsigned buffer, uint64_t number, struct err *err)
{
    const struct layout_block *block = &image->snapshot->layout->blocks[number];
    const char *data = snapshot_bytes(image->snapshot, buffer);
    struct io_request *request = &image->requests[buffer];
    /* IO_NOREUSE, because only a later resume reads the data. */
    *request = (struct io_request){.kind = IO_WRITE,
                                   .file = files[block->file],
                                   .offset = block->file_offset_bytes,
                                   .data = (void *)(uintptr_t)data,
                                   .bytes = bytes_round_up(block->size_bytes, IO_ALIGN_BYTES),
                                   .flags = IO_NOREUSE};
    int taken = image->io->ops->submit(image->queue, &request, 1);
    assert(taken != 0); /* the queue holds all writes in progress */
    /* Safe during the write: both only read the data. */
    image->block_crc32c[number] = crc32c(0, data, block->size_bytes);
    return taken < 0 ? err_errno(err, taken, "could not submit a write") : 0;
}

/* Closing the queue ends its writes. Their buffers stay taken until the next snapshot_begin. */
static void drop_queue(struct image_writer *image, unsigned *in_flight)
{
    image->io->ops->queue_close(image->queue);
    image->queue = NULL;
    *in_flight = 0;
}

static void name_error_file(const struct image_writer *image,
                            struct io_file *const files[LAYOUT_FILES], const char *path,
                            const struct io_request *request, struct err *err)
{
    enum layout_file file = request->file == files[LAYOUT_OWN] ? LAYOUT_OWN : LAYOUT_CONSOLIDATED;
    char text[IO_PATH_BYTES_MAX];
    snprintf(text, sizeof text, "%s/%s", path, image->file_names[file]);
    err_at(err, text, (int64_t)request->offset);
}

/* Waits for at least min_count writes and releases their buffers. *status keeps the first
 * failure. */
static void reap(struct image_writer *image, struct io_file *const files[LAYOUT_FILES],
                 const char *path, unsigned min_count, unsigned *in_flight, int *status,
                 struct err *err)
{
    struct io_request *done[IMAGE_WRITES_MAX];
    uint64_t began_ns = trace_begin(image->track);
    int count = image->io->ops->reap(image->queue, done, IMAGE_WRITES_MAX, min_count,
                                     min_count > 0 ? IO_FOREVER : 0);
    trace_end(image->track, min_count > 0 ? "wait for writes" : "reap", began_ns);
    for (int i = 0; i < count; i++) {
        ssize_t result = done[i]->result;
        if (result >= 0 && (size_t)result != done[i]->bytes)
            result = -EIO;
        if (result < 0 && !*status) {
            *status = err_errno(err, (int)result, "could not write the checkpoint");
            name_error_file(image, files, path, done[i], err);
        }
        snapshot_release(image->snapshot, (unsigned)(done[i] - image->requests));
        --*in_flight;
    }
    if (count >= 0)
        return;
    drop_queue(image, in_flight);
    if (!*status) {
        *status = err_errno(err, count, "could not wait for writes");
        err_at(err, path, ERR_NO_OFFSET);
    }
}

static unsigned required_align(const struct image_writer *image,
                               struct io_file *const files[LAYOUT_FILES])
{
    const struct io_ops *ops = image->io->ops;
    unsigned align_max = 1; /* writes through the page cache need no alignment */
    for (int i = 0; i < LAYOUT_FILES; i++) {
        unsigned align = files[i] && ops->direct_align ? ops->direct_align(image->io, files[i]) : 0;
        align_max = align > align_max ? align : align_max;
    }
    return align_max;
}

int image_writer_run(struct image_writer *image, struct io_file *const files[LAYOUT_FILES],
                     const char *path, struct err *err)
{
    struct snapshot *snapshot = image->snapshot;
    unsigned in_flight = 0;
    int status = image->queue ? 0 : open_queue(image, err);
    if (status)
        snapshot_fail(snapshot, status, err);
    if (!status)
        snapshot_allow_in_place(snapshot, required_align(image, files));
    for (;;) {
        unsigned buffer;
        uint64_t block;
        if (!status)
            status = snapshot_status(snapshot, err); /* a copy from the device failed */
        uint64_t began_ns = trace_begin(image->track);
        enum snapshot_next next = SNAPSHOT_AGAIN;
        if (status)
            next = SNAPSHOT_DONE;
        else if (in_flight < IMAGE_WRITES_MAX)
            next = snapshot_take(snapshot, &buffer, &block);
        if (next == SNAPSHOT_TAKEN) {
            status = submit(image, files, buffer, block, err);
            in_flight += status == 0;
            trace_end_with_value(image->track, "block", began_ns, "block", block);
        } else if (in_flight > 0) {
            bool staged = !status && snapshot_stage_ahead(snapshot);
            if (staged)
                trace_end(image->track, "stage ahead", began_ns);
            reap(image, files, path, !staged, &in_flight, &status, err);
        } else if (next == SNAPSHOT_DONE) {
            return status;
        } else {
            snapshot_wait(snapshot);
            trace_end(image->track, "wait for copies", began_ns);
        }
        if (status)
            snapshot_fail(snapshot, status, err);
    }
}
