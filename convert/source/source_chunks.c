/*
 * source_chunks — cuts documents into pieces that are tokenized independently, and counts their
 * tokens. See source.h.
 *
 * With byte-pair encoding a text's token count is only known after encoding. All of it is therefore
 * encoded twice: here to count, and again when members are written. Only 32 bytes per 64 KiB are
 * kept in between.
 */
#include "base/os/thread_pool.h"
#include "convert/source/source.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW_BYTES = 4096, /* searched for a cut at a time */
    BEFORE_BYTES = 3,    /* enough for the character before it */
    BATCH_PIECES = 256,  /* counted between checks of options->stop */
};

struct cutter {
    struct io *io;
    struct source *source;
    struct io_queue *queue;
    struct str text, pieces; /* struct text_chunk */
    struct err *err;
};

static int read_window(struct cutter *cutter, uint64_t file, const char *path, uint64_t begin,
                       uint64_t end)
{
    str_clear(&cutter->text);
    return source_read_file(cutter->source, cutter->io, cutter->queue, file, path, begin,
                            end - begin, &cutter->text, cutter->err);
}

/* The last character boundary at or before `limit`: UTF-8 has at most 3 bytes after the first. */
static int end_at_character(struct cutter *cutter, uint64_t file, const char *path, uint64_t limit,
                            uint64_t *ret_end)
{
    int status = read_window(cutter, file, path, limit - BEFORE_BYTES, limit + 1);
    if (status)
        return status;
    unsigned back = 0;
    while (back < BEFORE_BYTES && ((uint8_t)cutter->text.data[BEFORE_BYTES - back] & 0xc0) == 0x80)
        back++;
    *ret_end = limit - back;
    return 0;
}

static int find_end(struct cutter *cutter, uint64_t file, const char *path, uint64_t begin,
                    uint64_t *ret_end)
{
    uint64_t size = cutter->source->files[file].bytes;
    uint64_t limit = size - begin > TEXT_CHUNK_BYTES_MAX ? begin + TEXT_CHUNK_BYTES_MAX : size;
    for (uint64_t at = begin + TEXT_CHUNK_BYTES; at < limit; at += WINDOW_BYTES) {
        uint64_t end = limit - at > WINDOW_BYTES ? at + WINDOW_BYTES : limit;
        int status = read_window(cutter, file, path, at - BEFORE_BYTES, end);
        if (status)
            return status;
        size_t cut = bpe_find_cut(cutter->text.data, cutter->text.bytes, BEFORE_BYTES);
        if (cut < cutter->text.bytes) {
            *ret_end = at - BEFORE_BYTES + cut;
            return 0;
        }
    }
    if (limit < size)
        return end_at_character(cutter, file, path, limit, ret_end);
    *ret_end = size;
    return 0;
}

static int cut_file(struct cutter *cutter, uint64_t file)
{
    char path[IO_PATH_BYTES_MAX];
    uint64_t size = cutter->source->files[file].bytes, begin = 0;
    int status = source_file_path(cutter->source, file, path, cutter->err);
    while (!status) {
        uint64_t end = size;
        if (cutter->source->bpe && size - begin > TEXT_CHUNK_BYTES)
            status = find_end(cutter, file, path, begin, &end);
        const struct text_chunk piece = {.file = file, .offset = begin, .bytes = end - begin};
        if (!status)
            str_add(&cutter->pieces, &piece, sizeof piece);
        begin = end;
        if (end == size)
            break;
    }
    return status;
}

static int cut_files(struct io *io, struct source *source, struct err *err)
{
    struct cutter cutter = {.io = io, .source = source, .err = err};
    int status = io->ops->queue_open(io, 1, &cutter.queue, err);
    for (uint64_t file = 0; file < source->files_count && !status; file++)
        status = cut_file(&cutter, file);
    if (cutter.queue)
        io->ops->queue_close(cutter.queue);
    str_deinit(&cutter.text);
    if (!status && str_status(&cutter.pieces))
        status = err_set(err, -ENOMEM, "out of memory for a list of documents");
    if (status) {
        str_deinit(&cutter.pieces);
        return status;
    }
    /* Takes ownership of the memory. */
    source->pieces = (struct text_chunk *)(void *)cutter.pieces.data;
    source->pieces_count = cutter.pieces.bytes / sizeof *source->pieces;
    return 0;
}

