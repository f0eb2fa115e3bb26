/*
 * source_text — the source for text. Documents are text files, or the lines of JSON Lines; each is
 * followed by the document end (token_stream.h).
 */
#include "base/json/jsonx_writer.h"
#include "convert/source/columns.h"
#include "convert/source/table_list.h"
#include "convert/source/text_chunks.h"
#include "convert/source/text_line.h"
#include "convert/source/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct text_source {
    struct token_stream stream;
    struct bpe *bpe; /* NULL for "bytes" */
    /* JSON Lines: the member with the text; NULL: text files. */
    const char *field;
    struct columns columns; /* of the options */
};

struct text_encoder {
    struct bpe_encoder *bpe; /* NULL for "bytes" */
    struct str text;         /* of a line */
};

/* The member of JSON Lines that --column maps to txt. */
static int choose_field(struct text_source *text, const struct convert_options *options,
                        struct err *err)
{
    struct columns *columns = &text->columns;
    const struct column *column = &columns->items[0];
    int status = columns_parse(&options->columns, columns, err);
    text->field = "text";
    if (status || columns->count == 0)
        return status;
    if (columns->count == 1 && column->kind == COLUMN_TEXT && strcmp(column->field, "txt") == 0 &&
        column->name[0] != '$') {
        text->field = column->name;
        return 0;
    }
    err_set(err, -EINVAL, "--column has an invalid value for text");
    err_expected(err, "one field of JSON Lines: NAME=txt");
    err_found(err, "%.150s", options->columns.items[columns->count > 1 ? 1 : 0]);
    return -EINVAL;
}

/* Whether the files are JSON Lines. A single file is, unless it is a .txt file. */
static int choose_format(struct text_source *text, const struct source *source, struct err *err)
{
    const struct file_list *files = &text->stream.files;
    const char *plain = NULL, *lines = NULL;
    for (uint64_t file = 0; file < files->count; file++) {
        const char *name = file_list_name(files, file);
        if (str_ends_with_nocase(name, ".txt"))
            plain = name;
        else
            lines = name;
    }
    if (plain && lines) {
        err_set(err, -EINVAL, "the folder has both text files and JSON Lines");
        err_at(err, source->options->source, ERR_NO_OFFSET);
        err_found(err, "%.100s and %.100s", plain, lines);
        err_advise(err, "skip one kind, for example with --ignore '*.txt'");
        return -EINVAL;
    }
    if (lines)
        return choose_field(text, source->options, err);
    if (source->options->columns.count == 0)
        return 0;
    err_set(err, -EINVAL, "--column is for lists");
    err_at(err, source->options->source, ERR_NO_OFFSET);
    err_found(err, "text files");
    return -EINVAL;
}

static int encoder_open(struct token_encoder *encoder, struct err *err)
{
    const struct text_source *text = encoder->source->state;
    struct text_encoder *state = encoder->state = calloc(1, sizeof *state);
    if (!state)
        return err_set(err, -ENOMEM, "out of memory for a tokenizer");
    return text->bpe ? bpe_encoder_open(text->bpe, &state->bpe, err) : 0;
}

static void encoder_close(struct token_encoder *encoder)
{
    struct text_encoder *state = encoder->state;
    if (!state)
        return;
    bpe_encoder_close(state->bpe);
    str_deinit(&state->text);
    free(state);
}

static int add_tokens(struct token_encoder *encoder, const char *text, size_t bytes,
                      struct str *tokens, struct err *err)
{
    const struct text_encoder *state = encoder->state;
    if (state->bpe)
        return bpe_encode(state->bpe, text, bytes, tokens, err);
    size_t start = tokens->bytes;
    str_add_fill(tokens, 0, 2 * bytes);
    if (str_status(tokens))
        return err_set(err, -ENOMEM, "out of memory for tokens");
    for (size_t i = 0; i < bytes; i++)
        tokens->data[start + 2 * i] = text[i];
    return 0;
}

static int add_line(struct token_encoder *encoder, const char *line, size_t bytes,
                    struct str *tokens, struct err *err)
{
    const struct text_source *text = encoder->source->state;
    struct text_encoder *state = encoder->state;
    if (bytes > TEXT_LINE_BYTES_MAX) {
        err_set(err, -EBADMSG, "a line is too long");
        err_expected(err, "at most %d bytes", TEXT_LINE_BYTES_MAX);
        return -EBADMSG;
    }
    int status = text_line_read(line, bytes, text->field, &state->text, err);
    if (!status)
        status = add_tokens(encoder, state->text.data, state->text.bytes, tokens, err);
    token_stream_add(&text->stream, text->stream.document_end, tokens);
    return status;
}

