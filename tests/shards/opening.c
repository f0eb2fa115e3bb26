/*
 * opening — tests of how much is read to open a dataset and its shards, and of a dataset.json with
 * a wrong or no index_offset.
 */
#include "shards/dataset/dataset.h"

#include "base/bytes.h"
#include "io/file_util.h"
#include "tests/shards/fixture.h"
#include "tests/shards/make_shard.h"
#include "tests/support/read_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 3, MANY_SAMPLES = 20000 };

static int set_up(void **state)
{
    char cache[TEST_PATH_BYTES_MAX + 32];
    fixture_set_up(state, DATASET_FILE_NAME);
    const struct fixture *fixture = *state;
    snprintf(cache, sizeof cache, "%s/.cache", fixture->folder);
    setenv("XDG_CACHE_HOME", cache, 1);
    return 0;
}

static const char *shard_path(const struct fixture *fixture, int number)
{
    static char path[TEST_PATH_BYTES_MAX + 32];
    snprintf(path, sizeof path, "%s/shard-%06d.tar", fixture->folder, number);
    return path;
}

/* A shard whose index is larger than SHARD_TAIL_BYTES. */
static struct shard_summary make_large_index(const struct fixture *fixture, const char *path)
{
    struct shard_writer *writer;
    struct shard_summary summary;
    struct err err;
    assert_ok(shard_writer_open(fixture->io, path, false, &writer, &err), &err);
    for (int i = 0; i < MANY_SAMPLES; i++) {
        char key[80];
        snprintf(key, sizeof key, "a-long-path-makes-the-index-larger-than-the-tail/sample-%06d",
                 i);
        assert_ok(shard_writer_begin_sample(writer, key, &err), &err);
        assert_ok(shard_writer_add_field(writer, "cls", "1", 1, &err), &err);
    }
    assert_ok(shard_writer_commit(writer, &summary, &err), &err);
    assert_true(summary.file_bytes - summary.index_offset > SHARD_TAIL_BYTES);
    return summary;
}

/* The last shard has a large index. */
static void make_dataset(const struct fixture *fixture, struct dataset_shard shards[SHARDS])
{
    static char urls[SHARDS][32];
    struct dataset dataset = {.shards = shards,
                              .shards_count = SHARDS,
                              .mean_sample_bytes = 100,
                              .fields = {"cls", "jpg", "txt"},
                              .fields_count = 3};
    struct str text = {0};
    struct err err;
    for (int i = 0; i < SHARDS; i++) {
        const char *path = shard_path(fixture, i);
        struct shard_summary summary =
            i == SHARDS - 1
                ? make_large_index(fixture, path)
                : make_shard(fixture->io, path, make_shard_variety, make_shard_variety_count - i);
        snprintf(urls[i], sizeof urls[i], "shard-%06d.tar", i);
        shards[i] = (struct dataset_shard){.url = urls[i],
                                           .samples = summary.samples,
                                           .file_bytes = summary.file_bytes,
                                           .xxh3 = summary.xxh3,
                                           .index_crc32c = summary.index_crc32c,
                                           .index_offset = summary.index_offset,
                                           .first_sample = dataset.samples};
        dataset.samples += summary.samples;
    }
    assert_ok(dataset_encode(&dataset, &text, &err), &err);
    test_write_file(fixture->path, text.data, text.bytes);
    str_deinit(&text);
}

/* Replaces index_offset of a shard in dataset.json; "": removes it. */
static void set_listed_offset(const struct fixture *fixture, const struct dataset_shard *shard,
                              const char *value)
{
    char key[48] = "";
    if (value[0])
        snprintf(key, sizeof key, ",\"index_offset\":%s", value);
    assert_int_equal(test_run("sed -i '/%s/s/,\"index_offset\":[0-9]*/%s/' '%s'", shard->url, key,
                              fixture->path),
                     0);
}

static void opening_a_dataset_opens_no_shard(void **state)
{
    struct fixture *fixture = *state;
    struct dataset_shard shards[SHARDS];
    struct dataset *dataset;
    struct err err;
    make_dataset(fixture, shards);
    read_log_begin(fixture->io);
    assert_ok(dataset_open(fixture->io, fixture->folder, &dataset, &err), &err);
    assert_int_equal(read_log_sum("").opens_count, 1);
    assert_int_equal(read_log_sum(DATASET_FILE_NAME).opens_count, 1);
    read_log_end(fixture->io);
    dataset_close(dataset);
}

