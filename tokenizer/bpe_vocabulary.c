/*
 * bpe_vocabulary — see bpe_vocabulary.h.
 */
#include "tokenizer/bpe_vocabulary.h"

#include "base/hash.h"
#include "base/json/jsonx.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_TEXT_BYTES_MAX = 2048, CHARACTER_CODE_END = 0x100 + 256 };

static bool is_printable(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* Fills code_of[byte] with the character that stands for the byte, below CHARACTER_CODE_END. */
static void fill_code_of(uint16_t code_of[256])
{
    uint16_t others = 0;
    for (unsigned byte = 0; byte < 256; byte++)
        code_of[byte] = (uint16_t)(is_printable(byte) ? byte : 0x100u + others++);
}

/* Writes the UTF-8 form of a character below CHARACTER_CODE_END. */
static void write_character(unsigned code, char text[3])
{
    size_t at = 0;
    if (code >= 0x80)
        text[at++] = (char)(0xc0 | code >> 6);
    text[at] = (char)(code < 0x80 ? code : (0x80 | (code & 0x3f)));
    text[at + 1] = '\0';
}

/* Fills byte_of[code]; -1: the character stands for no byte. */
static void fill_byte_of(int16_t byte_of[CHARACTER_CODE_END])
{
    uint16_t code_of[256];
    fill_code_of(code_of);
    memset(byte_of, 0xff, CHARACTER_CODE_END * sizeof *byte_of);
    for (unsigned byte = 0; byte < 256; byte++)
        byte_of[code_of[byte]] = (int16_t)byte;
}

int bpe_builder_init(struct bpe_builder *builder, struct err *err)
{
    *builder = (struct bpe_builder){.bpe = calloc(1, sizeof *builder->bpe), .err = err};
    return builder->bpe ? 0 : err_set(err, -ENOMEM, "out of memory for a vocabulary");
}

int bpe_reject(const struct bpe_builder *builder, const char *what, int64_t offset,
               const char *expected, const char *found)
{
    err_set(builder->err, -EBADMSG, "%s is invalid", what);
    err_at(builder->err, builder->path, offset);
    err_expected(builder->err, "%s", expected);
    err_found(builder->err, "%.100s", found);
    return -EBADMSG;
}

int bpe_builder_find(const struct bpe_builder *builder, const char *what, int64_t offset,
                     const char *text, uint32_t *ret_token)
{
    uint64_t id;
    if (jsonx_u64(jsonx_get(builder->tokens, text), &id))
        return bpe_reject(builder, what, offset, "tokens of the vocabulary", text);
    *ret_token = (uint32_t)id;
    return 0;
}

int bpe_builder_set_bytes(const struct bpe_builder *builder, const char *what)
{
    uint16_t code_of[256];
    int status = 0;
    fill_code_of(code_of);
    for (unsigned byte = 0; byte < 256 && !status; byte++) {
        char name[3];
        write_character(code_of[byte], name);
        status = bpe_builder_find(builder, what, ERR_NO_OFFSET, name, &builder->bpe->bytes[byte]);
    }
    return status;
}

/* Returns the bits of a table that `count` entries fill at most half. */
static unsigned table_bits(size_t count)
{
    unsigned bits = 1;
    while ((size_t)1 << bits < 2 * count)
        bits++;
    return bits;
}

int bpe_builder_reserve_pairs(const struct bpe_builder *builder, size_t count)
{
    struct bpe *bpe = builder->bpe;
    bpe->pair_bits = table_bits(count + 1);
    size_t bytes = sizeof *bpe->pairs << bpe->pair_bits;
    bpe->pairs = malloc(bytes);
    if (!bpe->pairs)
        return err_set(builder->err, -ENOMEM, "out of memory for a vocabulary");
    memset(bpe->pairs, 0xff, bytes);
    return 0;
}

int bpe_builder_add_pair(const struct bpe_builder *builder, const char *what, int64_t offset,
                         const char *left, const char *right, uint32_t rank)
{
    char merged[TOKEN_TEXT_BYTES_MAX];
    size_t left_bytes = strlen(left), right_bytes = strlen(right);
    if (left_bytes + right_bytes >= sizeof merged)
        return bpe_reject(builder, what, offset, "tokens of at most 2047 bytes", left);
    memcpy(merged, left, left_bytes);
    memcpy(merged + left_bytes, right, right_bytes + 1);
    struct bpe_pair pair = {.rank = rank};
    int status = bpe_builder_find(builder, what, offset, left, &pair.left);
    if (!status)
        status = bpe_builder_find(builder, what, offset, right, &pair.right);
    if (!status)
        status = bpe_builder_find(builder, what, offset, merged, &pair.merged_token);
    if (status)
        return status;
    struct bpe_pair *slot = (struct bpe_pair *)bpe_find_pair(builder->bpe, pair.left, pair.right);
    if (slot->merged_token != BPE_NONE)
        return bpe_reject(builder, what, offset, "each pair once", merged);
    *slot = pair;
    return 0;
}

/* Returns the word's slot, or an empty one. */
static struct bpe_word *find_word_slot(const struct bpe *bpe, const void *word, size_t bytes)
{
    size_t mask = ((size_t)1 << bpe->word_bits) - 1;
    for (size_t slot = hash_64(word, bytes) & mask;; slot = (slot + 1) & mask) {
        struct bpe_word *found = &bpe->words[slot];
        if (found->bytes == 0 || (found->bytes == bytes &&
                                  memcmp(bpe->word_text.data + found->offset, word, bytes) == 0))
            return found;
    }
}

uint32_t bpe_find_word(const struct bpe *bpe, const uint8_t *word, size_t bytes)
{
    if (bytes > bpe->word_bytes_max)
        return BPE_NONE;
    const struct bpe_word *found = find_word_slot(bpe, word, bytes);
    return found->bytes > 0 ? found->token : BPE_NONE;
}

struct word_adder {
    struct bpe *bpe;
    int16_t byte_of[CHARACTER_CODE_END];
};

/* Appends the bytes that the text stands for to bpe->word_text. Returns false if there are none. */
static bool append_word(const struct word_adder *adder, const char *text)
{
    struct str *words = &adder->bpe->word_text;
    size_t begin = words->bytes, left = strlen(text);
    for (const unsigned char *at = (const unsigned char *)text; left > 0;) {
        uint32_t code;
        size_t length = utf8_decode(at, left, &code);
        int byte = length > 0 && code < CHARACTER_CODE_END ? adder->byte_of[code] : -1;
        if (byte < 0) {
            words->bytes = begin;
            return false;
        }
        const char character = (char)byte;
        str_add(words, &character, 1);
        at += length;
        left -= length;
    }
    return words->bytes > begin;
}

static int add_word(void *context, const char *key, struct json_t *value)
{
    struct word_adder *adder = context;
    struct bpe *bpe = adder->bpe;
    size_t begin = bpe->word_text.bytes;
    uint64_t id;
    if (jsonx_u64(value, &id) || !append_word(adder, key))
        return 0;
    if (str_status(&bpe->word_text))
        return -ENOMEM;
    uint32_t bytes = (uint32_t)(bpe->word_text.bytes - begin);
    struct bpe_word *slot = find_word_slot(bpe, bpe->word_text.data + begin, bytes);
    *slot = (struct bpe_word){.offset = (uint32_t)begin, .bytes = bytes, .token = (uint32_t)id};
    bpe->word_bytes_max = bytes > bpe->word_bytes_max ? bytes : bpe->word_bytes_max;
    return 0;
}

int bpe_builder_add_words(const struct bpe_builder *builder)
{
    struct bpe *bpe = builder->bpe;
    struct word_adder adder = {.bpe = bpe};
    fill_byte_of(adder.byte_of);
    bpe->word_bits = table_bits(jsonx_count(builder->tokens));
    bpe->words = calloc((size_t)1 << bpe->word_bits, sizeof *bpe->words);
    if (!bpe->words || jsonx_each(builder->tokens, add_word, &adder))
        return err_set(builder->err, -ENOMEM, "out of memory for a vocabulary");
    return 0;
}

void bpe_close(struct bpe *bpe)
{
    if (!bpe)
        return;
    free(bpe->pairs);
    free(bpe->words);
    str_deinit(&bpe->word_text);
    bpe_added_deinit(&bpe->added);
    bpe_added_deinit(&bpe->unmatched);
    free(bpe);
}

const char *bpe_name(const struct bpe *bpe)
{
    return bpe->name;
}

uint32_t bpe_vocabulary_size(const struct bpe *bpe)
{
    return bpe->vocabulary_size;
}

uint32_t bpe_document_end_token(const struct bpe *bpe)
{
    return bpe->document_end_token;
}

uint32_t bpe_find_special(const struct bpe *bpe, const char *name)
{
    const struct bpe_added *const lists[] = {&bpe->added, &bpe->unmatched};
    for (size_t list = 0; list < 2; list++)
        for (size_t i = 0; i < lists[list]->count; i++)
            if (strcmp(lists[list]->tokens[i].text, name) == 0)
                return lists[list]->tokens[i].token;
    return BPE_NONE;
}

uint64_t bpe_identity(const struct bpe *bpe)
{
    return bpe->identity;
}

size_t bpe_token_bytes(const struct bpe *bpe)
{
    return bpe_width(bpe);
}

size_t bpe_find_cut(const struct bpe *bpe, const void *text, size_t bytes, size_t min_offset)
{
    return bpe_split_find_cut(bpe->pattern, text, bytes, min_offset);
}
