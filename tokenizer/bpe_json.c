/*
 * bpe_json — opens a tokenizer.json (bpe.h) of Hugging Face's tokenizers:
 *
 *     {"normalizer": null or NFC,
 *      "pre_tokenizer": ByteLevel, or Sequence of Split (Regex, Isolated) and ByteLevel,
 *      "model": {"type": "BPE", "vocab": {"token": id, ...},
 *                "merges": ["left right", ...] or [["left", "right"], ...], "ignore_merges": bool},
 *      "added_tokens": [{"id": ..., "content": "<|endoftext|>", "special": true, ...}, ...]}
 *
 * Anything that would change tokens and is not known here is rejected. The post-processor (which
 * adds tokens around each text), decoder, truncation and padding do not matter for documents.
 */
#include "tokenizer/bpe_vocabulary.h"

#include "base/hash.h"
#include "base/json/jsonx.h"
#include "io/file_util.h"
#include "tokenizer/unicode_class.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHERE_BYTES_MAX = 64, MERGE_BYTES_MAX = 2048, ADDED_TOKENS_MAX = 65536 };

static const char LLAMA3_PATTERN[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char QWEN2_PATTERN[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char GPT2_PATTERN[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct json_reader {
    struct bpe_builder builder;
    uint8_t *seen; /* a bit for each id below BPE_VOCABULARY_MAX */
    uint64_t ids_end, added_end;
};

/* -ENOTSUP: the file is valid, but needs what this module lacks. */
static int refuse(const struct json_reader *reader, const char *where, const char *expected,
                  const char *found)
{
    struct err *err = reader->builder.err;
    err_set(err, -ENOTSUP, "%s is not supported in a tokenizer", where);
    err_at(err, reader->builder.path, ERR_NO_OFFSET);
    err_expected(err, "%s", expected);
    err_found(err, "%.200s", found);
    return -ENOTSUP;
}

static int reject(const struct json_reader *reader, const char *where, const char *expected,
                  const char *found)
{
    return bpe_reject(&reader->builder, where, ERR_NO_OFFSET, expected, found);
}

static const char *text_of(const struct json_t *node, const char *missing)
{
    const char *text;
    return jsonx_text(node, &text) ? missing : text;
}

/* Whether a member is absent, null or false. */
static bool is_off(const struct json_t *object, const char *key)
{
    const struct json_t *node = jsonx_get(object, key);
    bool value = false;
    return jsonx_kind(node) == JSON_KIND_NULL || (!jsonx_bool(node, &value) && !value);
}

static bool is_on(const struct json_t *object, const char *key)
{
    bool value = false;
    return !jsonx_bool(jsonx_get(object, key), &value) && value;
}

static int load_normalizer(struct json_reader *reader, const struct json_t *root)
{
    const struct json_t *node = jsonx_get(root, "normalizer");
    if (jsonx_kind(node) == JSON_KIND_NULL)
        return 0;
    const char *type = text_of(jsonx_get(node, "type"), "no type");
    if (strcmp(type, "NFC") != 0)
        return refuse(reader, "normalizer", "null or NFC", type);
    reader->builder.bpe->normalizes = true;
    return 0;
}

/* uses_regex: whether ByteLevel splits by GPT-2's pattern. */
static int check_byte_level(const struct json_reader *reader, const struct json_t *node,
                            const char *where, bool uses_regex)
{
    const char *type = text_of(jsonx_get(node, "type"), "no type");
    bool finds_regex = !jsonx_get(node, "use_regex") || !is_off(node, "use_regex");
    if (strcmp(type, "ByteLevel") != 0)
        return refuse(reader, where, "ByteLevel", type);
    if (!is_off(node, "add_prefix_space"))
        return refuse(reader, where, "ByteLevel with add_prefix_space false", "true");
    if (finds_regex != uses_regex)
        return refuse(reader, where,
                      uses_regex ? "ByteLevel with use_regex true, or Split before it"
                                 : "ByteLevel with use_regex false after Split",
                      finds_regex ? "true" : "false");
    return 0;
}

static int load_split(struct json_reader *reader, const struct json_t *node)
{
    static const char where[] = "pre_tokenizer.pretokenizers[0]";
    static const struct {
        const char *text;
        enum bpe_pattern pattern;
    } patterns[] = {{GPT2_PATTERN, BPE_PATTERN_GPT2},
                    {LLAMA3_PATTERN, BPE_PATTERN_LLAMA3},
                    {QWEN2_PATTERN, BPE_PATTERN_QWEN2}};
    const char *type = text_of(jsonx_get(node, "type"), "no type");
    const char *behavior = text_of(jsonx_get(node, "behavior"), "no behavior");
    const char *regex = text_of(jsonx_get(jsonx_get(node, "pattern"), "Regex"), NULL);
    if (strcmp(type, "Split") != 0)
        return refuse(reader, where, "Split", type);
    if (strcmp(behavior, "Isolated") != 0 || !is_off(node, "invert"))
        return refuse(reader, where, "behavior Isolated without invert", behavior);
    for (size_t i = 0; regex && i < sizeof patterns / sizeof patterns[0]; i++) {
        if (strcmp(regex, patterns[i].text) == 0) {
            reader->builder.bpe->pattern = patterns[i].pattern;
            return 0;
        }
    }
    return refuse(reader, "pre_tokenizer.pretokenizers[0].pattern",
                  "the Regex of GPT-2, Llama 3 or Qwen 2", regex ? regex : "no Regex");
}

static int load_pre_tokenizer(struct json_reader *reader, const struct json_t *root)
{
    const struct json_t *node = jsonx_get(root, "pre_tokenizer");
    const struct json_t *steps = jsonx_get(node, "pretokenizers");
    reader->builder.bpe->pattern = BPE_PATTERN_GPT2;
    if (strcmp(text_of(jsonx_get(node, "type"), ""), "Sequence") != 0)
        return check_byte_level(reader, node, "pre_tokenizer", true);
    if (jsonx_kind(steps) != JSON_KIND_ARRAY || jsonx_count(steps) != 2)
        return refuse(reader, "pre_tokenizer", "a Sequence of Split and ByteLevel",
                      "other pretokenizers");
    int status = load_split(reader, jsonx_at(steps, 0));
    return status ? status
                  : check_byte_level(reader, jsonx_at(steps, 1), "pre_tokenizer.pretokenizers[1]",
                                     false);
}

static int check_id(struct json_reader *reader, const char *where, const struct json_t *id_node,
                    const char *name)
{
    uint64_t id;
    if (jsonx_u64(id_node, &id) || id >= BPE_VOCABULARY_MAX || reader->seen[id / 8] & 1 << id % 8)
        return reject(reader, where, "unique ids below 16777216", name);
    reader->seen[id / 8] |= (uint8_t)(1 << id % 8);
    reader->ids_end = id >= reader->ids_end ? id + 1 : reader->ids_end;
    return 0;
}

static int check_vocab_token(void *context, const char *key, struct json_t *value)
{
    return check_id(context, "model.vocab", value, key);
}

/* Of a merge in one text, the tokens have no spaces: a space is U+0120 in them. */
static int split_merge(const struct json_reader *reader, const char *where, const char *text,
                       char left[MERGE_BYTES_MAX], const char **ret_right)
{
    const char *space = strchr(text, ' ');
    if (!space || strchr(space + 1, ' ') || strlen(text) >= MERGE_BYTES_MAX)
        return reject(reader, where, "two tokens separated by a space", text);
    memcpy(left, text, strlen(text) + 1);
    left[space - text] = '\0';
    *ret_right = left + (space - text) + 1;
    return 0;
}

static int load_merge(struct json_reader *reader, const struct json_t *merge, uint32_t rank)
{
    char where[WHERE_BYTES_MAX], split[MERGE_BYTES_MAX];
    const char *left = split, *right = NULL, *text;
    snprintf(where, sizeof where, "model.merges[%" PRIu32 "]", rank);
    int status = 0;
    if (!jsonx_text(merge, &text))
        status = split_merge(reader, where, text, split, &right);
    else if (jsonx_kind(merge) != JSON_KIND_ARRAY || jsonx_count(merge) != 2 ||
             jsonx_text(jsonx_at(merge, 0), &left) || jsonx_text(jsonx_at(merge, 1), &right))
        status = reject(reader, where, "two tokens", "a different value");
    return status ? status
                  : bpe_builder_add_pair(&reader->builder, where, ERR_NO_OFFSET, left, right, rank);
}

static int load_merges(struct json_reader *reader, const struct json_t *merges)
{
    size_t count = jsonx_count(merges);
    if (jsonx_kind(merges) != JSON_KIND_ARRAY)
        return reject(reader, "model.merges", "an array", "a different value");
    int status = bpe_builder_reserve_pairs(&reader->builder, count);
    for (size_t rank = 0; rank < count && !status; rank++)
        status = load_merge(reader, jsonx_at(merges, rank), (uint32_t)rank);
    return status;
}

/* Options of the model that would change tokens. */
static int check_model(const struct json_reader *reader, const struct json_t *model)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    double dropout = 0;
    const char *type = text_of(jsonx_get(model, "type"), "no type");
    if (strcmp(type, "BPE") != 0)
        return refuse(reader, "model.type", "BPE", type);
    if (!is_off(model, "byte_fallback"))
        return refuse(reader, "model.byte_fallback", "false", "true");
    if (jsonx_kind(jsonx_get(model, "dropout")) != JSON_KIND_NULL &&
        (jsonx_f64(jsonx_get(model, "dropout"), &dropout) || dropout != 0))
        return refuse(reader, "model.dropout", "null", "a different value");
    for (size_t i = 0; i < sizeof affixes / sizeof affixes[0]; i++) {
        const struct json_t *affix = jsonx_get(model, affixes[i]);
        const char *text = text_of(affix, "a different value");
        if (jsonx_kind(affix) != JSON_KIND_NULL && text[0])
            return refuse(reader, affixes[i], "null", text);
    }
    return 0;
}

static int load_model(struct json_reader *reader, const struct json_t *root)
{
    const struct json_t *model = jsonx_get(root, "model");
    struct bpe_builder *builder = &reader->builder;
    int status = check_model(reader, model);
    if (status)
        return status;
    builder->tokens = jsonx_get(model, "vocab");
    if (jsonx_kind(builder->tokens) != JSON_KIND_OBJECT)
        return reject(reader, "model.vocab", "an object of tokens", "a different value");
    status = jsonx_each(builder->tokens, check_vocab_token, reader);
    if (!status)
        status = bpe_builder_set_bytes(builder, "model.vocab");
    if (!status)
        status = load_merges(reader, jsonx_get(model, "merges"));
    if (!status && is_on(model, "ignore_merges"))
        status = bpe_builder_add_words(builder);
    return status;
}

/* A token of the vocabulary keeps its id. The others follow it, in order: tokenizers counts rather
 * than reads their ids. */
static int check_added_id(struct json_reader *reader, const char *where,
                          const struct json_t *id_node, const char *content)
{
    uint64_t id, vocab_id, vocab_count = jsonx_count(reader->builder.tokens);
    if (jsonx_u64(id_node, &id))
        return reject(reader, where, "an id", content);
    uint64_t next_id = reader->added_end > vocab_count ? reader->added_end : vocab_count;
    const struct json_t *in_vocab = jsonx_get(reader->builder.tokens, content);
    if (in_vocab ? jsonx_u64(in_vocab, &vocab_id) || vocab_id != id : id != next_id)
        return reject(reader, where, in_vocab ? "its id in model.vocab" : "the next id", content);
    reader->added_end = id >= reader->added_end ? id + 1 : reader->added_end;
    return in_vocab ? 0 : check_id(reader, where, id_node, content);
}

static bool has_space(const char *text)
{
    for (; *text; text++) {
        enum unicode_class kind;
        unicode_next((const uint8_t *)text, strnlen(text, 4), &kind);
        if (kind == UNICODE_SPACE)
            return true;
    }
    return false;
}

/* Tokens that are not special must match exactly where their text occurs. Text may be cut at white
 * space (bpe_find_cut), so they have none. */
static int check_matching(const struct json_reader *reader, const char *where,
                          const struct json_t *token, const char *content)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip", "normalized"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        char found[128];
        snprintf(found, sizeof found, "%s of %.80s", flags[i], content);
        if (!is_off(token, flags[i]))
            return refuse(reader, where,
                          "special true, or single_word, lstrip, rstrip and "
                          "normalized false",
                          found);
    }
    return has_space(content) ? refuse(reader, where, "special true, or no white space", content)
                              : 0;
}

