/*
 * token_stream — see token_stream.h.
 */
#include "convert/source/token_stream.h"

#include "base/bytes.h"
#include "base/os/thread_pool.h"
#include "shards/dataset/dataset.h"
#include "shards/format/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MEMBER_TOKENS = 1 << 16, /* without the overlap */
    BATCH_CHUNKS = 256,      /* chunks counted between checks of options->stop */
};

void token_stream_deinit(struct token_stream *stream)
{
    file_list_deinit(&stream->files);
    free(stream->chunks.items);
}

void token_stream_add(const struct token_stream *stream, uint32_t token, struct str *tokens)
{
    uint8_t bytes[4];
    bytes_put_u32(bytes, token); /* little-endian: the first bytes are a u16 */
    str_add(tokens, bytes, stream->token_bytes);
}

static int open_encoder(const struct source *source, struct io *io, struct io_queue *queue,
                        struct token_encoder *encoder, struct err *err)
{
    const struct token_stream *stream = source->state;
    *encoder = (struct token_encoder){.source = source, .io = io, .queue = queue};
    return stream->ops->encoder_open ? stream->ops->encoder_open(encoder, err) : 0;
}

static void close_encoder(struct token_encoder *encoder)
{
    const struct token_stream *stream = encoder->source ? encoder->source->state : NULL;
    if (stream && stream->ops->encoder_close)
        stream->ops->encoder_close(encoder);
    str_deinit(&encoder->file);
    str_deinit(&encoder->tokens);
}

/* Sets encoder->tokens to those of a chunk. */
static int encode_chunk(struct token_encoder *encoder, const struct token_chunk *chunk,
                        struct err *err)
{
    const struct token_stream *stream = encoder->source->state;
    char path[IO_PATH_BYTES_MAX];
    if (encoder->chunk == chunk)
        return 0;
    encoder->chunk = NULL;
    str_clear(&encoder->tokens);
    int status = file_list_path(&stream->files, chunk->file, path, err);
    if (!status)
        status = stream->ops->encode(encoder, chunk, path, &encoder->tokens, err);
    if (!status && str_status(&encoder->tokens))
        status = err_set(err, -ENOMEM, "out of memory for tokens");
    if (!status)
        encoder->chunk = chunk;
    return status;
}

/* ---- Counting. ---- */

struct token_counter {
    struct io_queue *queue;
    struct token_encoder encoder;
    int status;
    struct token_chunk *bad_chunk;
    struct err err;
};

struct count_job {
    struct io *io;
    const struct source *source;
    struct token_stream *stream;
    struct token_counter *counters; /* one per worker */
    uint64_t first;                 /* chunk of task 0 */
};

static void count_chunk(void *context, size_t task, unsigned worker)
{
    struct count_job *job = context;
    struct token_counter *counter = &job->counters[worker];
    struct token_chunk *chunk = &job->stream->chunks.items[job->first + task];
    if (counter->status)
        return;
    counter->status = encode_chunk(&counter->encoder, chunk, &counter->err);
    counter->bad_chunk = chunk;
    chunk->tokens_end = counter->encoder.tokens.bytes / job->stream->token_bytes;
}

static int open_counters(struct count_job *job, unsigned count, struct err *err)
{
    for (unsigned i = 0; i < count; i++) {
        struct token_counter *counter = &job->counters[i];
        int status = job->io->ops->queue_open(job->io, 1, &counter->queue, err);
        if (!status)
            status = open_encoder(job->source, job->io, counter->queue, &counter->encoder, err);
        if (status)
            return status;
    }
    return 0;
}

static void close_counters(struct count_job *job, unsigned count)
{
    for (unsigned i = 0; job->counters && i < count; i++) {
        close_encoder(&job->counters[i].encoder);
        if (job->counters[i].queue)
            job->io->ops->queue_close(job->counters[i].queue);
    }
    free(job->counters);
}

/* A worker takes chunks in order and stops at its first bad one, so the first of all is among
 * those. */
