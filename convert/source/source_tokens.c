/*
 * source_tokens — the source for tokenized data: token files of llm.c, or datasets of Megatron-LM
 * (a .bin and a .idx file each). Their tokens are copied to one stream, in byte order of names.
 *
 * llm.c marks documents with a token of its tokenizer. Megatron's index says where documents end:
 * the document end is added to those that lack it.
 */
#include "base/bytes.h"
#include "base/hash.h"
#include "base/json/jsonx_writer.h"
#include "convert/source/token_file.h"
#include "convert/source/token_index.h"
#include "convert/source/tokenizer.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A .bin file. */
struct token_data {
    const struct token_kind *kind; /* of llm.c; NULL: Megatron */
    struct token_index index;      /* Megatron */
    size_t token_bytes;
    bool is_signed;
};

struct tokens_source {
    struct token_stream stream;
    struct bpe *bpe;               /* of --tokenizer, or NULL */
    struct token_data *data;       /* of each listed file */
    const struct token_kind *kind; /* of all files; NULL: Megatron */
    uint64_t documents_count;
    /* Set while tokens are counted. */
    _Atomic uint64_t ends_count, added_count; /* document ends in the data, and added ones */
};

static bool is_index(const char *name)
{
    return str_ends_with_nocase(name, ".idx");
}

/* x.bin -> x.idx, and back. */
static void replace_extension(char *path, const char *extension)
{
    strcpy(path + strlen(path) - strlen(extension), extension);
}

int tokens_detect(struct io *io, const char *path, bool *ret_has_tokens, struct err *err)
{
    struct io_head head = {0};
    char index[IO_PATH_BYTES_MAX];
    struct io_stat info;
    int status = io_read_head(io, path, TOKEN_FILE_HEADER_BYTES, &head, err);
    if (status)
        return status;
    *ret_has_tokens = token_file_detect(head.data, head.bytes) ||
                      (head.bytes >= TOKEN_INDEX_MAGIC_BYTES &&
                       memcmp(head.data, TOKEN_INDEX_MAGIC, TOKEN_INDEX_MAGIC_BYTES) == 0);
    free(head.data);
    if (*ret_has_tokens || !str_ends_with_nocase(path, ".bin") || strlen(path) >= sizeof index)
        return 0;
    strcpy(index, path);
    replace_extension(index, ".idx");
    *ret_has_tokens = io->names->stat(io, index, &info, NULL) == 0;
    return 0;
}

static int reject_file(const char *path, const char *what, const char *advice, struct err *err)
{
    err_set(err, -EINVAL, "%s", what);
    err_at(err, path, ERR_NO_OFFSET);
    err_advise(err, "%s", advice);
    return -EINVAL;
}

/* ---- Listing. ---- */

static int open_megatron(struct io *io, const struct listed_file *file, const char *path,
                         struct token_data *data, struct err *err)
{
    char index_path[IO_PATH_BYTES_MAX];
    struct io_stat info;
    strcpy(index_path, path);
    replace_extension(index_path, ".idx");
    if (io->names->stat(io, index_path, &info, NULL))
        return reject_file(path, "the file is neither a token file of llm.c nor one of Megatron-LM",
                           "put Megatron's .idx file next to its .bin file", err);
    int status = token_index_open(io, index_path, &data->index, err);
    if (status)
        return status;
    data->token_bytes = data->index.token_bytes;
    data->is_signed = data->index.is_signed;
    if (data->index.tokens == file->bytes / data->token_bytes &&
        file->bytes % data->token_bytes == 0)
        return 0;
    err_set(err, -EBADMSG, "the data has another size than its index says");
    err_at(err, path, ERR_NO_OFFSET);
    err_expected(err, "%" PRIu64 " tokens of %zu bytes", data->index.tokens, data->token_bytes);
    err_found(err, "%" PRIu64 " bytes", file->bytes);
    return -EBADMSG;
}

static int open_data(struct io *io, const struct listed_file *file, const char *path,
                     struct token_data *data, struct err *err)
{
    struct io_head head = {0};
    int status = io_read_head(io, path, TOKEN_FILE_HEADER_BYTES, &head, err);
    if (status)
        return status;
    if (token_file_detect(head.data, head.bytes)) {
        status = token_file_parse(head.data, head.bytes, file->bytes, path, &data->kind, err);
        if (!status)
            data->token_bytes = data->kind->token_bytes;
    } else {
        status = open_megatron(io, file, path, data, err);
    }
    free(head.data);
    return status;
}