static int load_added_token(struct json_reader *reader, const struct json_t *token, size_t number)
{
    char where[WHERE_BYTES_MAX];
    snprintf(where, sizeof where, "added_tokens[%zu]", number);
    const char *content = text_of(jsonx_get(token, "content"), "");
    const struct json_t *id = jsonx_get(token, "id");
    bool is_special = is_on(token, "special");
    if (!content[0])
        return reject(reader, where, "a token with content", "a different value");
    int status = check_added_id(reader, where, id, content);
    if (!status && !is_special)
        status = check_matching(reader, where, token, content);
    uint64_t value = 0;
    if (status || jsonx_u64(id, &value))
        return status;
    struct bpe *bpe = reader->builder.bpe;
    struct bpe_added *list = is_off(token, "normalized") ? &bpe->added : &bpe->unmatched;
    return bpe_added_add(list, content, (uint32_t)value, is_special)
               ? err_set(reader->builder.err, -ENOMEM, "out of memory for a vocabulary")
               : 0;
}

static int load_added_tokens(struct json_reader *reader, const struct json_t *added)
{
    size_t count = jsonx_count(added);
    if ((added && jsonx_kind(added) != JSON_KIND_ARRAY) || count > ADDED_TOKENS_MAX)
        return reject(reader, "added_tokens", "an array of at most 65536 tokens",
                      "a different value");
    int status = 0;
    for (size_t i = 0; i < count && !status; i++)
        status = load_added_token(reader, jsonx_at(added, i), i);
    bpe_added_sort(&reader->builder.bpe->added);
    return status;
}