static int find_failure(const struct count_job *job, unsigned count, struct err *err)
{
    const struct token_counter *first = NULL;
    for (unsigned i = 0; i < count; i++) {
        const struct token_counter *counter = &job->counters[i];
        if (counter->status && (!first || counter->bad_chunk < first->bad_chunk))
            first = counter;
    }
    if (first && err)
        *err = first->err;
    return first ? first->status : 0;
}

static int run_counters(struct count_job *job, struct thread_pool *pool, struct err *err)
{
    const atomic_int *stop = job->source->options->stop;
    while (job->first < job->stream->chunks.count) {
        uint64_t rest = job->stream->chunks.count - job->first;
        size_t tasks = rest < BATCH_CHUNKS ? (size_t)rest : BATCH_CHUNKS;
        thread_pool_run(pool, tasks, count_chunk, job);
        int status = find_failure(job, thread_pool_count(pool), err);
        if (status)
            return status;
        job->first += tasks;
        if (stop && atomic_load(stop))
            return err_set(err, -EINTR, "stopped while tokens were counted");
    }
    return 0;
}

int token_stream_count(struct io *io, const struct source *source, struct token_stream *stream,
                       struct err *err)
{
    struct count_job job = {io, source, stream, NULL, 0};
    struct thread_pool *pool;
    int status = thread_pool_open(source->options->workers, &pool, err);
    if (status)
        return status;
    job.counters = calloc(thread_pool_count(pool), sizeof *job.counters);
    status = job.counters ? open_counters(&job, thread_pool_count(pool), err)
                          : err_set(err, -ENOMEM, "out of memory for tokenizers");
    if (!status)
        status = run_counters(&job, pool, err);
    close_counters(&job, thread_pool_count(pool));
    thread_pool_close(pool);
    uint64_t end = 0;
    for (uint64_t i = 0; i < stream->chunks.count; i++)
        stream->chunks.items[i].tokens_end = end += stream->chunks.items[i].tokens_end;
    return status;
}

/* ---- Members. ---- */

/* The last member has a token beyond the overlap, unless count is 1. */
static uint64_t count_members(uint64_t count)
{
    return count <= 1 ? count : (count - 2) / MEMBER_TOKENS + 1;
}

/* Returns the first token after a split. */
static uint64_t compute_split_end(const struct convert_options *options, uint32_t split,
                                  uint64_t total)
{
    double fraction = 0;
    if (split + 1 >= options->splits_count)
        return total;
    for (uint32_t i = 0; i <= split; i++)
        fraction += options->splits[i].fraction;
    uint64_t end = (uint64_t)(fraction * (double)total + 0.5);
    return end < total ? end : total;
}

int token_stream_divide(struct source *source, struct token_stream *stream, struct err *err)
{
    uint64_t first = 0, chunks = stream->chunks.count;
    uint64_t total = chunks > 0 ? stream->chunks.items[chunks - 1].tokens_end : 0;
    uint32_t splits = source->options->splits_count ? source->options->splits_count : 1;
    for (uint32_t split = 0; split < splits; split++) {
        uint64_t end = compute_split_end(source->options, split, total);
        uint64_t items = count_members(end - first);
        stream->splits[split] =
            (struct split_tokens){first, end - first, source->items_count, items};
        source->items_count += items;
        first = end;
    }
    return file_list_identify(&stream->files, &source->identity, err);
}

static uint32_t find_split(const struct token_stream *stream, uint64_t item)
{
    uint32_t split = 0;
    while (item >= stream->splits[split].first_item + stream->splits[split].items)
        split++;
    return split;
}

/* Includes the overlap. */
static void find_tokens(const struct token_stream *stream, uint64_t item, uint64_t *ret_first,
                        uint64_t *ret_count)
{
    const struct split_tokens *tokens = &stream->splits[find_split(stream, item)];
    uint64_t within = (item - tokens->first_item) * MEMBER_TOKENS;
    *ret_first = tokens->first + within;
    *ret_count = bytes_min(tokens->count - within, MEMBER_TOKENS + 1);
}

