/*
 * bpe_json — tests of tokenizers read from a tokenizer.json: words and tokens equal those of the
 * library tokenizers; files that would need other tokens are rejected.
 */
#include "base/bytes.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/support/test.h"
#include "tokenizer/bpe.h"
#include "tokenizer/bpe_split.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    struct io *io;
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 32];
    struct err err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    *state = f;
    test_make_folder(f->folder);
    snprintf(f->path, sizeof f->path, "%s/tokenizer.json", f->folder);
    assert_ok(io_open(f->folder, NULL, &f->io, &f->err), &f->err);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    io_close(f->io);
    test_remove_folder(f->folder);
    free(f);
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct {
    const char *name;
    enum bpe_pattern pattern;
} patterns[] = {
    {"gpt2", BPE_PATTERN_GPT2}, {"llama3", BPE_PATTERN_LLAMA3}, {"qwen2", BPE_PATTERN_QWEN2}};

static void write_ends(const char *path, size_t pattern, const uint8_t *text, size_t bytes)
{
    struct str ends = {0};
    char to[3 * TEST_PATH_BYTES_MAX];
    for (uint64_t at = 0; at < bytes;) {
        at = bpe_word_end(patterns[pattern].pattern, text, bytes, at);
        str_add(&ends, &at, sizeof at);
    }
    assert_ok(str_status(&ends), NULL);
    snprintf(to, sizeof to, "%s.%s.ends", path, patterns[pattern].name);
    test_write_file(to, str_text(&ends), ends.bytes);
    str_deinit(&ends);
}

/* Encodes the text as a whole and in parts between cuts, which must give the same tokens. */
static void write_tokens(struct fixture *f, const char *path, size_t pattern, const struct bpe *bpe,
                         const uint8_t *text, size_t bytes)
{
    struct bpe_encoder *encoder;
    struct str whole = {0}, parts = {0}, wide = {0};
    char to[3 * TEST_PATH_BYTES_MAX];
    assert_ok(bpe_encoder_open(bpe, &encoder, &f->err), &f->err);
    assert_ok(bpe_encode(encoder, text, bytes, &whole, &f->err), &f->err);
    for (size_t at = 0, steps = 0; at < bytes; steps++) {
        size_t rest = bytes - at, least = 3 + steps % 40;
        size_t cut = rest > least ? bpe_find_cut(bpe, text + at, rest, least) : rest;
        assert_ok(bpe_encode(encoder, text + at, cut, &parts, &f->err), &f->err);
        at += cut;
    }
    assert_int_equal(whole.bytes, parts.bytes);
    if (whole.bytes > 0)
        assert_memory_equal(whole.data, parts.data, whole.bytes);
    for (size_t at = 0; at < whole.bytes; at += bpe_token_bytes(bpe)) {
        uint32_t token = bpe_token_bytes(bpe) == 2 ? bytes_get_u16(whole.data + at)
                                                   : bytes_get_u32(whole.data + at);
        str_add(&wide, &token, sizeof token);
    }
    snprintf(to, sizeof to, "%s.%s.json.tokens", path, patterns[pattern].name);
    test_write_file(to, str_text(&wide), wide.bytes);
    bpe_encoder_close(encoder);
    str_deinit(&whole);
    str_deinit(&parts);
    str_deinit(&wide);
}

static void process_texts(struct fixture *f, size_t pattern)
{
    char path[2 * TEST_PATH_BYTES_MAX + 300];
    struct bpe *bpe;
    snprintf(path, sizeof path, "%s/%s.json", f->folder, patterns[pattern].name);
    assert_ok(bpe_open_json(f->io, path, NULL, &bpe, &f->err), &f->err);
    DIR *listing = opendir(f->folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (!str_ends_with(entry->d_name, ".txt"))
            continue;
        snprintf(path, sizeof path, "%s/%s", f->folder, entry->d_name);
        size_t bytes;
        uint8_t *text = test_read_file(path, &bytes);
        write_ends(path, pattern, text, bytes);
        write_tokens(f, path, pattern, bpe, text, bytes);
        free(text);
    }
    closedir(listing);
    bpe_close(bpe);
}