/* Finds a token's id among the added tokens and in the vocabulary. */
static bool find_id(const struct json_reader *reader, const struct json_t *added, const char *text,
                    uint32_t *ret_id)
{
    uint64_t id;
    const struct json_t *node = jsonx_get(reader->builder.tokens, text);
    for (size_t i = 0; i < jsonx_count(added) && !node; i++) {
        const struct json_t *token = jsonx_at(added, i);
        if (strcmp(text_of(jsonx_get(token, "content"), ""), text) == 0)
            node = jsonx_get(token, "id");
    }
    if (jsonx_u64(node, &id))
        return false;
    *ret_id = (uint32_t)id;
    return true;
}

static int find_document_end(struct json_reader *reader, const struct json_t *added,
                             const char *name)
{
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>"};
    struct err *err = reader->builder.err;
    uint32_t *token = &reader->builder.bpe->document_end_token;
    unsigned found = 0;
    *token = BPE_NONE;
    if (name && !*name)
        return 0;
    if (name && find_id(reader, added, name, token))
        return 0;
    for (size_t i = 0; !name && i < sizeof names / sizeof names[0]; i++)
        found += find_id(reader, added, names[i], token) ? 1 : 0;
    if (found == 1)
        return 0;
    err_set(err, -EINVAL,
            name ? "the document end is not a token of the tokenizer"
                 : "the tokenizer does not determine the token after a document");
    err_at(err, reader->builder.path, ERR_NO_OFFSET);
    if (name)
        err_found(err, "%s", name);
    else
        err_expected(err, "either <|endoftext|> or <|end_of_text|>");
    err_advise(err, "name one of its added_tokens with --document-end TOKEN");
    return -EINVAL;
}

