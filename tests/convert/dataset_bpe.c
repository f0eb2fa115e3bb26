/*
 * dataset_bpe — tests of text converted with GPT-2's tokenizer: documents cut into chunks have the
 * same tokens as in tiktoken, which encodes them whole.
 */
#include "convert/source/text_chunks.h"
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void use_vocabulary(struct fixture *fixture, char path[TEST_PATH_BYTES_MAX])
{
    test_need_data("bpe", path);
    fixture->options.tokenizer = "gpt2";
    fixture->options.vocabulary = path;
}

/* One word of three-byte characters, longer than TEXT_CHUNK_BYTES_MAX (not a multiple of 3). */
static void write_single_word(struct fixture *fixture)
{
    size_t bytes = 3 * (TEXT_CHUNK_BYTES_MAX / 2);
    char *text = malloc(bytes);
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i += 3)
        memcpy(text + i, i % 7 ? "\xe4\xb8\xad" : "\xe6\x96\x87", 3);
    write_source(fixture, "endless.txt", text, bytes);
    free(text);
}

/* Words, lines and long runs, so that chunk boundaries fall on all kinds of text. */
static void write_mixed_text(struct fixture *fixture, size_t bytes)
{
    static const char *const parts[] = {
        "word",     " the",         "  ", "\n\n", "'s",
        "\xc2\xa0", "\xe3\x80\x80", "12", "\xff", "\xf0\x9f\x98\x80"};
    struct str text = {0};
    for (uint64_t i = 1; text.bytes < bytes; i++) {
        uint64_t choice = (i * i * UINT64_C(0x9e3779b97f4a7c15)) >> 40;
        const char *part = parts[choice % 10];
        for (uint64_t n = choice % 1021 == 0 ? 3000 : 1; n > 0; n--)
            str_add_text(&text, part);
    }
    write_source(fixture, "mixed.txt", text.data, text.bytes);
    str_deinit(&text);
}

static void a_folder_of_texts_has_tiktokens_tokens(void **state)
{
    struct fixture *fixture = *state;
    const char *python = test_need_python("tiktoken");
    char vocabulary[TEST_PATH_BYTES_MAX], real[TEST_PATH_BYTES_MAX];
    use_vocabulary(fixture, vocabulary);
    test_need_data("text/tinyshakespeare.txt", real);
    size_t bytes;
    unsigned char *play = test_read_file(real, &bytes);
    write_source(fixture, "a.txt", "first <|endoftext|> it's", 24);
    write_source(fixture, "b.txt", "", 0);
    write_source(fixture, "play.txt", play, bytes);
    free(play);
    write_mixed_text(fixture, 1000000);
    write_single_word(fixture);
    fixture->options.workers = 3;
    assert_converts(fixture);
    struct dataset *dataset = open_dataset(fixture, "");
    assert_string_equal(dataset->text.tokenizer, "gpt2");
    assert_string_equal(dataset->text.element, "uint16");
    assert_int_equal(dataset->text.vocabulary, 50257);
    assert_int_equal(dataset->text.document_end, 50256);
    assert_non_null(strstr(str_text(&dataset->options_json), "vocabulary_xxh3"));
    dataset_close(dataset);
    assert_int_equal(test_run("mkdir '%s/x' && tar -C '%s/x' -xf '%s/shard-000000.tar' && '%s' "
                              "'%s/tests/oracle/bpe.py' stream '%s' '%s/x' '%s'",
                              fixture->folder, fixture->folder, fixture->target, python,
                              TEST_SOURCE_DIR, fixture->source, fixture->folder, vocabulary),
                     0);
}

static void any_number_of_threads_gives_the_same_bytes(void **state)
{
    struct fixture *fixture = *state;
    char vocabulary[TEST_PATH_BYTES_MAX];
    use_vocabulary(fixture, vocabulary);
    write_mixed_text(fixture, 700000);
    write_source(fixture, "z.txt", "the end", 7);
    fixture->options.workers = 1;
    assert_converts(fixture);
    assert_int_equal(test_run("mv '%s' '%s.one'", fixture->target, fixture->target), 0);
    fixture->options.workers = 4;
    assert_converts(fixture);
    assert_int_equal(test_run("diff -r '%s' '%s.one'", fixture->target, fixture->target), 0);
    assert_int_equal(test_run("rm -r '%s.one'", fixture->target), 0);
}

static void the_vocabulary_must_be_named(void **state)
{
    struct fixture *fixture = *state;
    write_source(fixture, "a.txt", "text", 4);
    fixture->options.tokenizer = "gpt2";
    assert_int_equal(convert(fixture), -EINVAL);
    fixture->options.vocabulary = fixture->folder;
    assert_int_equal(convert(fixture), -ENOENT);
    assert_non_null(strstr(fixture->err.path, "encoder.json"));
    assert_no_target(fixture);
}

static void an_existing_target_is_refused_before_tokens_are_counted(void **state)
{
    struct fixture *fixture = *state;
    write_source(fixture, "a.txt", "text", 4);
    assert_converts(fixture);
    fixture->options.tokenizer = "gpt2";
    fixture->options.vocabulary = fixture->folder; /* has no vocabulary, but is not read */
    assert_int_equal(convert(fixture), -EEXIST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_folder_of_texts_has_tiktokens_tokens),
        CASE(any_number_of_threads_gives_the_same_bytes),
        CASE(the_vocabulary_must_be_named),
        CASE(an_existing_target_is_refused_before_tokens_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
