/*
 * source_text — the source for text: one stream of tokens. An item is one member.
 *
 *     stream    doc0 E doc1 E doc2 E ...              E: the document end
 *     splits    [ train ......... )[ val ... )        contiguous parts by fraction, cut anywhere
 *     members   64 Ki + 1 tokens each, the last one shorter; adjacent members share a token
 */
#include "base/bytes.h"
#include "base/json/jsonx_writer.h"
#include "convert/source/text_chunks.h"
#include "shards/dataset/dataset.h"
#include "shards/format/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MEMBER_TOKENS = 1 << 16, /* without the overlap */
    BYTE_TOKEN_BYTES = 2,    /* with the tokenizer "bytes" */
    BYTE_DOCUMENT_END = 256,
    BYTE_VOCABULARY = 257,
};

struct split_tokens {
    uint64_t first, count;
    uint64_t first_item, items;
};

struct text_source {
    struct file_list files; /* in byte order of names */
    struct bpe *bpe;        /* NULL for "bytes" */
    struct text_chunks chunks;
    struct split_tokens splits[CONVERT_SPLITS_MAX]; /* without splits, only [0] */
};

struct text_reader {
    struct bpe_encoder *bpe; /* NULL for "bytes" */
    struct str file, tokens;
};

static int open_tokenizer(struct io *io, const struct convert_options *options,
                          struct bpe **ret_bpe, struct err *err)
{
    if (!options->tokenizer || strcmp(options->tokenizer, "bytes") == 0)
        return 0;
    if (str_ends_with_nocase(options->tokenizer, ".json"))
        return bpe_open_json(io, options->tokenizer, options->document_end, ret_bpe, err);
    if (strcmp(options->tokenizer, "gpt2") != 0) {
        err_set(err, -EINVAL, "the tokenizer is unknown");
        err_expected(err, "bytes, gpt2 or the path of a tokenizer.json");
        err_found(err, "%s", options->tokenizer);
        return -EINVAL;
    }
    if (options->vocabulary)
        return bpe_open_folder(io, options->vocabulary, ret_bpe, err);
    err_set(err, -EINVAL, "the tokenizer gpt2 needs a vocabulary");
    err_expected(err, "a folder with encoder.json and vocab.bpe");
    return -EINVAL;
}

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

static void divide_tokens(struct source *source)
{
    struct text_source *text = source->state;
    uint64_t first = 0;
    if (text->chunks.count == 0)
        return;
    uint64_t total = text->chunks.chunks[text->chunks.count - 1].tokens_end;
    uint32_t splits = source->options->splits_count ? source->options->splits_count : 1;
    for (uint32_t split = 0; split < splits; split++) {
        uint64_t end = compute_split_end(source->options, split, total);
        uint64_t items = count_members(end - first);
        text->splits[split] = (struct split_tokens){first, end - first, source->items_count, items};
        source->items_count += items;
        first = end;
    }
}

static int text_open(struct io *io, struct source *source, struct err *err)
{
    struct text_source *text = source->state = calloc(1, sizeof *text);
    if (!text)
        return err_set(err, -ENOMEM, "out of memory for a source");
    text->files.is_text = true;
    int status = open_tokenizer(io, source->options, &text->bpe, err);
    if (!status)
        status = file_list_open(&text->files, io, source, err);
    if (!status)
        status = text_chunks_cut(io, source->options, &text->files, text->bpe, &text->chunks, err);
    if (status)
        return status;
    divide_tokens(source);
    return file_list_identify(&text->files, &source->identity, err);
}

static void text_close(struct source *source)
{
    struct text_source *text = source->state;
    if (!text)
        return;
    file_list_deinit(&text->files);
    bpe_close(text->bpe);
    free(text->chunks.chunks);
    free(text);
}

static uint32_t find_split(const struct text_source *text, uint64_t item)
{
    uint32_t split = 0;
    while (item >= text->splits[split].first_item + text->splits[split].items)
        split++;
    return split;
}