/* One per thread. */
struct counter {
    struct io_queue *queue;
    struct bpe_encoder *encoder;
    struct str text, tokens;
    int status; /* the first failure */
    struct err err;
};

struct counting {
    struct io *io;
    struct source *source;
    struct counter *counters; /* one per worker */
    uint64_t first;           /* the piece of tile 0 */
};

/* Stores the number of tokens of one piece in its tokens_end. */
static void count_piece(void *context, size_t tile, unsigned worker)
{
    struct counting *counting = context;
    struct counter *counter = &counting->counters[worker];
    struct text_chunk *piece = &counting->source->pieces[counting->first + tile];
    char path[IO_PATH_BYTES_MAX];
    if (counter->status)
        return;
    str_clear(&counter->text);
    str_clear(&counter->tokens);
    int status = source_file_path(counting->source, piece->file, path, &counter->err);
    if (!status)
        status = source_read_file(counting->source, counting->io, counter->queue, piece->file, path,
                                  piece->offset, piece->bytes, &counter->text, &counter->err);
    if (!status)
        status = bpe_encode(counter->encoder, counter->text.data, counter->text.bytes,
                            &counter->tokens, &counter->err);
    counter->status = status;
    piece->tokens_end = counter->tokens.bytes / BPE_TOKEN_BYTES;
}

static int open_counters(struct counting *counting, unsigned count, struct err *err)
{
    for (unsigned i = 0; i < count; i++) {
        struct counter *counter = &counting->counters[i];
        int status = counting->io->ops->queue_open(counting->io, 1, &counter->queue, err);
        if (!status)
            status = bpe_encoder_open(counting->source->bpe, &counter->encoder, err);
        if (status)
            return status;
    }
    return 0;
}

static void close_counters(struct counting *counting, unsigned count)
{
    for (unsigned i = 0; counting->counters && i < count; i++) {
        struct counter *counter = &counting->counters[i];
        if (counter->queue)
            counting->io->ops->queue_close(counter->queue);
        bpe_encoder_close(counter->encoder);
        str_deinit(&counter->text);
        str_deinit(&counter->tokens);
    }
    free(counting->counters);
}

static int run_counters(struct counting *counting, struct thread_pool *pool, struct err *err)
{
    const struct source *source = counting->source;
    while (counting->first < source->pieces_count) {
        uint64_t rest = source->pieces_count - counting->first;
        size_t tiles = rest < BATCH_PIECES ? (size_t)rest : BATCH_PIECES;
        thread_pool_run(pool, tiles, count_piece, counting);
        for (unsigned i = 0; i < thread_pool_count(pool); i++) {
            const struct counter *counter = &counting->counters[i];
            if (counter->status && err)
                *err = counter->err;
            if (counter->status)
                return counter->status;
        }
        counting->first += tiles;
        if (source->options->stop && atomic_load(source->options->stop))
            return err_set(err, -EINTR, "stopped while tokens were counted");
    }
    return 0;
}

static int count_tokens(struct io *io, struct source *source, struct err *err)
{
    struct counting counting = {.io = io, .source = source};
    struct thread_pool *pool;
    int status = thread_pool_open(source->options->workers, &pool, err);
    if (status)
        return status;
    counting.counters = calloc(thread_pool_count(pool), sizeof *counting.counters);
    status = counting.counters ? open_counters(&counting, thread_pool_count(pool), err)
                               : err_set(err, -ENOMEM, "out of memory for tokenizers");
    if (!status)
        status = run_counters(&counting, pool, err);
    close_counters(&counting, thread_pool_count(pool));
    thread_pool_close(pool);
    return status;
}

int source_split_text(struct io *io, struct source *source, struct err *err)
{
    int status = cut_files(io, source, err);
    if (!status && source->bpe)
        status = count_tokens(io, source, err);
    if (status)
        return status;
    uint64_t total = 0;
    for (uint64_t i = 0; i < source->pieces_count; i++) {
        struct text_chunk *piece = &source->pieces[i];
        total += source->bpe ? piece->tokens_end : piece->bytes;
        total += text_chunk_ends_document(source, piece) ? 1 : 0;
        piece->tokens_end = total;
    }
    return 0;
}