static int load(struct json_reader *reader, const struct json_t *root, const char *document_end)
{
    const struct json_t *added = jsonx_get(root, "added_tokens");
    reader->seen = calloc(BPE_VOCABULARY_MAX / 8, 1);
    if (!reader->seen)
        return err_set(reader->builder.err, -ENOMEM, "out of memory for a vocabulary");
    int status = load_normalizer(reader, root);
    if (!status)
        status = load_pre_tokenizer(reader, root);
    if (!status)
        status = load_model(reader, root);
    if (!status)
        status = load_added_tokens(reader, added);
    reader->builder.bpe->vocabulary_size = (uint32_t)reader->ids_end;
    return status ? status : find_document_end(reader, added, document_end);
}

int bpe_open_json(struct io *io, const char *path, const char *document_end, struct bpe **ret_bpe,
                  struct err *err)
{
    struct json_reader reader = {0};
    struct json_t *root = NULL;
    char *text = NULL;
    size_t bytes = 0;
    int status = bpe_builder_init(&reader.builder, err);
    reader.builder.path = path;
    if (!status)
        status = io_read_file(io, path, BPE_FILE_BYTES_MAX, &text, &bytes, err);
    if (!status)
        status = jsonx_parse(text, bytes, path, 0, &root, err);
    if (!status) {
        reader.builder.bpe->name = "tokenizer.json";
        reader.builder.bpe->identity = hash_64(text, bytes);
        status = load(&reader, root, document_end);
    }
    jsonx_free(root);
    free(reader.seen);
    free(text);
    if (status)
        bpe_close(reader.builder.bpe);
    else
        *ret_bpe = reader.builder.bpe;
    return status;
}