/* Includes the overlap. */
static void find_tokens(const struct text_source *text, uint64_t item, uint64_t *ret_first,
                        uint64_t *ret_count)
{
    const struct split_tokens *tokens = &text->splits[find_split(text, item)];
    uint64_t within = (item - tokens->first_item) * MEMBER_TOKENS;
    *ret_first = tokens->first + within;
    *ret_count = bytes_min(tokens->count - within, MEMBER_TOKENS + 1);
}

static void text_describe(const struct source *source, uint64_t number, struct source_item *item)
{
    const struct text_source *text = source->state;
    uint64_t first, count;
    find_tokens(text, number, &first, &count);
    item->split = find_split(text, number);
    item->bytes = bytes_min(count, MEMBER_TOKENS);
    snprintf(item->key, sizeof item->key, "tokens-%08" PRIu64,
             number - text->splits[item->split].first_item);
}

static int text_reader_open(struct source_reader *reader, struct err *err)
{
    const struct text_source *text = reader->source->state;
    struct text_reader *state = reader->state = calloc(1, sizeof *state);
    if (!state)
        return err_set(err, -ENOMEM, "out of memory for a tokenizer");
    return text->bpe ? bpe_encoder_open(text->bpe, &state->bpe, err) : 0;
}

static void text_reader_close(struct source_reader *reader)
{
    struct text_reader *state = reader->state;
    if (!state)
        return;
    bpe_encoder_close(state->bpe);
    str_deinit(&state->file);
    str_deinit(&state->tokens);
    free(state);
}

static uint32_t document_end(const struct text_source *text)
{
    return text->bpe ? bpe_document_end_token(text->bpe) : BYTE_DOCUMENT_END;
}

static size_t token_bytes(const struct text_source *text)
{
    return text->bpe ? bpe_token_bytes(text->bpe) : BYTE_TOKEN_BYTES;
}

