/*
 * bpe_vocabulary — see bpe_vocabulary.h. Reads encoder.json and vocab.bpe:
 *
 *     encoder.json   {"token": id, ...}: the ids are 0 to the number of tokens - 1
 *     vocab.bpe      optional "#version: ...", then "left right\n" per pair, in order of rank
 *
 * In both files, a character stands for a byte. Printable Latin-1 characters stand for themselves,
 * U+0100 and up for the other bytes in order.
 */
#include "convert/bpe/bpe_vocabulary.h"

#include "base/hash.h"
#include "base/json/jsonx.h"
#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_TEXT_BYTES_MAX = 1024 };

/* Writes the UTF-8 form of the character that stands for a byte. */
static void write_byte_character(unsigned byte, char text[3])
{
    unsigned code = byte, others = 0;
    for (unsigned b = 0; b <= byte; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        code = printable ? b : 0x100 + others++;
    }
    size_t at = 0;
    if (code >= 0x80)
        text[at++] = (char)(0xc0 | code >> 6);
    text[at] = (char)(code < 0x80 ? code : (0x80 | (code & 0x3f)));
    text[at + 1] = '\0';
}

struct vocabulary_reader {
    struct bpe *bpe;
    struct json_t *tokens;
    uint8_t *seen; /* indexed by id */
    const char *path;
    struct err *err;
};

static int reject(const struct vocabulary_reader *reader, int64_t offset, const char *expected,
                  const char *found)
{
    err_set(reader->err, -EBADMSG, "the byte-pair encoding vocabulary is invalid");
    err_at(reader->err, reader->path, offset);
    err_expected(reader->err, "%s", expected);
    err_found(reader->err, "%.100s", found);
    return -EBADMSG;
}

static int check_token(void *context, const char *key, struct json_t *value)
{
    struct vocabulary_reader *reader = context;
    uint64_t id;
    if (jsonx_u64(value, &id) || id >= reader->bpe->vocabulary_size || reader->seen[id])
        return reject(reader, ERR_NO_OFFSET, "unique ids below the number of tokens", key);
    reader->seen[id] = 1;
    return 0;
}

static int find_token(const struct vocabulary_reader *reader, const char *text, int64_t offset,
                      uint16_t *ret_token)
{
    uint64_t id;
    if (jsonx_u64(jsonx_get(reader->tokens, text), &id))
        return reject(reader, offset, "tokens of encoder.json", text);
    *ret_token = (uint16_t)id;
    return 0;
}

static int load_tokens(struct vocabulary_reader *reader, const char *text, size_t bytes)
{
    struct bpe *bpe = reader->bpe;
    int status = jsonx_parse(text, bytes, reader->path, 0, &reader->tokens, reader->err);
    if (status)
        return status;
    size_t count = jsonx_kind(reader->tokens) == JSON_KIND_OBJECT ? jsonx_count(reader->tokens) : 0;
    if (count <= 256 || count > BPE_VOCABULARY_MAX)
        return reject(reader, ERR_NO_OFFSET, "an object of 257 to 65535 tokens",
                      "a different number");
    bpe->vocabulary_size = (uint32_t)count;
    bpe->identity = hash_64(text, bytes);
    reader->seen = calloc(count, 1);
    if (!reader->seen)
        return err_set(reader->err, -ENOMEM, "out of memory for a vocabulary");
    status = jsonx_each(reader->tokens, check_token, reader);
    uint16_t end;
    if (!status)
        status = find_token(reader, "<|endoftext|>", ERR_NO_OFFSET, &end);
    for (unsigned byte = 0; byte < 256 && !status; byte++) {
        char name[3];
        write_byte_character(byte, name);
        status = find_token(reader, name, ERR_NO_OFFSET, &bpe->bytes[byte]);
    }
    if (!status)
        bpe->document_end_token = end;
    return status;
}

