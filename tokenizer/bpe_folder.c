/*
 * bpe_folder — opens GPT-2's tokenizer (bpe.h) as OpenAI published it:
 *
 *     encoder.json   {"token": id, ...}: the ids are 0 to the number of tokens - 1
 *     vocab.bpe      optional "#version: ...", then "left right\n" per pair, in order of rank
 */
#include "tokenizer/bpe_vocabulary.h"

#include "base/hash.h"
#include "base/json/jsonx.h"
#include "io/file_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES_MAX = 1024 };

static const char WHAT[] = "the byte-pair encoding vocabulary";

struct folder_reader {
    struct bpe_builder builder;
    uint8_t *seen; /* indexed by id */
};

static int check_token(void *context, const char *key, struct json_t *value)
{
    struct folder_reader *reader = context;
    uint64_t id;
    if (jsonx_u64(value, &id) || id >= reader->builder.bpe->vocabulary_size || reader->seen[id])
        return bpe_reject(&reader->builder, WHAT, ERR_NO_OFFSET,
                          "unique ids below the number of tokens", key);
    reader->seen[id] = 1;
    return 0;
}

static int load_tokens(struct folder_reader *reader, const char *text, size_t bytes)
{
    struct bpe_builder *builder = &reader->builder;
    struct bpe *bpe = builder->bpe;
    int status = jsonx_parse(text, bytes, builder->path, 0, &builder->tokens, builder->err);
    if (status)
        return status;
    size_t count =
        jsonx_kind(builder->tokens) == JSON_KIND_OBJECT ? jsonx_count(builder->tokens) : 0;
    if (count <= 256 || count > BPE_VOCABULARY_U16_MAX)
        return bpe_reject(builder, WHAT, ERR_NO_OFFSET, "an object of 257 to 65535 tokens",
                          "a different number");
    bpe->vocabulary_size = (uint32_t)count;
    bpe->identity = hash_64(text, bytes);
    reader->seen = calloc(count, 1);
    if (!reader->seen)
        return err_set(builder->err, -ENOMEM, "out of memory for a vocabulary");
    status = jsonx_each(builder->tokens, check_token, reader);
    if (!status)
        status = bpe_builder_find(builder, WHAT, ERR_NO_OFFSET, "<|endoftext|>",
                                  &bpe->document_end_token);
    if (!status)
        status = bpe_added_add(&bpe->added, "<|endoftext|>", bpe->document_end_token, true)
                     ? err_set(builder->err, -ENOMEM, "out of memory for a vocabulary")
                     : 0;
    bpe_added_sort(&bpe->added);
    return status ? status : bpe_builder_set_bytes(builder, WHAT);
}

static int add_line(const struct bpe_builder *builder, const char *line, size_t bytes,
                    uint32_t rank, int64_t offset)
{
    char left[LINE_BYTES_MAX];
    const char *space = memchr(line, ' ', bytes);
    size_t left_bytes = space ? (size_t)(space - line) : 0;
    if (left_bytes == 0 || left_bytes + 1 >= bytes || bytes >= sizeof left ||
        memchr(line, '\0', bytes) || rank >= BPE_VOCABULARY_U16_MAX)
        return bpe_reject(builder, WHAT, offset,
                          "two tokens separated by a space, at most 65535 lines",
                          "a different line");
    memcpy(left, line, bytes);
    left[left_bytes] = left[bytes] = '\0';
    return bpe_builder_add_pair(builder, WHAT, offset, left, left + left_bytes + 1, rank);
}

static int load_pairs(struct folder_reader *reader, const char *text, size_t bytes)
{
    struct bpe_builder *builder = &reader->builder;
    uint64_t hashes[2] = {builder->bpe->identity, hash_64(text, bytes)};
    builder->bpe->identity = hash_64(hashes, sizeof hashes);
    int status = bpe_builder_reserve_pairs(builder, BPE_VOCABULARY_U16_MAX);
    uint32_t rank = 0;
    for (size_t at = 0; at < bytes && !status;) {
        const char *line = text + at, *newline = memchr(line, '\n', bytes - at);
        size_t line_bytes = newline ? (size_t)(newline - line) : bytes - at;
        bool is_version = at == 0 && line_bytes >= 8 && memcmp(line, "#version", 8) == 0;
        if (line_bytes > 0 && !is_version)
            status = add_line(builder, line, line_bytes, rank++, (int64_t)at);
        at += line_bytes + 1;
    }
    return status;
}

static int load_file(struct io *io, const char *folder, const char *name,
                     struct folder_reader *reader,
                     int (*load)(struct folder_reader *reader, const char *text, size_t bytes))
{
    char path[IO_PATH_BYTES_MAX];
    char *text = NULL;
    size_t bytes;
    int status = io_join_path(folder, name, path, reader->builder.err);
    if (!status)
        status = io_read_file(io, path, BPE_FILE_BYTES_MAX, &text, &bytes, reader->builder.err);
    reader->builder.path = path;
    if (!status)
        status = load(reader, text, bytes);
    free(text);
    return status;
}

int bpe_open_folder(struct io *io, const char *folder, struct bpe **ret_bpe, struct err *err)
{
    struct folder_reader reader = {0};
    int status = bpe_builder_init(&reader.builder, err);
    if (!status)
        status = load_file(io, folder, "encoder.json", &reader, load_tokens);
    if (!status)
        status = load_file(io, folder, "vocab.bpe", &reader, load_pairs);
    jsonx_free(reader.builder.tokens);
    free(reader.seen);
    if (status) {
        bpe_close(reader.builder.bpe);
        return status;
    }
    reader.builder.bpe->name = "gpt2";
    reader.builder.bpe->pattern = BPE_PATTERN_GPT2;
    *ret_bpe = reader.builder.bpe;
    return 0;
}
