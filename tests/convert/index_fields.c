/*
 * Tests that conversions record the numbers of --index-field in the index.
 */
#include "convert/source/index_fields.h"
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void set_index_fields(struct fixture *fixture, const char *const *texts, size_t count)
{
    fixture->options.index_fields = (struct convert_string_list){texts, count};
}

/* The numbers in the indexes of the target's shards, as `key name=value` lines in byte order. */
static const char *list_numbers(const struct fixture *fixture)
{
    static char text[1 << 16];
    const char *python = test_need_python("struct");
    assert_int_equal(test_run_output(text, sizeof text,
                                     "for s in '%s'/shard-*.tar; do '%s' '%s' $s || exit 1; done | "
                                     "grep '=' | LC_ALL=C sort",
                                     fixture->target, python,
                                     TEST_SOURCE_DIR "/tests/shards/read_shard.py"),
                     0);
    return text;
}

static void values_are_those_of_python(void **state)
{
    struct fixture *fixture = *state;
    static const char *const texts[] = {"json:$.aesthetic=score", "json:$.meta['n s=f']=nsfw",
                                        "txt=length", "jpeg;png:width=width",
                                        "jpg:height=jpg_height"};
    static char wanted[1 << 16];
    const char *python = test_need_python("PIL");
    assert_int_equal(test_run_output(wanted, sizeof wanted, "'%s' '%s' '%s' | LC_ALL=C sort",
                                     python, TEST_SOURCE_DIR "/tests/convert/index_fields.py",
                                     fixture->source),
                     0);
    set_index_fields(fixture, texts, sizeof texts / sizeof texts[0]);
    fixture->options.shard_samples = 7;
    assert_converts(fixture);
    dataset_close(open_dataset(fixture, ""));
    assert_string_equal(list_numbers(fixture), wanted);

    /* the same from its tars, however they are converted */
    assert_int_equal(
        test_run("rm -r '%s' && mv '%s' '%s'", fixture->source, fixture->target, fixture->source),
        0);
    set_index_fields(fixture, NULL, 0);
    fixture->options.shard_samples = 11;
    assert_converts(fixture);
    assert_string_equal(list_numbers(fixture), wanted);
    fixture->options.force = true;
    fixture->options.store = CONVERT_STORE_RAW;
    fixture->options.max_side = 40;
    assert_converts(fixture);
    const char *raw = list_numbers(fixture); /* the sizes of the stored images */
    assert_string_not_equal(raw, wanted);
    assert_null(strstr(raw, "width=41"));
    assert_non_null(strstr(raw, "width=40.0\n"));
    fixture->options.store = CONVERT_STORE_ENCODED;

    static const char *const fields[] = {"jpg", "png", "cls", "txt"};
    fixture->options.fields = (struct convert_string_list){fields, 4};
    static const char *const others[] = {"cls=length"};
    set_index_fields(fixture, others, 1);
    assert_converts(fixture);
    const char *found = list_numbers(fixture);
    assert_null(strstr(found, "score="));
    assert_non_null(strstr(found, "b/001 length=1.0\n"));
    assert_non_null(strstr(fixture->log, "the index field score is left out: the options leave"));
    assert_null(strstr(fixture->log, "do not say where it comes from"));
    assert_int_equal(
        test_run("rm -r '%s' && mv '%s' '%s' && sed -i 's/\"index_fields\":.[^]]*.,//' "
                 "'%s/dataset.json'",
                 fixture->source, fixture->target, fixture->source, fixture->source),
        0);
    set_index_fields(fixture, NULL, 0);
    fixture->log[0] = '\0';
    assert_converts(fixture);
    assert_non_null(
        strstr(fixture->log, "the index field jpg_height is left out: the options of "));
}

static void a_source_without_numbers_gives_none(void **state)
{
    struct fixture *fixture = *state;
    struct shard *shard;
    write_jpeg(fixture, "a.jpg", 1);
    assert_converts(fixture);
    struct dataset *dataset = open_dataset(fixture, "");
    assert_ok(dataset_open_shard(fixture->io, dataset, 0, &shard, &fixture->err), &fixture->err);
    assert_int_equal(shard->trailer.flags, 0);
    shard_close(shard);
    dataset_close(dataset);
}

static void what_is_not_a_number_is_refused_with_its_key(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *json, *text, *path, *found;
    } cases[] = {
        {"{\"x\": \"1\"}", "json:$.x=x", "a/1.json", "\"1\""},
        {"{\"x\": [1]}", "json:$.x=x", "a/1.json", "[1]"},
        {"{\"x\": 9007199254740993}", "json:$.x=x", "a/1.json", "9007199254740993"},
        {"{\"x\": 1}", "json=x", "a/1.json", "{\"x\":1}"},
        {"0x10", "json=x", "a/1.json", "0x10"},
        {"nan", "json=x", "a/1.json", "nan"},
    };
    write_jpeg(fixture, "a/1.jpg", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_source(fixture, "a/1.json", cases[i].json, strlen(cases[i].json));
        set_index_fields(fixture, &cases[i].text, 1);
        assert_int_equal(convert(fixture), -EBADMSG);
        assert_string_equal(fixture->err.what, "the index field \"x\" of a sample is not a number");
        assert_string_equal(fixture->err.path, cases[i].path);
        assert_string_equal(fixture->err.found, cases[i].found);
        assert_no_target(fixture);
    }
    write_source(fixture, "a/1.json", "{\"x\": 1e999}", 12);
    assert_int_equal(convert(fixture), -EBADMSG);
    write_jpeg(fixture, "a/2.jpg", 2);
    write_source(fixture, "a/2.json", "3", 1);
    fixture->options.skip_errors = true; /* only the bad sample is lost */
    assert_converts(fixture);
    assert_int_equal(fixture->result.samples_count, 1);
    assert_int_equal(fixture->result.skipped_count, 1);
}

static void wrong_options_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const char *const texts[] = {
        "",        "json",       "json=",      "=x",         "json:$.x=class", "json:x=y",
        "json:=y", "json:$.[=y", "json=1x",    "js on=x",    ";json=x",        "json;=x",
        "JSON=x",  "a/b=x",      "json:$.x=é", "jpg:size=x",
    };
    write_jpeg(fixture, "a/1.jpg", 1);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        set_index_fields(fixture, &texts[i], 1);
        assert_int_equal(convert(fixture), -EINVAL);
        assert_true(fixture->err.expected[0]);
    }
    static const char *const twice[] = {"json=x", "txt=x"};
    set_index_fields(fixture, twice, 2);
    assert_int_equal(convert(fixture), -EINVAL);
    static const char *many[INDEX_FIELDS_MAX + 1];
    static char names[INDEX_FIELDS_MAX + 1][32];
    for (int i = 0; i <= INDEX_FIELDS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "json=x%d", i);
        many[i] = names[i];
    }
    set_index_fields(fixture, many, INDEX_FIELDS_MAX + 1);
    assert_int_equal(convert(fixture), -EINVAL);
    set_index_fields(fixture, many, INDEX_FIELDS_MAX);
    assert_converts(fixture);
    assert_non_null(strstr(fixture->log, "the index field x14 is empty"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(values_are_those_of_python),
        CASE(a_source_without_numbers_gives_none),
        CASE(what_is_not_a_number_is_refused_with_its_key),
        CASE(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