void token_stream_describe(const struct source *source, uint64_t number, struct source_item *item)
{
    const struct token_stream *stream = source->state;
    uint64_t first, count;
    find_tokens(stream, number, &first, &count);
    item->split = find_split(stream, number);
    item->bytes = bytes_min(count, MEMBER_TOKENS);
    snprintf(item->key, sizeof item->key, "tokens-%08" PRIu64,
             number - stream->splits[item->split].first_item);
}

int token_stream_reader_open(struct source_reader *reader, struct err *err)
{
    struct token_encoder *encoder = reader->state = calloc(1, sizeof *encoder);
    if (!encoder)
        return err_set(err, -ENOMEM, "out of memory for a tokenizer");
    return open_encoder(reader->source, reader->io, reader->queue, encoder, err);
}

void token_stream_reader_close(struct source_reader *reader)
{
    if (!reader->state)
        return;
    close_encoder(reader->state);
    free(reader->state);
}

/* Returns the first chunk that ends after a token. */
static uint64_t find_chunk(const struct token_stream *stream, uint64_t token)
{
    uint64_t low = 0, high = stream->chunks.count - 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (stream->chunks.items[middle].tokens_end > token)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Appends the stream's tokens from *at to the end of the chunk or to `end`, and advances *at. */
static int add_chunk_tokens(struct token_encoder *encoder, const struct token_chunk *chunk,
                            uint64_t *at, uint64_t end, struct str *out, struct err *err)
{
    const struct token_stream *stream = encoder->source->state;
    uint64_t begin = chunk > stream->chunks.items ? chunk[-1].tokens_end : 0;
    uint64_t stop = bytes_min(chunk->tokens_end, end);
    size_t width = stream->token_bytes;
    int status = encode_chunk(encoder, chunk, err);
    if (status)
        return status;
    if (encoder->tokens.bytes != (chunk->tokens_end - begin) * width) {
        err_set(err, -ESTALE, "the file changed after its tokens were counted");
        err_at(err, file_list_name(&stream->files, chunk->file), (int64_t)chunk->offset);
        return -ESTALE;
    }
    if (stop > *at)
        str_add(out, encoder->tokens.data + (*at - begin) * width, (stop - *at) * width);
    *at = stop;
    return 0;
}

int token_stream_read(struct source_reader *reader, const struct source_item *item,
                      struct source_sample *sample, struct err *err)
{
    const struct token_stream *stream = reader->source->state;
    uint64_t at, count;
    uint8_t header[NPY_HEADER_BYTES];
    find_tokens(stream, item->number, &at, &count);
    npy_encode_header(stream->token_bytes == 2 ? DTYPE_U16 : DTYPE_U32, count, header);
    str_add(&sample->data, header, sizeof header);
    uint64_t end = at + count;
    for (const struct token_chunk *chunk = &stream->chunks.items[find_chunk(stream, at)]; at < end;
         chunk++) {
        int status = add_chunk_tokens(reader->state, chunk, &at, end, &sample->data, err);
        if (status)
            return status;
    }
    source_end_field(sample, "npy", 0, item->key);
    return 0;
}

void token_stream_fill_text(const struct source *source, uint32_t split,
                            struct dataset_text *ret_text)
{
    const struct token_stream *stream = source->state;
    *ret_text = (struct dataset_text){
        .vocabulary = stream->vocabulary,
        .document_end = stream->document_end,
        .tokens = stream->splits[split].count,
        .member_tokens = MEMBER_TOKENS + 1,
        .header_bytes = NPY_HEADER_BYTES,
    };
    strcpy(ret_text->element, stream->token_bytes == 2 ? "uint16" : "uint32");
    snprintf(ret_text->tokenizer, sizeof ret_text->tokenizer, "%s", stream->tokenizer);
}
