/*
 * bpe — tests of GPT-2's tokenizer: tokens equal tiktoken's for real and hostile text; invalid
 * vocabularies are rejected.
 */
#include "tokenizer/bpe.h"
#include "base/bytes.h"
#include "io/file_util.h"
#include "tests/support/test.h"
#include "tokenizer/bpe_split.h"
#include "tokenizer/unicode_class.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_BYTES = 2 };

struct fixture {
    struct io *io;
    char vocabulary[TEST_PATH_BYTES_MAX], folder[TEST_PATH_BYTES_MAX];
    struct bpe *bpe;
    struct bpe_encoder *encoder;
    struct err err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    *state = f;
    if (!test_find_data("bpe", f->vocabulary))
        return 0; /* need_vocabulary skips the case */
    test_make_folder(f->folder);
    assert_ok(io_open(f->folder, NULL, &f->io, &f->err), &f->err);
    assert_ok(bpe_open_folder(f->io, f->vocabulary, &f->bpe, &f->err), &f->err);
    assert_ok(bpe_encoder_open(f->bpe, &f->encoder, &f->err), &f->err);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    bpe_encoder_close(f->encoder);
    bpe_close(f->bpe);
    io_close(f->io);
    if (f->folder[0])
        test_remove_folder(f->folder);
    free(f);
    return 0;
}

static struct fixture *need_vocabulary(void **state)
{
    struct fixture *f = *state;
    test_need_data("bpe", f->vocabulary);
    return f;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void assert_tokens(struct fixture *f, const char *text, const uint16_t *expected,
                          size_t count)
{
    struct str tokens = {0};
    assert_ok(bpe_encode(f->encoder, text, strlen(text), &tokens, &f->err), &f->err);
    assert_int_equal(tokens.bytes, count * TOKEN_BYTES);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(bytes_get_u16(tokens.data + i * TOKEN_BYTES), expected[i]);
    str_deinit(&tokens);
}

static void known_texts_have_known_tokens(void **state)
{
    struct fixture *f = need_vocabulary(state);
    assert_int_equal(bpe_vocabulary_size(f->bpe), 50257);
    assert_int_equal(bpe_document_end_token(f->bpe), 50256);
    /* the second pass uses the cache */
    for (int again = 0; again < 2; again++) {
        assert_tokens(f, "Hello world", (const uint16_t[]){15496, 995}, 2);
        assert_tokens(f, "hello  world's", (const uint16_t[]){31373, 220, 995, 338}, 4);
        assert_tokens(f, "", NULL, 0);
    }
}

/* Encodes each NAME.txt of the folder to NAME.u16. Encoding parts between cuts must give the same
 * tokens. */
static void encode_files(struct fixture *f)
{
    DIR *listing = opendir(f->folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        size_t name_bytes = strlen(entry->d_name);
        if (name_bytes < 4 || strcmp(entry->d_name + name_bytes - 4, ".txt") != 0)
            continue;
        char path[2 * TEST_PATH_BYTES_MAX];
        snprintf(path, sizeof path, "%s/%s", f->folder, entry->d_name);
        size_t bytes;
        unsigned char *text = test_read_file(path, &bytes);
        struct str whole = {0}, parts = {0};
        assert_ok(bpe_encode(f->encoder, text, bytes, &whole, &f->err), &f->err);
        for (size_t at = 0; at < bytes;) {
            size_t rest = bytes - at,
                   cut = rest > 100 ? bpe_find_cut(f->bpe, text + at, rest, 100) : rest;
            assert_ok(bpe_encode(f->encoder, text + at, cut, &parts, &f->err), &f->err);
            at += cut;
        }
        assert_int_equal(whole.bytes, parts.bytes);
        if (whole.bytes > 0)
            assert_memory_equal(whole.data, parts.data, whole.bytes);
        snprintf(path + strlen(path) - 4, 8, ".u16");
        test_write_file(path, whole.data, whole.bytes);
        str_deinit(&whole);
        str_deinit(&parts);
        free(text);
    }
    closedir(listing);
}

static void tokens_match_tiktoken(void **state)
{
    struct fixture *f = need_vocabulary(state);
    const char *python = test_need_python("tiktoken");
    char script[TEST_PATH_BYTES_MAX], real[TEST_PATH_BYTES_MAX];
    snprintf(script, sizeof script, "%s/tests/oracle/bpe.py", TEST_SOURCE_DIR);
    assert_int_equal(
        test_run("'%s' '%s' make '%s' %d", python, script, f->folder, test_is_sanitized() ? 8 : 1),
        0);
    test_need_data("text/tinyshakespeare.txt", real);
    assert_int_equal(
        test_run("cp '%s' '%s/real.txt' && chmod u+w '%s/real.txt'", real, f->folder, f->folder),
        0);
    encode_files(f);
    assert_int_equal(
        test_run("'%s' '%s' check '%s' '%s'", python, script, f->folder, f->vocabulary), 0);
}

static size_t find_cut(enum bpe_pattern pattern, const char *text)
{
    return bpe_split_find_cut(pattern, (const uint8_t *)text, strlen(text), 3);
}

static void cuts_do_not_divide_white_space(void **state)
{
    (void)state;
    for (enum bpe_pattern pattern = BPE_PATTERN_GPT2; pattern <= BPE_PATTERN_QWEN2; pattern++) {
        assert_int_equal(find_cut(pattern, "abc def"), 3);
        assert_int_equal(find_cut(pattern, "abcdef"), 6);
        assert_int_equal(find_cut(pattern, "ab   d e"), 6); /* not within the spaces */
        /* not after a no-break space */
        assert_int_equal(find_cut(pattern, "abc\xc2\xa0 d"), 7);
        assert_int_equal(find_cut(pattern, "a\xe3\x80\x80 bc d"), 7); /* an ideographic space */
    }
}

static void cuts_at_line_ends_depend_on_the_pattern(void **state)
{
    (void)state;
    /* an ideographic full stop: the newer patterns keep it and the line ends together */
    assert_int_equal(find_cut(BPE_PATTERN_GPT2, "a\xe3\x80\x82\n\nb"), 4);
    assert_int_equal(find_cut(BPE_PATTERN_LLAMA3, "a\xe3\x80\x82\n\nb"), 6);
    assert_int_equal(find_cut(BPE_PATTERN_QWEN2, "abc!\n\xe3\x80\x82x"), 5);
    assert_int_equal(find_cut(BPE_PATTERN_QWEN2, "abc!\n\xe3\x80\x80x"), 9);
    assert_int_equal(find_cut(BPE_PATTERN_QWEN2, "abc!\n x"), 7);
    /* the next character may continue beyond the text */
    assert_int_equal(find_cut(BPE_PATTERN_QWEN2, "abc!\n\xe3\x80"), 7);
}

static void invalid_utf8_is_encoded_byte_by_byte(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes, length;
        enum unicode_class kind;
    } cases[] = {
        {"\xc3\xa9", 2, 2, UNICODE_LETTER},
        {"\xc3", 1, 1, UNICODE_OTHER},
        {"\xc0\xaf", 2, 1, UNICODE_OTHER},
        {"\xed\xa0\x80", 3, 1, UNICODE_OTHER}, /* a surrogate */
        {"\xf4\x90\x80\x80", 4, 1, UNICODE_OTHER},
        {"\xe0\x9f\xbf", 3, 1, UNICODE_OTHER},
        {"\x80", 1, 1, UNICODE_OTHER},
        {"\xe4\xb8\x80", 3, 3, UNICODE_LETTER},
        {"\xd9\xa3", 2, 2, UNICODE_NUMBER},
        {"\xe2\x80\xa9", 3, 3, UNICODE_SPACE},
        {"\xf0\x9f\x98\x80", 4, 4, UNICODE_OTHER},
        {"\xf0\x9d\x9f\x99", 4, 4, UNICODE_NUMBER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum unicode_class kind;
        assert_int_equal(unicode_next((const uint8_t *)cases[i].text, cases[i].bytes, &kind),
                         cases[i].length);
        assert_int_equal(kind, cases[i].kind);
    }
}

static void a_long_word_is_encoded_in_subquadratic_time(void **state)
{
    struct fixture *f = need_vocabulary(state);
    size_t bytes = test_is_sanitized() ? 1 << 16 : 1 << 20;
    char *text = malloc(bytes);
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++)
        text[i] = "acgt"[i * i / 7 % 4];
    struct str tokens = {0};
    /* takes minutes if quadratic */
    assert_ok(bpe_encode(f->encoder, text, bytes, &tokens, &f->err), &f->err);
    assert_true(tokens.bytes / TOKEN_BYTES > bytes / 16 && tokens.bytes / TOKEN_BYTES < bytes);
    str_deinit(&tokens);
    free(text);
}

