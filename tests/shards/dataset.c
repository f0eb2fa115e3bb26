/*
 * dataset.json reads back as written, and all its content is validated.
 */
#include "shards/dataset/dataset.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "io/file_util.h"
#include "tests/shards/fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int set_up(void **state)
{
    return fixture_set_up(state, DATASET_FILE_NAME);
}

/* Casts a string to the mutable pointer that the struct requires; it is never written to. */
static char *unconst(const char *text)
{
    return (char *)(uintptr_t)text;
}

static void encode(struct str *out)
{
    struct err err;
    struct dataset_shard shards[] = {
        {.url = unconst("shard-000000.tar"),
         .samples = 5,
         .file_bytes = 10240,
         .xxh3 = 0xfedcba9876543210u,
         .index_crc32c = 0x00c0ffee,
         .index_offset = 9216,
         .last_tokens = 65537},
        {.url = unconst("/abs/b.tar"), .samples = 0, .file_bytes = 2048},
        {.url = unconst("http://host/c.tar"),
         .samples = 7,
         .file_bytes = UINT64_C(1) << 40,
         .index_crc32c = 0xffffffff,
         .index_offset = (UINT64_C(1) << 40) - (1 << 30) - 512}};
    char *classes[] = {unconst("a \"quoted\" \xc3\xa9"), unconst("b")};
    struct dataset dataset = {.shards = shards,
                              .shards_count = 3,
                              .samples = 12,
                              .classes = classes,
                              .classes_count = 2,
                              .mean_sample_bytes = 1234,
                              .fields = {"cls", "npy"},
                              .fields_count = 2,
                              .text = {.element = "uint16",
                                       .tokenizer = "bytes",
                                       .vocabulary = 257,
                                       .document_end = 256,
                                       .tokens = 99,
                                       .member_tokens = 65537,
                                       .header_bytes = 128}};
    static const char options[] = "{\"a\":[1,2.5,null,true],\"b\":{\"c\":\"d\"}}";
    str_add_text(&dataset.options_json, options);
    assert_ok(dataset_encode(&dataset, out, &err), &err);
    str_deinit(&dataset.options_json);
}

static void a_written_shard_reads_back_the_same(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    struct str text = {0}, again = {0};
    struct dataset *dataset;
    encode(&text);
    test_write_file(fixture->path, text.data, text.bytes);
    assert_ok(dataset_open(fixture->io, fixture->folder, &dataset, &err), &err);
    assert_int_equal(dataset->samples, 12);
    assert_string_equal(dataset->classes[0], "a \"quoted\" \xc3\xa9");
    assert_int_equal(dataset->shards[2].first_sample, 5);
    assert_ok(dataset_encode(dataset, &again, &err), &err);
    assert_string_equal(text.data, again.data); /* all values survive, including options */
    assert_int_equal(dataset->shards[0].index_offset, 9216);
    assert_int_equal(dataset->shards[1].index_offset, 0); /* not listed */
    char path[IO_PATH_BYTES_MAX], wanted[IO_PATH_BYTES_MAX + 32];
    snprintf(wanted, sizeof wanted, "%s/shard-000000.tar", fixture->folder);
    assert_ok(dataset_shard_path(dataset, 0, path, &err), &err);
    assert_string_equal(path, wanted);
    assert_ok(dataset_shard_path(dataset, 1, path, &err), &err);
    assert_string_equal(path, "/abs/b.tar");
    assert_ok(dataset_shard_path(dataset, 2, path, &err), &err);
    assert_string_equal(path, "http://host/c.tar");
    dataset_close(dataset);
    str_deinit(&text);
    str_deinit(&again);
}

static void a_sample_after_empty_shards_is_found(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    struct str text = {0};
    struct dataset *dataset;
    encode(&text);
    test_write_file(fixture->path, text.data, text.bytes);
    assert_ok(dataset_open(fixture->io, fixture->path, &dataset, &err), &err);
    for (uint64_t sample = 0; sample < 12; sample++) {
        uint64_t number_in_shard, shard = dataset_locate(dataset, sample, &number_in_shard);
        assert_int_equal(shard, sample < 5 ? 0 : 2);
        assert_int_equal(number_in_shard, sample < 5 ? sample : sample - 5);
    }
    dataset_close(dataset);
    str_deinit(&text);
}