static void a_listed_shard_opens_with_one_read_of_exactly_its_index(void **state)
{
    struct fixture *fixture = *state;
    struct dataset_shard shards[SHARDS];
    struct dataset *dataset;
    struct shard *shard;
    struct err err;
    make_dataset(fixture, shards);
    assert_ok(dataset_open(fixture->io, fixture->folder, &dataset, &err), &err);
    read_log_begin(fixture->io);
    for (int i = 0; i < SHARDS; i++) {
        assert_int_equal(dataset->shards[i].index_offset, shards[i].index_offset);
        assert_ok(dataset_open_shard(fixture->io, dataset, (uint64_t)i, &shard, &err), &err);
        assert_int_equal(shard_index_samples(shard->index), shards[i].samples);
        shard_close(shard);
        struct read_log_sum sum = read_log_sum(shards[i].url);
        assert_int_equal(sum.opens_count, 1);
        assert_int_equal(sum.reads_count, 1);
        assert_int_equal(sum.tail_reads_count, 1);
        assert_int_equal(sum.read_bytes, shards[i].file_bytes - shards[i].index_offset);
    }
    read_log_end(fixture->io);
    dataset_close(dataset);
}

/* As from lists of older versions. */
static void a_shard_without_index_offset_opens_with_the_usual_tail(void **state)
{
    struct fixture *fixture = *state;
    struct dataset_shard shards[SHARDS];
    struct dataset *listed, *dataset;
    struct shard *shard;
    struct err err;
    make_dataset(fixture, shards);
    assert_ok(dataset_open(fixture->io, fixture->folder, &listed, &err), &err);
    for (int i = 0; i < SHARDS; i++)
        set_listed_offset(fixture, &shards[i], "");
    assert_ok(dataset_open(fixture->io, fixture->folder, &dataset, &err), &err);
    assert_true(dataset->fingerprint == listed->fingerprint);
    read_log_begin(fixture->io);
    for (int i = 0; i < SHARDS; i++) {
        assert_int_equal(dataset->shards[i].index_offset, 0);
        assert_ok(dataset_open_shard(fixture->io, dataset, (uint64_t)i, &shard, &err), &err);
        shard_close(shard);
        struct read_log_sum sum = read_log_sum(shards[i].url);
        assert_int_equal(sum.reads_count, i == SHARDS - 1 ? 2 : 1);
        assert_int_equal(sum.tail_read_bytes, bytes_min(shards[i].file_bytes, SHARD_TAIL_BYTES));
    }
    read_log_end(fixture->io);
    dataset_close(listed);
    dataset_close(dataset);
}

static void any_expected_offset_opens_the_same_shard(void **state)
{
    struct fixture *fixture = *state;
    static const uint64_t others[] = {
        1, 1535, UINT64_C(1) << 43, UINT64_MAX / 512 * 512, UINT64_MAX - 511, UINT64_MAX};
    struct err err;
    const char *path = shard_path(fixture, 0);
    struct shard_summary summary = make_shard(fixture->io, path, make_shard_variety, 3);
    uint64_t blocks = summary.file_bytes / 512 + 2;
    for (uint64_t i = 0; i < blocks + sizeof others / sizeof others[0]; i++) {
        uint64_t offset = i < blocks ? 512 * i : others[i - blocks];
        const struct shard_open_options options = {.index_offset = offset};
        struct shard *shard;
        read_log_begin(fixture->io);
        assert_ok(shard_open_with(fixture->io, path, &options, &shard, &err), &err);
        assert_int_equal(shard->trailer.index_offset, summary.index_offset);
        assert_int_equal(shard->identity_crc32c, summary.index_crc32c);
        assert_int_equal(shard_index_samples(shard->index), 3);
        assert_in_range(read_log_sum(path).reads_count, 1, 2);
        read_log_end(fixture->io);
        shard_close(shard);
    }
}