static void assert_invalid(struct fixture *f, const char *encoder, const char *pairs,
                           const char *expected_path)
{
    char path[2 * TEST_PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/encoder.json", f->folder);
    test_write_file(path, encoder, strlen(encoder));
    snprintf(path, sizeof path, "%s/vocab.bpe", f->folder);
    test_write_file(path, pairs, strlen(pairs));
    struct bpe *bpe = NULL;
    assert_int_equal(bpe_open_folder(f->io, f->folder, &bpe, &f->err), -EBADMSG);
    assert_null(bpe);
    assert_non_null(strstr(f->err.path, expected_path));
}

static void the_error_for_a_malformed_vocabulary_names_its_file(void **state)
{
    struct fixture *f = need_vocabulary(state);
    char path[2 * TEST_PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/encoder.json", f->vocabulary);
    char *whole = (char *)test_read_file(path, &(size_t){0});
    assert_invalid(f, "{\"a\": 0}", "", "encoder.json");
    assert_invalid(f, "[1, 2]", "", "encoder.json");
    assert_invalid(f, whole, "#version: 0.2\nt h\nt h\n", "vocab.bpe"); /* duplicate */
    assert_invalid(f, whole, "th\n", "vocab.bpe");
    assert_invalid(f, whole, "t \n", "vocab.bpe");
    assert_invalid(f, whole, "qqqqqq zzzzzz\n", "vocab.bpe");
    assert_int_equal(f->err.offset, 0);
    char *id = strstr(whole, ": 5,"); /* "\"&\": 5" becomes 6, which then occurs twice */
    assert_non_null(id);
    id[2] = '6';
    assert_invalid(f, whole, "t h\n", "encoder.json");
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(known_texts_have_known_tokens),
        CASE(tokens_match_tiktoken),
        CASE(a_long_word_is_encoded_in_subquadratic_time),
        CASE(the_error_for_a_malformed_vocabulary_names_its_file),
        cmocka_unit_test(cuts_do_not_divide_white_space),
        cmocka_unit_test(cuts_at_line_ends_depend_on_the_pattern),
        cmocka_unit_test(invalid_utf8_is_encoded_byte_by_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
