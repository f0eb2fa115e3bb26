/*
 * Converting datasets: order, splits, shards, text, and dataset.json.
 */
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void shuffling_is_keyed_by_the_seed(void **state)
{
    struct fixture *fixture = *state;
    write_classes(fixture, 20);
    static char orders[3][LISTING_BYTES];
    for (int i = 0; i < 3; i++) {
        fixture->options.force = true;
        fixture->options.seed = i == 2 ? 1 : 0;
        assert_converts(fixture);
        strcpy(orders[i], list_members(fixture, ""));
    }
    assert_string_equal(orders[0], orders[1]);
    assert_string_not_equal(orders[0], orders[2]);
    fixture->options.keep_order = true;
    assert_converts(fixture);
    assert_string_not_equal(orders[0], list_members(fixture, ""));
    assert_int_equal(strncmp(list_members(fixture, ""), "a/0001.cls\na/0001.jpg\na/0004.cls\n", 33),
                     0);
}

static void splits_are_disjoint_complete_and_stable(void **state)
{
    struct fixture *fixture = *state;
    write_classes(fixture, 60);
    fixture->options.splits_count = 2;
    fixture->options.splits[0] = (struct convert_split){"train", 0.8};
    fixture->options.splits[1] = (struct convert_split){"val", 0.2};
    assert_converts(fixture);
    struct dataset *train = open_dataset(fixture, "/train"), *val = open_dataset(fixture, "/val");
    assert_int_equal(train->samples + val->samples, 180);
    assert_in_range(val->samples, 18, 54);
    assert_int_equal(val->classes_count, 3);
    assert_true(train->fingerprint != val->fingerprint);
    dataset_close(train);
    dataset_close(val);
    static char before[LISTING_BYTES];
    strcpy(before, list_members(fixture, "/val"));
    const char *in_train = list_members(fixture, "/train");
    for (const char *at = before; *at; at = strchr(at, '\n') + 1) {
        char line[128];
        sscanf(at, "%127[^\n]", line);
        assert_false(has_line(in_train, line));
    }
    /* With more files in the folder, items in val stay there. */
    write_jpeg(fixture, "zz/new.jpg", 1);
    write_jpeg(fixture, "a/aaa.jpg", 1);
    fixture->options.force = true;
    assert_converts(fixture);
    const char *after = list_members(fixture, "/val");
    for (const char *at = before; *at; at = strchr(at, '\n') + 1) {
        char line[128];
        sscanf(at, "%127[^\n]", line);
        assert_true(has_line(after, line));
    }
}

static void shards_are_cut_by_bytes_and_by_samples(void **state)
{
    struct fixture *fixture = *state;
    write_classes(fixture, 10);
    fixture->options.shard_samples = 7;
    assert_converts(fixture);
    assert_int_equal(fixture->result.shards_count, 5);
    struct dataset *dataset = open_dataset(fixture, "");
    uint64_t number_in_shard;
    assert_int_equal(dataset->shards[4].samples, 2);
    assert_int_equal(dataset_locate(dataset, 0, &number_in_shard), 0);
    assert_int_equal(dataset_locate(dataset, 27, &number_in_shard), 3);
    assert_int_equal(number_in_shard, 6);
    assert_int_equal(dataset_locate(dataset, 29, &number_in_shard), 4);
    assert_int_equal(number_in_shard, 1);
    dataset_close(dataset);
    fixture->options.force = true;
    fixture->options.shard_samples = 0;
    fixture->options.shard_bytes = 20000;
    assert_converts(fixture);
    dataset = open_dataset(fixture, "");
    assert_true(dataset->shards_count > 1);
    for (uint64_t i = 0; i < dataset->shards_count; i++)
        assert_true(dataset->shards[i].file_bytes <= 20000 + 512);
    dataset_close(dataset);
}

static void text_becomes_tokens_that_numpy_loads(void **state)
{
    struct fixture *fixture = *state;
    const char *python = test_need_python("numpy");
    static char long_text[200000];
    for (size_t i = 0; i < sizeof long_text; i++)
        long_text[i] = (char)(i * 2654435761u >> 13);
    write_source(fixture, "b.txt", long_text, sizeof long_text);
    write_source(fixture, "a.txt", "first\xff", 6);
    write_source(fixture, "c.txt", "", 0);
    assert_converts(fixture);
    struct dataset *dataset = open_dataset(fixture, "");
    assert_string_equal(dataset->text.element, "uint16");
    assert_string_equal(dataset->text.tokenizer, "bytes");
    assert_int_equal(dataset->text.tokens, sizeof long_text + 6 + 3);
    assert_int_equal(dataset->text.member_tokens, 65537);
    assert_int_equal(dataset->text.header_bytes, 128);
    assert_int_equal(dataset->samples, 4);
    const struct dataset_shard *last_shard = &dataset->shards[dataset->shards_count - 1];
    assert_int_equal(last_shard->last_tokens, sizeof long_text + 6 + 3 - 3 * 65536);
    dataset_close(dataset);
    char text[256];
    assert_int_equal(
        test_run_output(text, sizeof text,
                        "mkdir '%s/x' && tar -C '%s/x' -xf '%s/shard-000000.tar' && '%s' -c '\n"
                        "import sys, glob, numpy\n"
                        "x, source = sys.argv[1:]\n"
                        "m = [numpy.load(f) for f in sorted(glob.glob(x + \"/tokens-*.npy\"))]\n"
                        "assert all(len(a) == 65537 for a in m[:-1]) and 2 <= len(m[-1]) <= 65537\n"
                        "assert all(a[-1] == b[0] for a, b in zip(m, m[1:]))\n"
                        "got = numpy.concatenate([a[:-1] for a in m[:-1]] + [m[-1]])\n"
                        "want = []\n"
                        "for f in \"abc\": want += list(open(source + \"/\" + f + \".txt\", "
                        "\"rb\").read()) + [256]\n"
                        "assert got.dtype == numpy.uint16 and got.tolist() == want\n"
                        "print(len(m), len(want))' '%s/x' '%s' 2>&1",
                        fixture->folder, fixture->folder, fixture->target, python, fixture->folder,
                        fixture->source),
        0);
    assert_string_equal(text, "4 200009\n");
}

