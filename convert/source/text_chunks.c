/*
 * text_chunks — see text_chunks.h.
 */
#include "convert/source/text_chunks.h"

#include "base/os/thread_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW_BYTES = 4096, /* bytes per search for a cut */
    CONTEXT_BYTES = 3,   /* enough for the preceding character */
    BATCH_CHUNKS = 256,  /* chunks counted between checks of options->stop */
};

struct cutter {
    struct io *io;
    const struct file_list *files;
    const struct bpe *bpe;
    struct io_queue *queue;
    struct str text, chunks; /* struct text_chunk */
    struct err *err;
};

static int read_window(struct cutter *cutter, uint64_t file, const char *path, uint64_t begin,
                       uint64_t end)
{
    str_clear(&cutter->text);
    return file_list_read(cutter->files, cutter->io, cutter->queue, file, path, begin, end - begin,
                          &cutter->text, cutter->err);
}

/* Sets *ret_end to the last character boundary at or before `limit`. */
static int find_character_boundary(struct cutter *cutter, uint64_t file, const char *path,
                                   uint64_t limit, uint64_t *ret_end)
{
    int status = read_window(cutter, file, path, limit - CONTEXT_BYTES, limit + 1);
    if (status)
        return status;
    unsigned back = 0;
    while (back < CONTEXT_BYTES &&
           ((uint8_t)cutter->text.data[CONTEXT_BYTES - back] & 0xc0) == 0x80)
        back++;
    *ret_end = limit - back;
    return 0;
}

static int find_chunk_end(struct cutter *cutter, uint64_t file, const char *path, uint64_t begin,
                          uint64_t *ret_end)
{
    uint64_t size = cutter->files->files[file].bytes;
    uint64_t limit = size - begin > TEXT_CHUNK_BYTES_MAX ? begin + TEXT_CHUNK_BYTES_MAX : size;
    for (uint64_t at = begin + TEXT_CHUNK_BYTES; at < limit; at += WINDOW_BYTES) {
        uint64_t end = limit - at > WINDOW_BYTES ? at + WINDOW_BYTES : limit;
        int status = read_window(cutter, file, path, at - CONTEXT_BYTES, end);
        if (status)
            return status;
        size_t cut =
            bpe_find_cut(cutter->bpe, cutter->text.data, cutter->text.bytes, CONTEXT_BYTES);
        if (cut < cutter->text.bytes) {
            *ret_end = at - CONTEXT_BYTES + cut;
            return 0;
        }
    }
    if (limit < size)
        return find_character_boundary(cutter, file, path, limit, ret_end);
    *ret_end = size;
    return 0;
}

static int cut_file(struct cutter *cutter, uint64_t file)
{
    char path[IO_PATH_BYTES_MAX];
    uint64_t size = cutter->files->files[file].bytes, begin = 0;
    int status = file_list_path(cutter->files, file, path, cutter->err);
    while (!status) {
        uint64_t end = size;
        if (cutter->bpe && size - begin > TEXT_CHUNK_BYTES)
            status = find_chunk_end(cutter, file, path, begin, &end);
        const struct text_chunk chunk = {.file = file, .offset = begin, .bytes = end - begin};
        if (!status)
            str_add(&cutter->chunks, &chunk, sizeof chunk);
        begin = end;
        if (end == size)
            break;
    }
    return status;
}

static int cut_files(struct cutter *cutter, struct text_chunks *ret_chunks)
{
    struct io *io = cutter->io;
    int status = io->ops->queue_open(io, 1, &cutter->queue, cutter->err);
    for (uint64_t file = 0; file < cutter->files->count && !status; file++)
        status = cut_file(cutter, file);
    if (cutter->queue)
        io->ops->queue_close(cutter->queue);
    str_deinit(&cutter->text);
    if (!status && str_status(&cutter->chunks))
        status = err_set(cutter->err, -ENOMEM, "out of memory for a list of documents");
    /* The chunks take ownership of the memory. */
    ret_chunks->chunks = (struct text_chunk *)(void *)cutter->chunks.data;
    ret_chunks->count = cutter->chunks.bytes / sizeof *ret_chunks->chunks;
    return status;
}

struct token_counter {
    struct io_queue *queue;
    struct bpe_encoder *encoder;
    struct str text, tokens;
    int status;
    struct err err;
};

