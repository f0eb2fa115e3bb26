/*
 * frame_writer — see frame_writer.h.
 *
 * Frames fill one after another. When all are full, the threads compress them, and they are
 * written in order.
 */
#include "io/zstd/frame_writer.h"

#include "base/bytes.h"
#include "base/os/thread_pool.h"
#include "base/versions.h"
#include "io/zstd/seek_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

struct frame {
    uint8_t *content; /* FRAME_WRITER_FRAME_BYTES_MAX */
    size_t content_bytes;
    uint8_t *stored; /* stored_capacity */
    size_t stored_bytes;
};

struct frame_writer {
    struct frame_writer_options options;
    struct thread_pool *pool;
    unsigned count; /* of threads, and of frames compressed at a time */
    size_t stored_capacity;
    struct frame *frames;
    ZSTD_CCtx **contexts; /* one per thread */
    unsigned filling;     /* frames[0..filling-1] are full */
    struct str entries;   /* of the seek table */
};

unsigned frame_writer_version(void)
{
    return ZSTD_versionNumber();
}

const char *frame_writer_library(char *text)
{
    snprintf(text, VERSION_TEXT_BYTES, "zstd %s", ZSTD_versionString());
    return text;
}

static ZSTD_CCtx *open_context(int level)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    if (context) {
        ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    }
    return context;
}

int frame_writer_open(const struct frame_writer_options *options, struct frame_writer **ret_writer,
                      struct err *err)
{
    struct frame_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return err_set(err, -ENOMEM, "out of memory for compressing a file");
    writer->options = *options;
    writer->stored_capacity = ZSTD_compressBound(FRAME_WRITER_FRAME_BYTES_MAX);
    int status = thread_pool_open(options->threads, &writer->pool, err);
    if (status)
        goto out;
    writer->count = thread_pool_count(writer->pool);
    writer->frames = calloc(writer->count, sizeof *writer->frames);
    writer->contexts = calloc(writer->count, sizeof(ZSTD_CCtx *));
    bool has_memory = writer->frames && writer->contexts;
    for (unsigned i = 0; has_memory && i < writer->count; i++) {
        writer->contexts[i] = open_context(options->level);
        writer->frames[i].content = malloc(FRAME_WRITER_FRAME_BYTES_MAX);
        writer->frames[i].stored = malloc(writer->stored_capacity);
        has_memory = writer->contexts[i] && writer->frames[i].content && writer->frames[i].stored;
    }
    if (!has_memory)
        status =
            err_set(err, -ENOMEM, "out of memory for compressing on %u threads", writer->count);
out:
    if (status)
        frame_writer_close(writer);
    else
        *ret_writer = writer;
    return status;
}

void frame_writer_close(struct frame_writer *writer)
{
    if (!writer)
        return;
    thread_pool_close(writer->pool);
    for (unsigned i = 0; i < writer->count; i++) {
        if (writer->contexts)
            ZSTD_freeCCtx(writer->contexts[i]);
        if (writer->frames) {
            free(writer->frames[i].content);
            free(writer->frames[i].stored);
        }
    }
    free(writer->contexts);
    free(writer->frames);
    str_deinit(&writer->entries);
    free(writer);
}

static void compress_frame(void *context, size_t number, unsigned worker)
{
    struct frame_writer *writer = context;
    struct frame *frame = &writer->frames[number];
    size_t bytes = ZSTD_compress2(writer->contexts[worker], frame->stored, writer->stored_capacity,
                                  frame->content, frame->content_bytes);
    frame->stored_bytes = ZSTD_isError(bytes) ? 0 : bytes; /* only for lack of memory */
}

static int write_frames(struct frame_writer *writer, struct err *err)
{
    thread_pool_run(writer->pool, writer->filling, compress_frame, writer);
    int status = 0;
    for (unsigned i = 0; i < writer->filling && !status; i++) {
        struct frame *frame = &writer->frames[i];
        status = frame->stored_bytes == 0
                     ? err_set(err, -ENOMEM, "out of memory for compressing")
                     : writer->options.write(writer->options.context, frame->stored,
                                             frame->stored_bytes, err);
        seek_table_add_frame(&writer->entries, (uint32_t)frame->stored_bytes,
                             (uint32_t)frame->content_bytes);
        frame->content_bytes = 0;
    }
    writer->filling = 0;
    return status;
}

int frame_writer_end_frame(struct frame_writer *writer, struct err *err)
{
    if (writer->frames[writer->filling].content_bytes == 0)
        return 0;
    writer->filling++;
    return writer->filling == writer->count ? write_frames(writer, err) : 0;
}

int frame_writer_end_record(struct frame_writer *writer, struct err *err)
{
    bool is_full = writer->frames[writer->filling].content_bytes >= FRAME_WRITER_FRAME_BYTES;
    return is_full ? frame_writer_end_frame(writer, err) : 0;
}

int frame_writer_add(struct frame_writer *writer, const void *data, size_t bytes, struct err *err)
{
    const uint8_t *from = data;
    int status = 0;
    while (bytes > 0 && !status) {
        struct frame *frame = &writer->frames[writer->filling];
        size_t piece = bytes_min(bytes, FRAME_WRITER_FRAME_BYTES_MAX - frame->content_bytes);
        if (from) {
            memcpy(frame->content + frame->content_bytes, from, piece);
            from += piece;
        } else {
            memset(frame->content + frame->content_bytes, 0, piece);
        }
        frame->content_bytes += piece;
        bytes -= piece;
        if (frame->content_bytes == FRAME_WRITER_FRAME_BYTES_MAX)
            status = frame_writer_end_frame(writer, err);
    }
    return status;
}

int frame_writer_finish(struct frame_writer *writer, const void *tail, size_t tail_bytes,
                        struct err *err)
{
    const struct frame_writer_options *options = &writer->options;
    struct str end = {0};
    int status = frame_writer_end_frame(writer, err);
    if (!status)
        status = write_frames(writer, err);
    if (tail_bytes > 0) {
        seek_table_add_tail_header(&writer->entries, (uint32_t)tail_bytes, &end);
        str_add(&end, tail, tail_bytes);
    }
    str_merge_status(&end, &writer->entries);
    seek_table_encode(&writer->entries, &end);
    if (!status && str_status(&end))
        status = err_set(err, -ENOMEM, "out of memory for a seek table");
    if (!status)
        status = options->write(options->context, end.data, end.bytes, err);
    str_deinit(&end);
    return status;
}
