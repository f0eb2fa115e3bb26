/*
 * Verification: an intact shard has no problems, and any changed byte is reported as one.
 */
#include "shards/verify/verify.h"

#include "base/hash.h"
#include "io/file_util.h"
#include "tests/shards/fixture.h"
#include "tests/shards/make_shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int set_up(void **state)
{
    return fixture_set_up(state, "shard-000000.tar");
}

/* Contents of the callbacks' calls. */
struct callback_record {
    uint64_t members, member_bytes, problems;
    char key[SHARD_KEY_BYTES_MAX];
    int64_t offset;
    const char *bad_key; /* a member to report as bad */
};

static void count_problem(void *context, const struct verify_problem *found)
{
    struct callback_record *record = context;
    if (record->problems++ == 0) {
        snprintf(record->key, sizeof record->key, "%s", found->key);
        record->offset = found->err->offset;
    }
    assert_true(found->err->what[0] && found->path[0]);
}

static int count_member(void *context, const struct verify_member *found,
                        enum verify_kind *ret_kind, struct err *err)
{
    *ret_kind = VERIFY_IMAGE;
    struct callback_record *record = context;
    record->members++;
    record->member_bytes += found->size_bytes;
    if (record->bad_key && strcmp(record->bad_key, found->key) == 0)
        return err_set(err, -EBADMSG, "rejected by the caller");
    return 0;
}

static struct verify_result verify(struct fixture *fixture, const struct dataset_shard *expected,
                                   struct callback_record *record)
{
    struct err err;
    struct verify_result result = {0};
    struct verify_options options = {
        .on_problem = count_problem, .check_member = count_member, .context = record};
    assert_ok(verify_shard(fixture->io, fixture->path, expected, &options, &result, &err), &err);
    assert_int_equal(result.problems_count, record->problems);
    return result;
}

static void an_intact_shard_has_no_problems(void **state)
{
    struct fixture *fixture = *state;
    struct callback_record record = {0};
    struct shard_summary summary =
        make_shard(fixture->io, fixture->path, make_shard_variety, make_shard_variety_count);
    struct dataset_shard expected = {.samples = summary.samples,
                                     .file_bytes = summary.file_bytes,
                                     .xxh3 = summary.xxh3,
                                     .index_crc32c = summary.index_crc32c,
                                     .index_offset = summary.index_offset};
    struct verify_result result = verify(fixture, &expected, &record);
    assert_int_equal(result.problems_count, 0);
    assert_int_equal(result.samples_count, make_shard_variety_count);
    assert_int_equal(result.members_count, 14);
    assert_int_equal(result.bytes, summary.file_bytes);
    assert_int_equal(record.members, 14);
    assert_int_equal(record.member_bytes, summary.field_bytes);
}

/* Some flips in a header keep its meaning (a space for a leading zero): only the hash of the file
 * detects them. */
static void flip_bytes(struct fixture *fixture, const struct dataset_shard *expected)
{
    size_t bytes;
    uint8_t *file = test_read_file(fixture->path, &bytes);
    for (size_t at = 0; at < bytes; at += at < 1024 || at > bytes - 1536 ? 1 : 7) {
        struct callback_record record = {0};
        bool header = (at < 512 || (at >= 1024 && at < 1536)) && !expected;
        if (header)
            continue;
        file[at] ^= 0x10;
        test_write_file(fixture->path, file, bytes);
        verify(fixture, expected, &record);
        if (record.problems == 0)
            print_error("a flip at %zu of %zu was not detected\n", at, bytes);
        assert_true(record.problems > 0);
        file[at] ^= 0x10;
    }
    free(file);
}

static void every_flipped_byte_is_a_problem(void **state)
{
    struct fixture *fixture = *state;
    struct shard_summary summary = make_shard(fixture->io, fixture->path, make_shard_variety, 1);
    struct dataset_shard expected = {.samples = summary.samples,
                                     .file_bytes = summary.file_bytes,
                                     .xxh3 = summary.xxh3,
                                     .index_crc32c = summary.index_crc32c};
    flip_bytes(fixture, &expected);
}

static void flipped_bytes_are_detected_without_dataset_json(void **state)
{
    struct fixture *fixture = *state;
    make_shard(fixture->io, fixture->path, make_shard_variety, 1);
    flip_bytes(fixture, NULL);
}

static void a_flipped_bit_is_named_by_sample_and_block(void **state)
{
    struct fixture *fixture = *state;
    size_t bytes;
    struct err err;
    struct shard *shard;
    struct shard_field field;
    make_shard(fixture->io, fixture->path, make_shard_variety, make_shard_variety_count);
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    shard_index_field(shard->index, 2, (uint32_t)shard_index_find(shard->index, "jpg"), &field);
    shard_close(shard);
    uint8_t *file = test_read_file(fixture->path, &bytes);
    file[field.data_offset + 2 * SHARD_BLOCK_BYTES + 5] ^= 1;
    test_write_file(fixture->path, file, bytes);
    struct callback_record record = {0};
    verify(fixture, NULL, &record);
    assert_int_equal(record.problems, 2); /* the block and the whole member */
    assert_string_equal(record.key, "big");
    assert_int_equal(record.offset, field.data_offset + 2 * SHARD_BLOCK_BYTES);
    assert_int_equal(record.members, 13); /* all members except the bad one */
    free(file);
}