/* Returns the first chunk that ends after a token. */
static uint64_t find_chunk(const struct text_source *text, uint64_t token)
{
    uint64_t low = 0, high = text->chunks.count - 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (text->chunks.chunks[middle].tokens_end > token)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int add_byte_tokens(const struct text_reader *state, struct str *out, struct err *err)
{
    size_t count = state->file.bytes;
    if (str_reserve(out, count * BYTE_TOKEN_BYTES))
        return err_set(err, -ENOMEM, "out of memory for tokens");
    for (size_t i = 0; i < count; i++)
        bytes_put_u16(out->data + out->bytes + i * BYTE_TOKEN_BYTES, (uint8_t)state->file.data[i]);
    out->bytes += count * BYTE_TOKEN_BYTES;
    return 0;
}

/* Encodes state->file and appends tokens [first, first + count). tokens: their number when
 * counted. */
static int add_bpe_tokens(const struct bpe *bpe, struct text_reader *state, uint64_t tokens,
                          uint64_t first, uint64_t count, struct str *out, const char *path,
                          uint64_t offset, struct err *err)
{
    size_t width = bpe_token_bytes(bpe);
    str_clear(&state->tokens);
    int status = bpe_encode(state->bpe, state->file.data, state->file.bytes, &state->tokens, err);
    if (!status && state->tokens.bytes != tokens * width) {
        status = err_set(err, -ESTALE, "the file changed after its tokens were counted");
        err_at(err, path, (int64_t)offset);
    }
    if (!status)
        str_add(out, state->tokens.data + first * width, count * width);
    return status;
}

/* Appends tokens [first, first + count) of a chunk; excludes the document end. */
static int add_text_tokens(struct source_reader *reader, const struct text_chunk *chunk,
                           uint64_t tokens, uint64_t first, uint64_t count, struct str *out,
                           struct err *err)
{
    const struct text_source *text = reader->source->state;
    struct text_reader *state = reader->state;
    char path[IO_PATH_BYTES_MAX];
    uint64_t offset = text->bpe ? chunk->offset : first;
    str_clear(&state->file);
    int status = file_list_path(&text->files, chunk->file, path, err);
    if (!status)
        status = file_list_read(&text->files, reader->io, reader->queue, chunk->file, path, offset,
                                text->bpe ? chunk->bytes : count, &state->file, err);
    if (status)
        return status;
    return text->bpe
               ? add_bpe_tokens(text->bpe, state, tokens, first, count, out, path, offset, err)
               : add_byte_tokens(state, out, err);
}

/* Appends the stream's tokens from *at to the end of the chunk or to `end`, and advances *at. */
static int add_chunk_tokens(struct source_reader *reader, const struct text_chunk *chunk,
                            uint64_t *at, uint64_t end, struct str *out, struct err *err)
{
    const struct text_source *text = reader->source->state;
    uint64_t begin = chunk > text->chunks.chunks ? chunk[-1].tokens_end : 0;
    uint64_t text_end = chunk->tokens_end - (text_chunk_ends_document(&text->files, chunk) ? 1 : 0);
    uint64_t stop = bytes_min(text_end, end);
    if (*at < stop) {
        int status =
            add_text_tokens(reader, chunk, text_end - begin, *at - begin, stop - *at, out, err);
        if (status)
            return status;
        *at = stop;
    }
    if (*at < end && *at < chunk->tokens_end) {
        uint8_t mark[4];
        bytes_put_u32(mark, document_end(text)); /* little-endian: the first bytes are a u16 */
        str_add(out, mark, token_bytes(text));
        ++*at;
    }
    return 0;
}

static int text_read(struct source_reader *reader, const struct source_item *item,
                     struct source_sample *sample, struct err *err)
{
    const struct text_source *text = reader->source->state;
    uint64_t at, count;
    uint8_t header[NPY_HEADER_BYTES];
    find_tokens(text, item->number, &at, &count);
    npy_encode_header(token_bytes(text) == 2 ? DTYPE_U16 : DTYPE_U32, count, header);
    str_add(&sample->data, header, sizeof header);
    uint64_t end = at + count;
    for (const struct text_chunk *chunk = &text->chunks.chunks[find_chunk(text, at)]; at < end;
         chunk++) {
        int status = add_chunk_tokens(reader, chunk, &at, end, &sample->data, err);
        if (status)
            return status;
    }
    source_end_field(sample, "npy", 0, item->key);
    return 0;
}

static const char *tokenizer_name(const struct text_source *text)
{
    return text->bpe ? bpe_name(text->bpe) : "bytes";
}

static void text_write_options(const struct source *source, struct jsonx_writer *json)
{
    const struct text_source *text = source->state;
    jsonx_write_string(json, "tokenizer", tokenizer_name(text));
    if (text->bpe)
        jsonx_write_hex64(json, "vocabulary_xxh3", bpe_identity(text->bpe));
    if (source->options->document_end)
        jsonx_write_string(json, "document_end", source->options->document_end);
}

static void text_fill(const struct source *source, uint32_t split, struct dataset_text *ret_text)
{
    const struct text_source *text = source->state;
    *ret_text = (struct dataset_text){
        .vocabulary = text->bpe ? bpe_vocabulary_size(text->bpe) : BYTE_VOCABULARY,
        .document_end = document_end(text),
        .tokens = text->splits[split].count,
        .member_tokens = MEMBER_TOKENS + 1,
        .header_bytes = NPY_HEADER_BYTES,
    };
    strcpy(ret_text->element, token_bytes(text) == 2 ? "uint16" : "uint32");
    strcpy(ret_text->tokenizer, tokenizer_name(text));
}

static bool is_text(const struct source_layout *layout)
{
    if (layout->file)
        return str_ends_with_nocase(layout->file, ".txt");
    return layout->has_tokenizer ||
           (layout->has_text_files && !layout->has_other_files && !layout->has_folders);
}

const struct source_ops source_text_ops = {
    .name = "text",
    .is_stream = true,
    .probe = is_text,
    .open = text_open,
    .close = text_close,
    .describe = text_describe,
    .read = text_read,
    .reader_open = text_reader_open,
    .reader_close = text_reader_close,
    .write_options = text_write_options,
    .fill_text = text_fill,
};