static void a_wrong_index_offset_is_reported_with_both_values(void **state)
{
    struct fixture *fixture = *state;
    struct dataset_shard shards[SHARDS];
    make_dataset(fixture, shards);
    for (int i = 0; i < SHARDS; i++) {
        const uint64_t offset = shards[i].index_offset, wrong[] = {offset - 512, offset + 512};
        for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
            char value[24], expected[64], found[64];
            struct dataset *dataset;
            struct shard *shard;
            struct err err;
            snprintf(value, sizeof value, "%" PRIu64, wrong[k]);
            snprintf(expected, sizeof expected, "%" PRIu64 " as in dataset.json", wrong[k]);
            snprintf(found, sizeof found, "%" PRIu64 " in the shard's trailer", offset);
            set_listed_offset(fixture, &shards[i], value);
            assert_ok(dataset_open(fixture->io, fixture->folder, &dataset, &err), &err);
            for (int other = 0; other < SHARDS; other++) {
                if (other == i)
                    continue;
                assert_ok(dataset_open_shard(fixture->io, dataset, (uint64_t)other, &shard, &err),
                          &err);
                shard_close(shard);
            }
            assert_int_equal(dataset_open_shard(fixture->io, dataset, (uint64_t)i, &shard, &err),
                             -EBADMSG);
            assert_string_equal(err.what, "index_offset of the shard differs from dataset.json");
            assert_string_equal(err.path, shard_path(fixture, i));
            assert_int_equal(err.offset, shards[i].file_bytes - SHARD_TRAILER_BYTES);
            assert_string_equal(err.expected, expected);
            assert_string_equal(err.found, found);
            assert_true(err.advice[0] != '\0');
            dataset_close(dataset);
        }
        char value[24];
        snprintf(value, sizeof value, "%" PRIu64, offset);
        set_listed_offset(fixture, &shards[i], value);
    }
}

/* The listed offset may lie beyond the end of the other file, or within its members. */
static void another_file_in_the_place_of_a_shard_is_reported(void **state)
{
    struct fixture *fixture = *state;
    static const char *const replacements[] = {
        "mv shard-000001.tar shard-000000.tar",
        "cp shard-000002.tar shard-000000.tar",
        "truncate -s -512 shard-000000.tar",
        "truncate -s 100 shard-000000.tar",
        "truncate -s 0 shard-000000.tar",
        "echo more >>shard-000000.tar",
        "echo a >a.txt && tar -cf shard-000000.tar a.txt",
    };
    struct dataset_shard shards[SHARDS];
    for (size_t i = 0; i < sizeof replacements / sizeof replacements[0]; i++) {
        struct dataset *dataset;
        struct shard *shard;
        struct err err;
        assert_int_equal(test_run("rm -f '%s'/*", fixture->folder), 0);
        make_dataset(fixture, shards);
        assert_ok(dataset_open(fixture->io, fixture->folder, &dataset, &err), &err);
        assert_int_equal(test_run("cd '%s' && chmod u+w * && %s", fixture->folder, replacements[i]),
                         0);
        assert_int_equal(dataset_open_shard(fixture->io, dataset, 0, &shard, &err), -EBADMSG);
        assert_string_equal(err.path, shard_path(fixture, 0));
        assert_null(strstr(err.what, "index_offset")); /* the shard is wrong, not the list */
        dataset_close(dataset);
    }
}

/* Another tool's list of millrace shards: opening it reads all tails; later reads are exact. */
static void shards_of_another_list_open_again_with_an_exact_read(void **state)
{
    struct fixture *fixture = *state;
    struct dataset_shard shards[SHARDS];
    struct dataset *dataset;
    struct shard *shard;
    struct err err;
    char pattern[TEST_PATH_BYTES_MAX + 32];
    make_dataset(fixture, shards);
    snprintf(pattern, sizeof pattern, "%s/shard-{000000..000002}.tar", fixture->folder);
    read_log_begin(fixture->io);
    assert_ok(dataset_open(fixture->io, pattern, &dataset, &err), &err);
    for (int i = 0; i < SHARDS; i++) {
        struct read_log_sum sum = read_log_sum(shards[i].url);
        assert_int_equal(sum.opens_count, 1);
        assert_int_equal(sum.tail_read_bytes, bytes_min(shards[i].file_bytes, SHARD_TAIL_BYTES));
    }
    read_log_end(fixture->io);
    read_log_begin(fixture->io);
    for (int i = 0; i < SHARDS; i++) {
        assert_ok(dataset_open_shard(fixture->io, dataset, (uint64_t)i, &shard, &err), &err);
        shard_close(shard);
        struct read_log_sum sum = read_log_sum(shards[i].url);
        assert_int_equal(sum.reads_count, 1);
        assert_int_equal(sum.read_bytes, shards[i].file_bytes - shards[i].index_offset);
    }
    read_log_end(fixture->io);
    dataset_close(dataset);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(opening_a_dataset_opens_no_shard),
        CASE(a_listed_shard_opens_with_one_read_of_exactly_its_index),
        CASE(a_shard_without_index_offset_opens_with_the_usual_tail),
        CASE(any_expected_offset_opens_the_same_shard),
        CASE(a_wrong_index_offset_is_reported_with_both_values),
        CASE(another_file_in_the_place_of_a_shard_is_reported),
        CASE(shards_of_another_list_open_again_with_an_exact_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
