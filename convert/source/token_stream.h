/*
 * token_stream — a source that is one stream of tokens. An item is one member.
 *
 *     stream    doc0 E doc1 E doc2 E ...              E: the document end
 *     splits    [ train ......... )[ val ... )        contiguous parts by fraction, cut anywhere
 *     members   64 Ki + 1 tokens each, the last one shorter; adjacent members share a token
 *
 * Chunks of the files are encoded independently, each by one call: once to count its tokens, and
 * again when members are written. In between, each chunk needs only its entry in memory.
 */
#ifndef MILLRACE_CONVERT_SOURCE_TOKEN_STREAM_H
#define MILLRACE_CONVERT_SOURCE_TOKEN_STREAM_H

#include "convert/source/file_list.h"

enum { TOKEN_CHUNK_BYTES = 1 << 16 }; /* typical size */

/* A range of a file. */
struct token_chunk {
    uint64_t file, offset, bytes;
    uint64_t tokens_end; /* position in the stream */
};

struct token_chunks {
    struct token_chunk *items; /* in stream order */
    uint64_t count;
};

/* A reader's buffers; owner thread. */
struct token_encoder {
    const struct source *source; /* borrowed */
    struct io *io;
    struct io_queue *queue;
    void *state; /* of ops */
    struct str file;
    struct str tokens; /* of `chunk`, little-endian */
    const struct token_chunk *chunk;
};

struct token_stream_ops {
    /* Optional: create and free encoder->state, which may be NULL in encoder_close. */
    int (*encoder_open)(struct token_encoder *encoder, struct err *err);
    void (*encoder_close)(struct token_encoder *encoder);
    /* Appends all tokens of a chunk, with its document ends. path: of its file. -ESTALE, -EBADMSG.
     * Called from any thread, each with its own encoder. Blocks. */
    int (*encode)(struct token_encoder *encoder, const struct token_chunk *chunk, const char *path,
                  struct str *tokens, struct err *err);
};

struct split_tokens {
    uint64_t first, count;
    uint64_t first_item, items;
};

/* The first member of source->state. Zero-initialize. Immutable once open. */
struct token_stream {
    const struct token_stream_ops *ops;
    struct file_list files; /* in byte order of names */
    struct token_chunks chunks;
    size_t token_bytes; /* 2 or 4 */
    uint32_t vocabulary, document_end;
    const char *tokenizer;                          /* its name */
    struct split_tokens splits[CONVERT_SPLITS_MAX]; /* without splits, only [0] */
};

void token_stream_deinit(struct token_stream *stream);

/* Counts the tokens of all chunks, on all threads, and sets their tokens_end. An error is that of
 * the first bad chunk. */
int token_stream_count(struct io *io, const struct source *source, struct token_stream *stream,
                       struct err *err);
/* Divides the stream into splits and members. Sets items_count and identity of the source. */
int token_stream_divide(struct source *source, struct token_stream *stream, struct err *err);

/* Appends a token. */
void token_stream_add(const struct token_stream *stream, uint32_t token, struct str *tokens);

/* Hooks of a source. */
void token_stream_describe(const struct source *source, uint64_t number, struct source_item *item);
int token_stream_read(struct source_reader *reader, const struct source_item *item,
                      struct source_sample *sample, struct err *err);
int token_stream_reader_open(struct source_reader *reader, struct err *err);
void token_stream_reader_close(struct source_reader *reader);
void token_stream_fill_text(const struct source *source, uint32_t split,
                            struct dataset_text *ret_text);

#endif