static int add_chunks(const struct token_stream *stream, uint64_t file, uint64_t offset,
                      struct str *chunks)
{
    uint64_t end = stream->files.files[file].bytes;
    for (; offset < end; offset += TOKEN_CHUNK_BYTES) {
        const struct token_chunk chunk = {
            .file = file, .offset = offset, .bytes = bytes_min(TOKEN_CHUNK_BYTES, end - offset)};
        str_add(chunks, &chunk, sizeof chunk);
    }
    return str_status(chunks);
}

static int check_index_has_data(struct io *io, const char *path, struct err *err)
{
    char data[IO_PATH_BYTES_MAX];
    struct io_stat info;
    strcpy(data, path);
    replace_extension(data, ".bin");
    return io->names->stat(io, data, &info, NULL) == 0
               ? 0
               : reject_file(path, "Megatron's index has no data",
                             "put the .bin file next to its .idx file", err);
}

static int add_file(struct io *io, struct tokens_source *tokens, uint64_t file, struct str *chunks,
                    struct err *err)
{
    struct token_stream *stream = &tokens->stream;
    struct token_data *data = &tokens->data[file];
    char path[IO_PATH_BYTES_MAX];
    int status = file_list_path(&stream->files, file, path, err);
    if (!status && is_index(path))
        return check_index_has_data(io, path, err);
    if (!status)
        status = open_data(io, &stream->files.files[file], path, data, err);
    if (status)
        return status;
    if (chunks->bytes > 0 && data->kind != tokens->kind)
        return reject_file(path, "the folder has token files of several kinds",
                           "skip those of all but one kind with --ignore GLOB", err);
    tokens->kind = data->kind;
    tokens->documents_count += data->index.ends_count;
    return add_chunks(stream, file, data->kind ? TOKEN_FILE_HEADER_BYTES : 0, chunks)
               ? err_set(err, -ENOMEM, "out of memory for a list of tokens")
               : 0;
}

/* Files for training and for validation are not one stream. */
static int check_names(const struct tokens_source *tokens, const char *source, struct err *err)
{
    static const char *const parts[] = {"_train", "_val", "_test"};
    const char *found = NULL;
    for (uint64_t file = 0; file < tokens->stream.files.count; file++)
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            if (!strstr(file_list_name(&tokens->stream.files, file), parts[i]))
                continue;
            if (found && strcmp(found, parts[i]) != 0) {
                err_set(err, -EINVAL, "the folder has files of several splits");
                err_at(err, source, ERR_NO_OFFSET);
                err_found(err, "names with %s and %s", found, parts[i]);
                err_advise(err, "convert each split by itself: skip the others, for example with "
                                "--ignore '*_val*'");
                return -EINVAL;
            }
            found = parts[i];
        }
    return 0;
}

static int list_files(struct io *io, struct source *source, struct tokens_source *tokens,
                      struct err *err)
{
    struct token_stream *stream = &tokens->stream;
    struct str chunks = {0};
    stream->files.is_tokens = true;
    int status = is_index(source->options->source)
                     ? reject_file(source->options->source, "the file is Megatron's index",
                                   "convert the .bin file next to it", err)
                     : file_list_open(&stream->files, io, source, err);
    if (!status)
        status = check_names(tokens, source->options->source, err);
    if (status)
        return status;
    tokens->data = calloc(stream->files.count + 1, sizeof *tokens->data);
    if (!tokens->data)
        return err_set(err, -ENOMEM, "out of memory for a list of files");
    for (uint64_t file = 0; file < stream->files.count && !status; file++)
        status = add_file(io, tokens, file, &chunks, err);
    /* The stream takes ownership of the memory. */
    stream->chunks.items = (struct token_chunk *)(void *)chunks.data;
    stream->chunks.count = chunks.bytes / sizeof *stream->chunks.items;
    return status;
}

/* ---- The vocabulary. ---- */

static int reject_vocabulary(const struct source *source, const char *what, struct err *err)
{
    return reject_file(source->options->source, what,
                       "name the tokenizer that made the tokens with --tokenizer FILE, or give "
                       "--vocab-size N and, as a number, --document-end ID",
                       err);
}

/* The document end of the options, as a number below the vocabulary's size. */
static int parse_document_end(const struct source *source, uint32_t vocabulary, uint32_t *ret_token,
                              struct err *err)
{
    const char *text = source->options->document_end;
    char *end;
    unsigned long long token = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && token < vocabulary) {
        *ret_token = (uint32_t)token;
        return 0;
    }
    err_set(err, -EINVAL, "--document-end has an invalid value");
    err_expected(err, "without --tokenizer, the number of a token below %" PRIu32, vocabulary);
    err_found(err, "%.100s", text);
    return -EINVAL;
}