static void words_and_tokens_match_tokenizers(void **state)
{
    struct fixture *f = *state;
    const char *python = test_need_python("tokenizers");
    char script[TEST_PATH_BYTES_MAX], real[TEST_PATH_BYTES_MAX];
    test_need_data("text/tinyshakespeare.txt", real);
    snprintf(script, sizeof script, "%s/tests/oracle/bpe_json.py", TEST_SOURCE_DIR);
    assert_int_equal(test_run("'%s' '%s' make '%s' %d '%s'", python, script, f->folder,
                              test_is_sanitized() ? 8 : 1, real),
                     0);
    assert_int_equal(test_run("cp '%s' '%s/real.txt'", real, f->folder), 0);
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        process_texts(f, i);
    assert_int_equal(test_run("'%s' '%s' check '%s'", python, script, f->folder), 0);
}

/* Parts of a tokenizer.json; NULL: the default. */
struct parts {
    const char *normalizer, *pre_tokenizer, *model, *vocab, *merges, *added;
};

#define LLAMA3_REGEX                                                                               \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "         \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define BYTE_LEVEL(prefix, regex)                                                                  \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":" prefix ",\"use_regex\":" regex "}"
#define SPLIT(behavior, invert, pattern)                                                           \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"        \
    "\"" pattern "\"},\"behavior\":\"" behavior "\",\"invert\":" invert                            \
    "}," BYTE_LEVEL("false", "false") "]}"
#define ADDED(id, content, special, more)                                                          \
    "{\"id\":" id ",\"content\":\"" content "\",\"special\":" special more "}"
#define END_TOKEN ADDED("260", "<|endoftext|>", "true", "")

/* The vocabulary: a token for each byte, then ab, abc, bc and abcd. */
static void add_vocabulary(struct str *out)
{
    byte_tokenizer_add_vocabulary(out);
    str_add_text(out, ",\"ab\":256,\"abc\":257,\"bc\":258,\"abcd\":259");
}

static void write_tokenizer(struct fixture *f, const struct parts *parts)
{
    struct str out = {0};
    str_add_format(&out, "{\"normalizer\":%s,\"pre_tokenizer\":%s,",
                   parts->normalizer ? parts->normalizer : "null",
                   parts->pre_tokenizer ? parts->pre_tokenizer : BYTE_LEVEL("false", "true"));
    str_add_format(&out, "\"added_tokens\":[%s],\"model\":{%s,\"vocab\":{",
                   parts->added ? parts->added : END_TOKEN,
                   parts->model ? parts->model : "\"type\":\"BPE\"");
    if (parts->vocab)
        str_add_text(&out, parts->vocab);
    else
        add_vocabulary(&out);
    str_add_format(&out, "},\"merges\":[%s]}}",
                   parts->merges ? parts->merges : "\"b c\",\"a b\",\"ab c\"");
    assert_ok(str_status(&out), NULL);
    test_write_file(f->path, out.data, out.bytes);
    str_deinit(&out);
}

static void assert_tokens(struct fixture *f, const struct parts *parts, const char *text,
                          const uint16_t *expected, size_t count)
{
    struct bpe *bpe;
    struct bpe_encoder *encoder;
    struct str tokens = {0};
    write_tokenizer(f, parts);
    assert_ok(bpe_open_json(f->io, f->path, NULL, &bpe, &f->err), &f->err);
    assert_ok(bpe_encoder_open(bpe, &encoder, &f->err), &f->err);
    assert_ok(bpe_encode(encoder, text, strlen(text), &tokens, &f->err), &f->err);
    assert_int_equal(tokens.bytes, 2 * count);
    assert_memory_equal(tokens.data, expected, tokens.bytes);
    str_deinit(&tokens);
    bpe_encoder_close(encoder);
    bpe_close(bpe);
}

#define TOKENS(...)                                                                                \
    (const uint16_t[]){__VA_ARGS__}, sizeof((const uint16_t[]){__VA_ARGS__}) / sizeof(uint16_t)

