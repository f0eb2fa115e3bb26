/*
 * frame_reader — see frame_reader.h. Frames that a read needs as a whole are decompressed into its
 * memory, others into the kept frame.
 */
#include "io/zstd/frame_reader.h"

#include "base/bytes.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdlib.h>

enum { STORED_BYTES = 1 << 20 /* frames are read in pieces of about this size */ };

void frame_reader_deinit(struct frame_reader *reader)
{
    if (reader->queue)
        reader->io->ops->queue_close(reader->queue);
    ZSTD_freeDCtx(reader->context);
    free(reader->stored);
    free(reader->frame);
}

static int open_queue(struct frame_reader *reader)
{
    return reader->queue ? 0 : reader->io->ops->queue_open(reader->io, 1, &reader->queue, NULL);
}

/* Makes room for bytes, without keeping what is there. */
static int reserve(uint8_t **buffer, size_t *capacity, size_t bytes)
{
    if (bytes <= *capacity)
        return 0;
    free(*buffer);
    *buffer = malloc(bytes);
    *capacity = *buffer ? bytes : 0;
    return *buffer ? 0 : -ENOMEM;
}

ssize_t frame_reader_read_stored(struct frame_reader *reader, const struct frames_file *file,
                                 uint64_t offset, void *data, size_t bytes)
{
    struct io_request request = {
        .kind = IO_READ, .file = file->file, .offset = offset, .data = data, .bytes = bytes};
    int status = open_queue(reader);
    return status ? status : io_run_request(reader->queue, reader->io, &request);
}

/* A compressed file must not end early. */
static int read_all(struct frame_reader *reader, const struct frames_file *file, uint64_t offset,
                    void *data, size_t bytes)
{
    ssize_t count = frame_reader_read_stored(reader, file, offset, data, bytes);
    return count < 0 ? (int)count : (size_t)count < bytes ? -EBADMSG : 0;
}

static int decompress(struct frame_reader *reader, const uint8_t *stored, size_t stored_bytes,
                      uint8_t *content, size_t content_bytes)
{
    if (!reader->context)
        reader->context = ZSTD_createDCtx();
    if (!reader->context)
        return -ENOMEM;
    size_t count =
        ZSTD_decompressDCtx(reader->context, content, content_bytes, stored, stored_bytes);
    return count == content_bytes ? 0 : -EBADMSG;
}

/* A read of content. */
struct wanted {
    uint64_t offset;
    size_t bytes;
    uint8_t *data;
};

static int copy_from_kept_frame(struct frame_reader *reader, const struct frames_file *file,
                                uint32_t frame, const struct wanted *wanted)
{
    const uint64_t *content_at = &file->table.content_at[frame];
    uint64_t begin = bytes_max(wanted->offset, content_at[0]),
             end = bytes_min(wanted->offset + wanted->bytes, content_at[1]);
    memcpy(wanted->data + (begin - wanted->offset), reader->frame + (begin - content_at[0]),
           end - begin);
    return 0;
}

/* stored: the frame as it is in the file. */
static int take_frame(struct frame_reader *reader, const struct frames_file *file, uint32_t frame,
                      const uint8_t *stored, const struct wanted *wanted)
{
    const uint64_t *content_at = &file->table.content_at[frame],
                   *stored_at = &file->table.stored_at[frame];
    size_t content_bytes = content_at[1] - content_at[0],
           stored_bytes = stored_at[1] - stored_at[0];
    if (content_bytes == 0)
        return 0;
    if (content_at[0] >= wanted->offset && content_at[1] <= wanted->offset + wanted->bytes)
        return decompress(reader, stored, stored_bytes,
                          wanted->data + (content_at[0] - wanted->offset), content_bytes);
    reader->kept_number = 0;
    int status = reserve(&reader->frame, &reader->frame_capacity, content_bytes);
    if (!status)
        status = decompress(reader, stored, stored_bytes, reader->frame, content_bytes);
    if (status)
        return status;
    reader->kept_number = file->number;
    reader->kept_frame = frame;
    return copy_from_kept_frame(reader, file, frame, wanted);
}

/* Reads the frames that contain the bytes, which lie before the tail. */
static int read_frames(struct frame_reader *reader, const struct frames_file *file,
                       const struct wanted *wanted)
{
    const struct seek_table *table = &file->table;
    uint32_t frame = seek_table_find(table, wanted->offset),
             end = seek_table_find(table, wanted->offset + wanted->bytes - 1) + 1;
    int status = 0;
    if (reader->kept_number == file->number && reader->kept_frame == frame)
        status = copy_from_kept_frame(reader, file, frame++, wanted);
    while (!status && frame < end) {
        uint32_t last = frame;
        while (last + 1 < end &&
               table->stored_at[last + 2] - table->stored_at[frame] <= STORED_BYTES)
            last++;
        uint64_t at = table->stored_at[frame];
        size_t bytes = table->stored_at[last + 1] - at;
        status = reserve(&reader->stored, &reader->stored_capacity, bytes_max(bytes, STORED_BYTES));
        if (!status)
            status = read_all(reader, file, at, reader->stored, bytes);
        for (; !status && frame <= last; frame++)
            status = take_frame(reader, file, frame,
                                reader->stored + (table->stored_at[frame] - at), wanted);
    }
    return status;
}

ssize_t frame_reader_read(struct frame_reader *reader, const struct frames_file *file,
                          uint64_t offset, void *data, size_t bytes)
{
    const struct seek_table *table = &file->table;
    uint64_t tail_from = table->content_at[table->frames_count],
             content_bytes = seek_table_content_bytes(table);
    if (offset >= content_bytes)
        return 0;
    bytes = bytes_min(bytes, content_bytes - offset);
    size_t before_tail = offset < tail_from ? bytes_min(bytes, tail_from - offset) : 0;
    const struct wanted wanted = {offset, before_tail, data};
    int status = before_tail > 0 ? read_frames(reader, file, &wanted) : 0;
    if (!status && before_tail < bytes)
        status =
            read_all(reader, file, seek_table_tail_at(table) + (offset + before_tail - tail_from),
                     (uint8_t *)data + before_tail, bytes - before_tail);
    return status ? status : (ssize_t)bytes;
}