static int use_tokenizer(struct io *io, const struct source *source, struct tokens_source *tokens,
                         struct err *err)
{
    struct token_stream *stream = &tokens->stream;
    int status = tokenizer_open(io, source->options, &tokens->bpe, err);
    if (status)
        return status;
    tokenizer_describe(tokens->bpe, stream);
    if (!tokens->kind || tokens->kind->vocabulary == stream->vocabulary)
        return 0;
    err_set(err, -EINVAL, "the tokenizer is not the one that made the tokens, %s's",
            tokens->kind->tokenizer);
    err_at(err, source->options->tokenizer, ERR_NO_OFFSET);
    err_expected(err, "a vocabulary of %" PRIu32, tokens->kind->vocabulary);
    err_found(err, "%" PRIu32, stream->vocabulary);
    return -EINVAL;
}

static int choose_vocabulary(struct io *io, const struct source *source,
                             struct tokens_source *tokens, struct err *err)
{
    const struct convert_options *options = source->options;
    struct token_stream *stream = &tokens->stream;
    if (options->tokenizer && options->vocabulary_size)
        return reject_vocabulary(source, "--tokenizer and --vocab-size contradict each other", err);
    if (options->tokenizer)
        return use_tokenizer(io, source, tokens, err);
    if (options->vocabulary_size) {
        if (!options->document_end)
            return reject_vocabulary(source, "--vocab-size needs --document-end", err);
        stream->tokenizer = "unknown";
        stream->vocabulary = options->vocabulary_size;
    } else if (tokens->kind) {
        stream->tokenizer = tokens->kind->tokenizer;
        stream->vocabulary = tokens->kind->vocabulary;
        stream->document_end = tokens->kind->document_end;
    } else {
        return reject_vocabulary(source, "Megatron's data does not say which tokenizer made it",
                                 err);
    }
    stream->token_bytes = stream->vocabulary > BPE_VOCABULARY_U16_MAX ? 4 : 2;
    return options->document_end
               ? parse_document_end(source, stream->vocabulary, &stream->document_end, err)
               : 0;
}

/* ---- Reading. ---- */

/* Negative ones become huge. */
static uint64_t load_token(const struct token_data *data, const char *at)
{
    switch (data->token_bytes) {
    case 1:
        return data->is_signed ? (uint64_t)(int64_t) * (const int8_t *)at : *(const uint8_t *)at;
    case 2:
        return data->is_signed ? (uint64_t)(int64_t)(int16_t)bytes_get_u16(at) : bytes_get_u16(at);
    case 4:
        return data->is_signed ? (uint64_t)(int64_t)(int32_t)bytes_get_u32(at) : bytes_get_u32(at);
    default:
        return bytes_get_u64(at);
    }
}

static int reject_token(const struct tokens_source *tokens, const char *path, uint64_t offset,
                        uint64_t token, struct err *err)
{
    err_set(err, -EBADMSG, "a token is not in the vocabulary of the tokenizer \"%s\"",
            tokens->stream.tokenizer);
    err_at(err, path, (int64_t)offset);
    err_expected(err, "below %" PRIu32, tokens->stream.vocabulary);
    err_found(err, "%" PRId64, (int64_t)token);
    err_advise(err, "give the vocabulary of the tokens with --tokenizer or --vocab-size");
    return -EBADMSG;
}