struct count_job {
    struct io *io;
    const struct convert_options *options;
    const struct file_list *files;
    const struct bpe *bpe;
    struct text_chunks *chunks;
    struct token_counter *counters; /* one per worker */
    uint64_t first;                 /* chunk of task 0 */
};

static void count_chunk(void *context, size_t task, unsigned worker)
{
    struct count_job *job = context;
    struct token_counter *counter = &job->counters[worker];
    struct text_chunk *chunk = &job->chunks->chunks[job->first + task];
    char path[IO_PATH_BYTES_MAX];
    if (counter->status)
        return;
    str_clear(&counter->text);
    str_clear(&counter->tokens);
    int status = file_list_path(job->files, chunk->file, path, &counter->err);
    if (!status)
        status = file_list_read(job->files, job->io, counter->queue, chunk->file, path,
                                chunk->offset, chunk->bytes, &counter->text, &counter->err);
    if (!status)
        status = bpe_encode(counter->encoder, counter->text.data, counter->text.bytes,
                            &counter->tokens, &counter->err);
    counter->status = status;
    chunk->tokens_end = counter->tokens.bytes / bpe_token_bytes(job->bpe);
}

static int open_counters(struct count_job *job, unsigned count, struct err *err)
{
    for (unsigned i = 0; i < count; i++) {
        struct token_counter *counter = &job->counters[i];
        int status = job->io->ops->queue_open(job->io, 1, &counter->queue, err);
        if (!status)
            status = bpe_encoder_open(job->bpe, &counter->encoder, err);
        if (status)
            return status;
    }
    return 0;
}

static void close_counters(struct count_job *job, unsigned count)
{
    for (unsigned i = 0; job->counters && i < count; i++) {
        struct token_counter *counter = &job->counters[i];
        if (counter->queue)
            job->io->ops->queue_close(counter->queue);
        bpe_encoder_close(counter->encoder);
        str_deinit(&counter->text);
        str_deinit(&counter->tokens);
    }
    free(job->counters);
}

static int run_counters(struct count_job *job, struct thread_pool *pool, struct err *err)
{
    const atomic_int *stop = job->options->stop;
    while (job->first < job->chunks->count) {
        uint64_t rest = job->chunks->count - job->first;
        size_t tasks = rest < BATCH_CHUNKS ? (size_t)rest : BATCH_CHUNKS;
        thread_pool_run(pool, tasks, count_chunk, job);
        for (unsigned i = 0; i < thread_pool_count(pool); i++) {
            const struct token_counter *counter = &job->counters[i];
            if (counter->status && err)
                *err = counter->err;
            if (counter->status)
                return counter->status;
        }
        job->first += tasks;
        if (stop && atomic_load(stop))
            return err_set(err, -EINTR, "stopped while tokens were counted");
    }
    return 0;
}

static int count_tokens(struct count_job *job, struct err *err)
{
    struct thread_pool *pool;
    int status = thread_pool_open(job->options->workers, &pool, err);
    if (status)
        return status;
    job->counters = calloc(thread_pool_count(pool), sizeof *job->counters);
    status = job->counters ? open_counters(job, thread_pool_count(pool), err)
                           : err_set(err, -ENOMEM, "out of memory for tokenizers");
    if (!status)
        status = run_counters(job, pool, err);
    close_counters(job, thread_pool_count(pool));
    thread_pool_close(pool);
    return status;
}

int text_chunks_cut(struct io *io, const struct convert_options *options,
                    const struct file_list *files, const struct bpe *bpe,
                    struct text_chunks *ret_chunks, struct err *err)
{
    struct cutter cutter = {.io = io, .files = files, .bpe = bpe, .err = err};
    struct text_chunks chunks;
    struct count_job job = {io, options, files, bpe, &chunks, NULL, 0};
    int status = cut_files(&cutter, &chunks);
    if (!status && bpe)
        status = count_tokens(&job, err);
    if (status) {
        free(chunks.chunks);
        return status;
    }
    uint64_t total = 0;
    for (uint64_t i = 0; i < chunks.count; i++) {
        struct text_chunk *chunk = &chunks.chunks[i];
        total += bpe ? chunk->tokens_end : chunk->bytes;
        total += text_chunk_ends_document(files, chunk) ? 1 : 0;
        chunk->tokens_end = total;
    }
    *ret_chunks = chunks;
    return 0;
}