static void both_spellings_of_merges_give_the_same_tokens(void **state)
{
    struct fixture *f = *state;
    assert_tokens(f, &(struct parts){0}, "ababc", TOKENS(256, 'a', 258));
    assert_tokens(f, &(struct parts){.merges = "[\"b\",\"c\"],[\"a\",\"b\"],[\"ab\",\"c\"]"},
                  "ababc", TOKENS(256, 'a', 258));
}

static void a_word_that_is_a_token_ignores_merges_only_if_the_model_says_so(void **state)
{
    struct fixture *f = *state;
    assert_tokens(f, &(struct parts){0}, "abcd", TOKENS('a', 258, 'd'));
    const struct parts ignoring = {.model = "\"type\":\"BPE\",\"ignore_merges\":true"};
    assert_tokens(f, &ignoring, "abcd", TOKENS(259));
    assert_tokens(f, &ignoring, "abcd abcdd", TOKENS(259, 32, 'a', 258, 'd', 'd'));
}

static void added_tokens_match_unless_they_are_special(void **state)
{
    struct fixture *f = *state;
    const struct parts parts = {.added = END_TOKEN "," ADDED("261", "<a>", "false", "") "," ADDED(
                                    "262", "<a><", "false", "") "," ADDED("263", "!<", "true", "")};
    assert_tokens(f, &parts, "<a>b<a", TOKENS(261, 'b', '<', 'a'));
    assert_tokens(f, &parts, "<a><a>", TOKENS(262, 'a', '>')); /* leftmost, then longest */
    /* a special token is plain text, but nothing that overlaps it matches */
    assert_tokens(f, &parts, "!<a>", TOKENS('!', '<', 'a', '>'));
    assert_tokens(f, &parts, "?<a>", TOKENS('?', 261));
}

/* As in GPT-2's file, where the token is normalized. */
static void special_tokens_are_found_by_name(void **state)
{
    struct fixture *f = *state;
    const struct parts parts = {.added = END_TOKEN
                                "," ADDED("261", "<a>", "true", ",\"normalized\":true")};
    struct bpe *bpe = NULL;
    write_tokenizer(f, &parts);
    assert_int_equal(bpe_open_json(f->io, f->path, NULL, &bpe, &f->err), 0);
    assert_int_equal(bpe_find_special(bpe, "<a>"), 261);
    assert_int_equal(bpe_find_special(bpe, "<b>"), BPE_NONE);
    bpe_close(bpe);
    assert_tokens(f, &parts, "<a>", TOKENS('<', 'a', '>'));
}

static void text_is_normalized_between_added_tokens(void **state)
{
    struct fixture *f = *state;
    /* e and U+0301 become U+00E9 */
    assert_tokens(f, &(struct parts){.normalizer = "{\"type\":\"NFC\"}"}, "e\xcc\x81",
                  TOKENS(0xc3, 0xa9));
    assert_tokens(f, &(struct parts){0}, "e\xcc\x81", TOKENS('e', 0xcc, 0x81));
}

static void assert_refused(struct fixture *f, const struct parts *parts, int code, const char *part)
{
    char line[ERR_LINE_BYTES_MAX];
    struct bpe *bpe = NULL;
    write_tokenizer(f, parts);
    assert_int_equal(bpe_open_json(f->io, f->path, NULL, &bpe, &f->err), code);
    assert_null(bpe);
    assert_string_equal(f->err.path, f->path);
    if (!strstr(err_format(&f->err, line, sizeof line), part))
        fail_msg("%s lacks %s", line, part);
}