/* Returns how many documents end at or before a token. */
static uint64_t count_up_to(const struct token_index *index, uint64_t token)
{
    uint64_t low = 0, high = index->ends_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (index->ends[middle] > token)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static char *put_token(const struct token_stream *stream, uint32_t token, char *to)
{
    bytes_put_u32(to, token); /* little-endian: the first bytes are a u16 */
    return to + stream->token_bytes;
}

static int encode(struct token_encoder *encoder, const struct token_chunk *chunk, const char *path,
                  struct str *out, struct err *err)
{
    struct tokens_source *tokens = encoder->source->state;
    const struct token_stream *stream = &tokens->stream;
    const struct token_data *data = &tokens->data[chunk->file];
    const struct token_index *index = &data->index;
    size_t width = data->token_bytes, count = chunk->bytes / width;
    uint64_t first = chunk->offset / width, ends_count = 0, added_count = 0;
    str_clear(&encoder->file);
    int status = file_list_read(&stream->files, encoder->io, encoder->queue, chunk->file, path,
                                chunk->offset, chunk->bytes, &encoder->file, err);
    if (status)
        return status;
    /* each token may end a document, and put_token writes 4 bytes */
    if (str_reserve(out, (2 * count + 1) * sizeof(uint32_t)))
        return err_set(err, -ENOMEM, "out of memory for tokens");
    char *to = out->data + out->bytes;
    uint64_t end = count_up_to(index, first);
    for (size_t i = 0; i < count; i++) {
        uint64_t token = load_token(data, encoder->file.data + i * width);
        if (token >= stream->vocabulary)
            return reject_token(tokens, path, chunk->offset + i * width, token, err);
        bool is_end = token == stream->document_end;
        to = put_token(stream, (uint32_t)token, to);
        ends_count += is_end;
        if (end == index->ends_count || index->ends[end] != first + i + 1)
            continue;
        end++;
        if (!is_end) {
            to = put_token(stream, stream->document_end, to);
            added_count++;
        }
    }
    out->bytes = (size_t)(to - out->data);
    tokens->ends_count += ends_count;
    tokens->added_count += added_count;
    return 0;
}

static const struct token_stream_ops tokens_stream_ops = {.encode = encode};

/* ---- The source. ---- */

static int check_ends(const struct source *source, const struct tokens_source *tokens,
                      struct err *err)
{
    const struct convert_options *options = source->options;
    uint32_t token = tokens->stream.document_end;
    if (tokens->added_count > 0)
        log_line(options->log, LOG_INFO,
                 "%s: added the document end %" PRIu32 " to %" PRIu64 " of %" PRIu64 " documents",
                 options->source, token, tokens->added_count, tokens->documents_count);
    if (tokens->ends_count + tokens->added_count > 0)
        return 0;
    if (!options->tokenizer && !options->document_end) {
        log_line(options->log, LOG_WARN, "%s: no token is the document end %" PRIu32,
                 options->source, token);
        return 0;
    }
    err_set(err, -EINVAL, "no token is the document end");
    err_at(err, options->source, ERR_NO_OFFSET);
    err_expected(err, "token %" PRIu32 " between documents", token);
    err_advise(err, "name the token that the data has there with --document-end");
    return -EINVAL;
}

static int identify(struct source *source, const struct tokens_source *tokens, struct err *err)
{
    struct hash_stream *hash = hash_stream_open();
    if (!hash)
        return err_set(err, -ENOMEM, "out of memory for a source");
    hash_stream_update(hash, &source->identity, sizeof source->identity);
    for (uint64_t file = 0; file < tokens->stream.files.count; file++) {
        const struct token_index *index = &tokens->data[file].index;
        if (index->ends_count > 0)
            hash_stream_update(hash, index->ends, index->ends_count * sizeof *index->ends);
    }
    source->identity = hash_stream_64(hash);
    hash_stream_close(hash);
    return 0;
}

static int tokens_open(struct io *io, struct source *source, struct err *err)
{
    struct tokens_source *tokens = source->state = calloc(1, sizeof *tokens);
    if (!tokens)
        return err_set(err, -ENOMEM, "out of memory for a source");
    tokens->stream.ops = &tokens_stream_ops;
    int status = list_files(io, source, tokens, err);
    if (!status)
        status = choose_vocabulary(io, source, tokens, err);
    if (!status)
        status = token_stream_count(io, source, &tokens->stream, err);
    if (!status && tokens->stream.chunks.count > 0)
        status = check_ends(source, tokens, err);
    if (!status)
        status = token_stream_divide(source, &tokens->stream, err);
    return status ? status : identify(source, tokens, err);
}

static void tokens_close(struct source *source)
{
    struct tokens_source *tokens = source->state;
    if (!tokens)
        return;
    for (uint64_t file = 0; tokens->data && file < tokens->stream.files.count; file++)
        token_index_deinit(&tokens->data[file].index);
    free(tokens->data);
    token_stream_deinit(&tokens->stream);
    bpe_close(tokens->bpe);
    free(tokens);
}

static void tokens_write_options(const struct source *source, struct jsonx_writer *json)
{
    const struct tokens_source *tokens = source->state;
    jsonx_write_string(json, "tokenizer", tokens->stream.tokenizer);
    if (tokens->bpe)
        jsonx_write_hex64(json, "vocabulary_xxh3", bpe_identity(tokens->bpe));
    if (source->options->document_end)
        jsonx_write_string(json, "document_end", source->options->document_end);
    if (source->options->vocabulary_size)
        jsonx_write_u64(json, "vocabulary_size", source->options->vocabulary_size);
}

static bool is_tokens(const struct source_layout *layout)
{
    return layout->has_tokens;
}

const struct source_ops source_tokens_ops = {
    .name = "tokens",
    .is_stream = true,
    .probe = is_tokens,
    .open = tokens_open,
    .close = tokens_close,
    .describe = token_stream_describe,
    .read = token_stream_read,
    .reader_open = token_stream_reader_open,
    .reader_close = token_stream_reader_close,
    .write_options = tokens_write_options,
    .fill_text = token_stream_fill_text,
};