static void members_rejected_by_the_caller_are_counted(void **state)
{
    struct fixture *fixture = *state;
    struct callback_record record = {.bad_key = "only-text"};
    make_shard(fixture->io, fixture->path, make_shard_variety, make_shard_variety_count);
    verify(fixture, NULL, &record);
    assert_int_equal(record.problems, 1);
    assert_string_equal(record.key, "only-text");
}

static void an_adjacent_duplicate_key_is_a_problem(void **state)
{
    struct fixture *fixture = *state;
    struct callback_record record = {0};
    const struct make_shard_sample samples[] = {
        {"a", {{"txt", 1}}}, {"b", {{"txt", 1}}}, {"a", {{"txt", 1}}}};
    make_shard(fixture->io, fixture->path, samples, 3);
    verify(fixture, NULL, &record);
    assert_int_equal(record.problems, 1);
    assert_string_equal(record.key, "a");
}

static void a_swapped_shard_is_a_problem(void **state)
{
    struct fixture *fixture = *state;
    struct callback_record record = {0};
    struct shard_summary summary = make_shard(fixture->io, fixture->path, make_shard_variety, 3);
    struct dataset_shard expected = {.samples = summary.samples + 1,
                                     .file_bytes = summary.file_bytes + 1,
                                     .xxh3 = summary.xxh3 + 1,
                                     .index_crc32c = summary.index_crc32c + 1};
    verify(fixture, &expected, &record);
    assert_int_equal(record.problems, 4);
}

static void a_wrong_index_offset_is_a_problem_and_the_shard_is_verified(void **state)
{
    struct fixture *fixture = *state;
    struct shard_summary summary = make_shard(fixture->io, fixture->path, make_shard_variety, 3);
    for (int change = -512; change <= 512; change += 1024) {
        struct callback_record record = {0};
        struct dataset_shard expected = {.samples = summary.samples,
                                         .file_bytes = summary.file_bytes,
                                         .xxh3 = summary.xxh3,
                                         .index_crc32c = summary.index_crc32c,
                                         .index_offset = summary.index_offset + (uint64_t)change};
        struct verify_result result = verify(fixture, &expected, &record);
        assert_int_equal(record.problems, 1);
        assert_int_equal(record.offset, summary.file_bytes - SHARD_TRAILER_BYTES);
        assert_int_equal(result.members_count, 6);
        assert_int_equal(result.bytes, summary.file_bytes);
    }
}

static void a_missing_shard_is_a_problem_and_the_others_are_verified(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    struct shard_summary summary = make_shard(fixture->io, fixture->path, make_shard_variety, 3);
    struct dataset_shard shards[2] = {{.url = (char *)(uintptr_t) "gone.tar"},
                                      {.url = (char *)(uintptr_t) "shard-000000.tar",
                                       .samples = 3,
                                       .file_bytes = summary.file_bytes,
                                       .xxh3 = summary.xxh3,
                                       .index_crc32c = summary.index_crc32c}};
    struct dataset dataset = {.shards = shards, .shards_count = 2, .samples = 3};
    snprintf(dataset.folder, sizeof dataset.folder, "%s", fixture->folder);
    struct callback_record record = {0};
    struct verify_result result = {0};
    struct verify_options options = {
        .on_problem = count_problem, .check_member = count_member, .context = &record};
    assert_ok(verify_dataset(fixture->io, &dataset, &options, &result, &err), &err);
    assert_int_equal(result.problems_count, 1);
    assert_int_equal(result.shards_count, 2);
    assert_int_equal(result.samples_count, 3);
    assert_int_equal(record.members, 6);
}

static void verification_stops_on_request(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    struct verify_result result = {0};
    atomic_int stop = 1;
    struct verify_options options = {.stop = &stop};
    make_shard(fixture->io, fixture->path, make_shard_variety, 3);
    assert_int_equal(verify_shard(fixture->io, fixture->path, NULL, &options, &result, &err),
                     -EINTR);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_intact_shard_has_no_problems),
        CASE(every_flipped_byte_is_a_problem),
        CASE(flipped_bytes_are_detected_without_dataset_json),
        CASE(a_flipped_bit_is_named_by_sample_and_block),
        CASE(members_rejected_by_the_caller_are_counted),
        CASE(an_adjacent_duplicate_key_is_a_problem),
        CASE(a_swapped_shard_is_a_problem),
        CASE(a_wrong_index_offset_is_a_problem_and_the_shard_is_verified),
        CASE(a_missing_shard_is_a_problem_and_the_others_are_verified),
        CASE(verification_stops_on_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