static void what_would_change_tokens_is_refused_by_name(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct parts parts;
        const char *found;
    } cases[] = {
        {{.normalizer = "{\"type\":\"Lowercase\"}"}, "normalizer"},
        {{.pre_tokenizer = "{\"type\":\"Metaspace\"}"}, "found Metaspace"},
        {{.pre_tokenizer = "null"}, "pre_tokenizer"},
        {{.pre_tokenizer = BYTE_LEVEL("true", "true")}, "add_prefix_space"},
        {{.pre_tokenizer = BYTE_LEVEL("false", "false")}, "use_regex"},
        {{.pre_tokenizer = SPLIT("Removed", "false", LLAMA3_REGEX)}, "found Removed"},
        {{.pre_tokenizer = SPLIT("Isolated", "true", LLAMA3_REGEX)}, "invert"},
        {{.pre_tokenizer = SPLIT("Isolated", "false", "[a-z]+")}, "found [a-z]+"},
        {{.model = "\"type\":\"WordPiece\""}, "found WordPiece"},
        {{.model = "\"type\":\"BPE\",\"byte_fallback\":true"}, "byte_fallback"},
        {{.model = "\"type\":\"BPE\",\"dropout\":0.1"}, "dropout"},
        {{.model = "\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\""}, "end_of_word_suffix"},
        {{.added = ADDED("260", "<a>", "false", ",\"lstrip\":true")}, "lstrip of <a>"},
        {{.added = ADDED("260", "<a>", "false", ",\"normalized\":true")}, "normalized of <a>"},
        {{.added = ADDED("260", "<a b>", "false", "")}, "found <a b>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(f, &cases[i].parts, -ENOTSUP, cases[i].found);
}

static void malformed_files_are_refused_with_the_place(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct parts parts;
        const char *found;
    } cases[] = {
        {{.vocab = "\"a\":0"}, "model.vocab"},
        {{.vocab = "\"a\":0,\"b\":0"}, "unique ids"},
        {{.vocab = "\"a\":16777216"}, "unique ids"},
        {{.vocab = "\"a\":-1"}, "unique ids"},
        {{.merges = "\"a b\",\"a b\""}, "model.merges[1]"},
        {{.merges = "\"ab\""}, "model.merges[0]"},
        {{.merges = "\"a b c\""}, "model.merges[0]"},
        {{.merges = "[\"a\"]"}, "model.merges[0]"},
        {{.merges = "[\"a\",5]"}, "model.merges[0]"},
        {{.merges = "\"a c\""}, "found ac"},
        {{.added = ADDED("5", "<|endoftext|>", "true", "")}, "added_tokens[0]"},
        {{.added = ADDED("261", "<|endoftext|>", "true", "")}, "the next id"},
        {{.added = ADDED("260", "", "true", "")}, "added_tokens[0]"},
        {{.added = "7"}, "added_tokens[0]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_refused(f, &cases[i].parts, -EBADMSG, cases[i].found);
    test_write_file(f->path, "{", 1);
    struct bpe *bpe = NULL;
    assert_int_equal(bpe_open_json(f->io, f->path, NULL, &bpe, &f->err), -EBADMSG);
    test_write_file(f->path, "[]", 2);
    assert_int_equal(bpe_open_json(f->io, f->path, NULL, &bpe, &f->err), -ENOTSUP);
}

static void the_document_end_is_named_where_the_file_leaves_it_open(void **state)
{
    struct fixture *f = *state;
    static const struct parts other = {.added = ADDED("260", "<|im_end|>", "true", "")};
    static const struct parts both = {.added = END_TOKEN
                                      "," ADDED("261", "<|end_of_text|>", "true", "")};
    struct bpe *bpe = NULL;
    assert_refused(f, &both, -EINVAL, "--document-end");
    assert_refused(f, &other, -EINVAL, "--document-end");
    assert_ok(bpe_open_json(f->io, f->path, "<|im_end|>", &bpe, &f->err), &f->err);
    assert_int_equal(bpe_document_end_token(bpe), 260);
    assert_int_equal(bpe_vocabulary_size(bpe), 261);
    bpe_close(bpe);
    bpe = NULL;
    assert_int_equal(bpe_open_json(f->io, f->path, "</s>", &bpe, &f->err), -EINVAL);
    assert_non_null(strstr(f->err.found, "</s>"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(words_and_tokens_match_tokenizers),
        CASE(both_spellings_of_merges_give_the_same_tokens),
        CASE(a_word_that_is_a_token_ignores_merges_only_if_the_model_says_so),
        CASE(added_tokens_match_unless_they_are_special),
        CASE(special_tokens_are_found_by_name),
        CASE(text_is_normalized_between_added_tokens),
        CASE(what_would_change_tokens_is_refused_by_name),
        CASE(malformed_files_are_refused_with_the_place),
        CASE(the_document_end_is_named_where_the_file_leaves_it_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