static void text_at_member_boundaries_is_in_the_right_members(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        size_t bytes;
        unsigned members;
    } cases[] = {{0, 1}, {1, 1}, {65535, 1}, {65536, 1}, {65537, 2}, {131072, 2}, {131073, 3}};
    char *text = calloc(1, 140000);
    fixture->options.source = fixture->source;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_source(fixture, "a.txt", text, cases[i].bytes);
        fixture->options.force = true;
        assert_converts(fixture);
        assert_int_equal(fixture->result.samples_count, cases[i].members);
    }
    free(text);
}

static void text_is_split_into_contiguous_parts(void **state)
{
    struct fixture *fixture = *state;
    char text[4096];
    test_need_data("text/tinyshakespeare.txt", text);
    fixture->options.source = text;
    fixture->options.tokenizer = "bytes";
    fixture->options.splits_count = 2;
    fixture->options.splits[0] = (struct convert_split){"train", 0.9};
    fixture->options.splits[1] = (struct convert_split){"val", 0.1};
    assert_converts(fixture);
    struct dataset *train = open_dataset(fixture, "/train"), *val = open_dataset(fixture, "/val");
    /* 0.9 x 1115395, rounded */
    assert_int_equal(train->text.tokens, 1003856);
    assert_int_equal(train->text.tokens + val->text.tokens, 1115395);
    assert_int_equal(train->samples, 16);
    assert_int_equal(val->samples, 2);
    dataset_close(train);
    dataset_close(val);
}

static void other_kinds_are_refused_with_what_is_accepted(void **state)
{
    struct fixture *fixture = *state;
    write_source(fixture, "a.parquet", "x", 1);
    assert_int_equal(convert(fixture), -ENOTSUP);
    assert_non_null(strstr(fixture->err.expected, "photos, in class folders"));
    char path[TEST_PATH_BYTES_MAX + 64];
    snprintf(path, sizeof path, "%s/a.parquet", fixture->source);
    fixture->options.source = path;
    assert_int_equal(convert(fixture), -ENOTSUP);
    write_source(fixture, "b.tar", "x", 1);
    snprintf(path, sizeof path, "%s/b.tar", fixture->source);
    assert_int_equal(convert(fixture), -EBADMSG);
    fixture->options.source = "/does/not/exist";
    assert_int_equal(convert(fixture), -ENOENT);
    fixture->options.source = fixture->source;
    assert_int_equal(test_run("rm '%s'/a.parquet '%s'/b.tar", fixture->source, fixture->source), 0);
    assert_int_equal(convert(fixture), -ENODATA);
    fixture->options.splits_count = 1;
    fixture->options.splits[0] = (struct convert_split){"train", 0.5};
    assert_int_equal(convert(fixture), -EINVAL);
    assert_no_target(fixture);
}

static void dataset_json_is_a_wids_shard_list(void **state)
{
    struct fixture *fixture = *state;
    const char *python = test_need_python("wids");
    char text[512];
    write_classes(fixture, 4);
    fixture->options.shard_samples = 5;
    assert_converts(fixture);
    assert_int_equal(
        test_run_output(
            text, sizeof text,
            "'%s' -c 'import sys, wids\n"
            "d = wids.ShardListDataset(sys.argv[1] + \"/dataset.json\", base=sys.argv[1], "
            "keep=True, cache_dir=sys.argv[1] + \"/cache\")\n"
            "print(len(d), sorted(k for k in d[7] if not k.startswith(\"__\")))' '%s' "
            "2>/dev/null",
            python, fixture->target),
        0);
    assert_string_equal(text, "12 ['.cls', '.jpg']\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(shuffling_is_keyed_by_the_seed),
        CASE(splits_are_disjoint_complete_and_stable),
        CASE(shards_are_cut_by_bytes_and_by_samples),
        CASE(text_becomes_tokens_that_numpy_loads),
        CASE(text_at_member_boundaries_is_in_the_right_members),
        CASE(text_is_split_into_contiguous_parts),
        CASE(other_kinds_are_refused_with_what_is_accepted),
        CASE(dataset_json_is_a_wids_shard_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