static int add_pair(struct vocabulary_reader *reader, const char *line, size_t bytes, uint32_t rank,
                    int64_t offset)
{
    char left[TOKEN_TEXT_BYTES_MAX], merged[TOKEN_TEXT_BYTES_MAX];
    const char *space = memchr(line, ' ', bytes);
    size_t left_bytes = space ? (size_t)(space - line) : 0;
    if (left_bytes == 0 || left_bytes + 1 >= bytes || bytes >= sizeof merged || rank >= BPE_NONE)
        return reject(reader, offset, "two tokens separated by a space, at most 65535 lines",
                      "a different line");
    memcpy(left, line, left_bytes);
    left[left_bytes] = '\0';
    memcpy(merged, line, left_bytes);
    memcpy(merged + left_bytes, space + 1, bytes - left_bytes - 1);
    merged[bytes - 1] = '\0';
    struct bpe_pair pair = {.rank = (uint16_t)rank};
    int status = find_token(reader, left, offset, &pair.left);
    if (!status)
        status = find_token(reader, merged + left_bytes, offset, &pair.right);
    if (!status)
        status = find_token(reader, merged, offset, &pair.merged_token);
    if (status)
        return status;
    struct bpe_pair *slot = (struct bpe_pair *)bpe_find_pair(reader->bpe, pair.left, pair.right);
    if (slot->merged_token != BPE_NONE)
        return reject(reader, offset, "each pair once", merged);
    *slot = pair;
    return 0;
}

static int load_pairs(struct vocabulary_reader *reader, const char *text, size_t bytes)
{
    memset(reader->bpe->pairs, 0xff, sizeof reader->bpe->pairs);
    uint64_t hashes[2] = {reader->bpe->identity, hash_64(text, bytes)};
    reader->bpe->identity = hash_64(hashes, sizeof hashes);
    uint32_t rank = 0;
    for (size_t at = 0; at < bytes;) {
        const char *line = text + at, *newline = memchr(line, '\n', bytes - at);
        size_t line_bytes = newline ? (size_t)(newline - line) : bytes - at;
        bool is_version = at == 0 && line_bytes >= 8 && memcmp(line, "#version", 8) == 0;
        if (line_bytes > 0 && !is_version) {
            int status = add_pair(reader, line, line_bytes, rank++, (int64_t)at);
            if (status)
                return status;
        }
        at += line_bytes + 1;
    }
    return 0;
}

static int load_file(struct io *io, const char *folder, const char *name,
                     struct vocabulary_reader *reader,
                     int (*load)(struct vocabulary_reader *reader, const char *text, size_t bytes))
{
    char path[IO_PATH_BYTES_MAX];
    char *text = NULL;
    size_t bytes;
    int status = io_join_path(folder, name, path, reader->err);
    if (!status)
        status = io_read_file(io, path, BPE_FILE_BYTES_MAX, &text, &bytes, reader->err);
    reader->path = path;
    if (!status)
        status = load(reader, text, bytes);
    free(text);
    return status;
}

int bpe_open(struct io *io, const char *folder, struct bpe **ret_bpe, struct err *err)
{
    struct vocabulary_reader reader = {.bpe = malloc(sizeof *reader.bpe), .err = err};
    if (!reader.bpe)
        return err_set(err, -ENOMEM, "out of memory for a vocabulary");
    int status = load_file(io, folder, "encoder.json", &reader, load_tokens);
    if (!status)
        status = load_file(io, folder, "vocab.bpe", &reader, load_pairs);
    jsonx_free(reader.tokens);
    free(reader.seen);
    if (status)
        bpe_close(reader.bpe);
    else
        *ret_bpe = reader.bpe;
    return status;
}

void bpe_close(struct bpe *bpe)
{
    free(bpe);
}

uint32_t bpe_vocabulary_size(const struct bpe *bpe)
{
    return bpe->vocabulary_size;
}

uint32_t bpe_document_end_token(const struct bpe *bpe)
{
    return bpe->document_end_token;
}

uint64_t bpe_identity(const struct bpe *bpe)
{
    return bpe->identity;
}