static void the_fingerprint_is_the_documented_hash(void **state)
{
    (void)state;
    struct err err;
    struct dataset_shard shards[2] = {
        {.samples = 3, .index_crc32c = 0x01020304, .url = unconst("x"), .xxh3 = 1},
        {.samples = UINT64_C(1) << 33, .index_crc32c = 0xa0b0c0d0}};
    uint8_t bytes[24];
    uint64_t fingerprint;
    bytes_put_u64(bytes, 3);
    bytes_put_u32(bytes + 8, 0x01020304);
    bytes_put_u64(bytes + 12, UINT64_C(1) << 33);
    bytes_put_u32(bytes + 20, 0xa0b0c0d0);
    assert_ok(dataset_fingerprint(shards, 2, &fingerprint, &err), &err);
    assert_true(fingerprint == hash_64(bytes, sizeof bytes));
}

/* Each of these replacements makes the file invalid. */
static void contradictions_and_missing_keys_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const char *const changes[][2] = {
        {"wids-shard-index-v1", "something else"},
        {"\"shardlist\"", "\"shards\""},
        {"\"nsamples\":5", "\"nsamples\":6"},
        {"\"nsamples\":5", "\"nsamples\":-5"},
        {"\"nsamples\":5", "\"nsamples\":\"5\""},
        {"\"nsamples\":5", "\"nsamples\":99999999999"},
        {"\"filesize\":2048", "\"filesize\":9000000000000"},
        {"\"mean_sample_bytes\":", "\"mean_sample_bytes\":9000000000000,\"x\":"},
        {"\"member_tokens\":65537", "\"member_tokens\":9000000000000"},
        {"\"tokens\":", "\"tokens\":2000000000000000000,\"x\":"},
        {"\"filesize\":2048", "\"filesze\":2048"},
        {"fedcba9876543210", "fedcba987654321"},
        {"fedcba9876543210", "FEDCBA9876543210"},
        {"\"index_offset\":9216", "\"index_offset\":9728"}, /* no room for the index */
        {"\"index_offset\":9216", "\"index_offset\":9217"},
        {"\"index_offset\":9216", "\"index_offset\":512"}, /* no room for the end of the archive */
        {"\"index_offset\":9216", "\"index_offset\":0"},
        {"\"index_offset\":9216", "\"index_offset\":-9216"},
        {"\"index_offset\":9216", "\"index_offset\":\"9216\""},
        {"\"index_offset\":9216", "\"index_offset\":9216.0"},
        {"\"index_offset\":9216", "\"index_offset\":null"},
        {"\"index_offset\":9216", "\"index_offset\":1099511627776"},
        {"\"index_offset\":9216", "\"index_offset\":18446744073709551616"},
        {"\"index_offset\":1098437885440", "\"index_offset\":1098437884928"}, /* over 1 GiB */
        {"00c0ffee", "00c0ffef"},
        {"00c0ffee", "0xc0ffee"},
        {"\"url\":\"shard-000000.tar\"", "\"url\":\"\""},
        {"\"version\":1", "\"version\":2"},
        {"\"samples\":12", "\"samples\":13"},
        {"\"fields\":[\"cls\"", "\"fields\":[\"\""},
        {"\"fields\":[\"cls\"", "\"fields\":[7"},
        {"\"classes\":[", "\"classes\":[1,"},
        {"\"uint16\"", "\"float\""},
        {"\"vocabulary\":257", "\"vocabulary\":256"},
        {"\"vocabulary\":257", "\"vocabulary\":4294967296"},
        {"\"member_tokens\":65537", "\"member_tokens\":1"},
        {"\"header_bytes\":128", "\"header\":128"},
        {"}]", "]"},
    };
    struct str text = {0};
    encode(&text);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct err err = {0};
        struct dataset *dataset;
        const char *at = strstr(text.data, changes[i][0]);
        assert_non_null(at);
        struct str changed = {0};
        str_add(&changed, text.data, (size_t)(at - text.data));
        str_add_text(&changed, changes[i][1]);
        str_add_text(&changed, at + strlen(changes[i][0]));
        test_write_file(fixture->path, changed.data, changed.bytes);
        int status = dataset_open(fixture->io, fixture->path, &dataset, &err);
        if (status != -EBADMSG)
            print_error("%s for %s gave %d\n", changes[i][1], changes[i][0], status);
        assert_int_equal(status, -EBADMSG);
        assert_string_equal(err.path, fixture->path);
        str_deinit(&changed);
    }
    for (size_t cut = 0; cut + 1 < text.bytes; cut += 11) {
        struct err err;
        struct dataset *dataset;
        test_write_file(fixture->path, text.data, cut);
        assert_int_equal(dataset_open(fixture->io, fixture->path, &dataset, &err), -EBADMSG);
    }
    str_deinit(&text);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_written_shard_reads_back_the_same),
        CASE(a_sample_after_empty_shards_is_found),
        CASE(the_fingerprint_is_the_documented_hash),
        CASE(contradictions_and_missing_keys_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