static int add_lines(struct token_encoder *encoder, const struct token_chunk *chunk,
                     const char *path, struct str *tokens, struct err *err)
{
    const struct text_source *source = encoder->source->state;
    const char *text = encoder->file.data;
    size_t bytes = encoder->file.bytes, at = 0;
    struct csv_span line;
    int status = 0;
    if (chunk->offset == 0) {
        status = table_check_encoding(path, text, bytes, err);
        at = table_mark_bytes(text, bytes);
    }
    for (; !status && table_find_line(text + at, bytes - at, true, &line); at += line.next) {
        if (line.bytes == 0)
            continue;
        status = add_line(encoder, text + at, line.bytes, tokens, err);
        if (status && err) {
            uint64_t within = err->offset == ERR_NO_OFFSET ? 0 : (uint64_t)err->offset;
            text_line_locate(&source->stream.files, encoder->io, encoder->queue, chunk->file, path,
                             chunk->offset + at + within, err);
        }
    }
    return status;
}

static int encode(struct token_encoder *encoder, const struct token_chunk *chunk, const char *path,
                  struct str *tokens, struct err *err)
{
    const struct text_source *text = encoder->source->state;
    const struct token_stream *stream = &text->stream;
    str_clear(&encoder->file);
    int status = file_list_read(&stream->files, encoder->io, encoder->queue, chunk->file, path,
                                chunk->offset, chunk->bytes, &encoder->file, err);
    if (status)
        return status;
    if (text->field)
        return add_lines(encoder, chunk, path, tokens, err);
    status = add_tokens(encoder, encoder->file.data, encoder->file.bytes, tokens, err);
    if (text_chunk_ends_file(&stream->files, chunk))
        token_stream_add(stream, stream->document_end, tokens);
    return status;
}

static const struct token_stream_ops text_stream_ops = {
    .encoder_open = encoder_open,
    .encoder_close = encoder_close,
    .encode = encode,
};

/* Bytes of text files are tokens: their number is known. */
static void count_bytes(struct token_stream *stream)
{
    uint64_t end = 0;
    for (uint64_t i = 0; i < stream->chunks.count; i++) {
        struct token_chunk *chunk = &stream->chunks.items[i];
        end += chunk->bytes + text_chunk_ends_file(&stream->files, chunk);
        chunk->tokens_end = end;
    }
}

static int text_open(struct io *io, struct source *source, struct err *err)
{
    struct text_source *text = source->state = calloc(1, sizeof *text);
    if (!text)
        return err_set(err, -ENOMEM, "out of memory for a source");
    struct token_stream *stream = &text->stream;
    stream->files.is_text = true;
    int status = tokenizer_open(io, source->options, &text->bpe, err);
    if (!status)
        status = file_list_open(&stream->files, io, source, err);
    if (!status)
        status = choose_format(text, source, err);
    if (status)
        return status;
    stream->ops = &text_stream_ops;
    tokenizer_describe(text->bpe, stream);
    status = text_chunks_cut(io, &stream->files,
                             text->field ? TEXT_CUT_LINES
                             : text->bpe ? TEXT_CUT_WORDS
                                         : TEXT_CUT_ANYWHERE,
                             text->bpe, &stream->chunks, err);
    if (!status && (text->field || text->bpe))
        status = token_stream_count(io, source, stream, err);
    else
        count_bytes(stream);
    return status ? status : token_stream_divide(source, stream, err);
}

static void text_close(struct source *source)
{
    struct text_source *text = source->state;
    if (!text)
        return;
    token_stream_deinit(&text->stream);
    bpe_close(text->bpe);
    free(text);
}

static void text_write_options(const struct source *source, struct jsonx_writer *json)
{
    const struct text_source *text = source->state;
    jsonx_write_string(json, "tokenizer", text->stream.tokenizer);
    if (text->bpe)
        jsonx_write_hex64(json, "vocabulary_xxh3", bpe_identity(text->bpe));
    if (source->options->document_end)
        jsonx_write_string(json, "document_end", source->options->document_end);
    if (text->field)
        jsonx_write_string(json, "text_field", text->field);
}

static bool is_text(const struct source_layout *layout)
{
    char delimiter;
    if (layout->file)
        return str_ends_with_nocase(layout->file, ".txt") ||
               (layout->has_tokenizer &&
                (str_ends_with_nocase(layout->file, ".json") ||
                 (table_detect(layout->file, layout->head, layout->head_bytes, &delimiter) &&
                  !delimiter)));
    return layout->has_tokenizer ||
           (layout->has_text_files && !layout->has_other_files && !layout->has_folders);
}

const struct source_ops source_text_ops = {
    .name = "text",
    .is_stream = true,
    .probe = is_text,
    .open = text_open,
    .close = text_close,
    .describe = token_stream_describe,
    .read = token_stream_read,
    .reader_open = token_stream_reader_open,
    .reader_close = token_stream_reader_close,
    .write_options = text_write_options,
    .fill_text = token_stream_fill_text,
};
