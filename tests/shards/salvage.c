/*
 * salvage — tests that the intact samples of damaged tars are read, and that the rest is reported.
 */
#include "shards/format/plain_tar.h"

#include "shards/format/shard.h"
#include "tests/shards/tar_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct salvage silent_salvage = {0};
static const struct shard_open_options silently = {.salvage = &silent_salvage};

/* Collects the reports of what is left out of a damaged tar. */
struct skip_reports {
    unsigned count;
    struct err last;
};

static void count_skip(void *context, const struct err *what)
{
    struct skip_reports *reports = context;
    reports->count++;
    reports->last = *what;
}

/* Lists the complete samples of the tar and collects reports of what was left out. */
static void list_salvaged(const struct fixture *fixture, struct skip_reports *reports,
                          bool *ret_partial, char *text, size_t bytes)
{
    struct err err;
    struct shard *shard;
    *reports = (struct skip_reports){0};
    const struct salvage salvage = {.on_skip = count_skip, .context = reports};
    const struct shard_open_options options = {.salvage = &salvage};
    assert_ok(shard_open_with(fixture->io, fixture->path, &options, &shard, &err), &err);
    *ret_partial = shard->is_partial;
    tar_fixture_list_samples(shard, text, bytes);
    shard_close(shard);
}

static int open_status(const struct fixture *fixture, struct err *err)
{
    struct shard *shard = NULL;
    int status = shard_open(fixture->io, fixture->path, &shard, err);
    shard_close(shard);
    return status;
}

static void truncate_tar(const struct fixture *fixture, uint64_t bytes)
{
    assert_int_equal(truncate(fixture->path, (off_t)bytes), 0);
}

static void a_truncated_tars_samples_before_the_truncation_are_complete(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        uint64_t bytes;
        int64_t offset;
        const char *wanted;
    } cases[] = {
        {3000, 2560, "a:x,y"}, /* in the data of b.x: a is complete */
        {5000, 4608, "a:x,y"}, /* in the data of b.y */
        {4608, 4608, "a:x,y"}, /* just after the header of b.y */
        {4200, 4096, "a:x,y"}, /* in the header of b.y: b might have had more members */
        {2100, 2048, ""},      /* in the header of b.x, which might have been another member of a */
        {514, 512, ""},        {100, 0, ""}, {0, 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct skip_reports reports;
        struct err err;
        char text[64];
        bool is_partial;
        tar_fixture_write(fixture,
                          (const char *[]){"a.x", "a.y", "b.x=1400", "b.y=900", "c.x", NULL});
        truncate_tar(fixture, cases[i].bytes);
        assert_int_equal(open_status(fixture, &err), -EBADMSG);
        assert_int_equal(err.offset, cases[i].offset);
        list_salvaged(fixture, &reports, &is_partial, text, sizeof text);
        assert_string_equal(text, cases[i].wanted);
        assert_true(is_partial);
        assert_int_equal(reports.count, 1);
        assert_int_equal(reports.last.offset, cases[i].offset);
        assert_string_equal(reports.last.path, fixture->path);
        assert_non_null(strstr(reports.last.advice, "left out"));
    }
}

/* Each sample is one member, so a clean end is never inside a sample. */
static void every_truncation_keeps_the_samples_before_it(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        uint64_t data_end, next;
    } samples[] = {{512 + 700, 1536}, {2048 + 5, 2560}, {3072 + 1500, 4608}};
    static const char *const wanted[] = {"", "a:x", "a:x b:x", "a:x b:x c:x"};
    for (uint64_t bytes = 0; bytes <= 4608 + 1024; bytes += bytes % 512 < 500 ? 100 : 1) {
        struct skip_reports reports;
        struct err err;
        char text[64];
        bool is_partial;
        unsigned whole = 0;
        for (unsigned i = 0; i < 3; i++)
            whole += bytes >= samples[i].data_end &&
                     (bytes <= samples[i].next || bytes >= samples[i].next + 512);
        tar_fixture_write(fixture, (const char *[]){"a.x=700", "b.x=5", "c.x=1500", NULL});
        truncate_tar(fixture, bytes);
        list_salvaged(fixture, &reports, &is_partial, text, sizeof text);
        assert_string_equal(text, wanted[whole]);
        assert_int_equal(open_status(fixture, &err), is_partial ? -EBADMSG : 0);
        assert_int_equal(reports.count, is_partial);
    }
}

static void the_first_of_duplicate_members_is_used(void **state)
{
    const struct fixture *fixture = *state;
    struct skip_reports reports;
    struct err err;
    struct shard *shard;
    struct shard_field field;
    char text[64];
    bool is_partial;
    tar_fixture_write(
        fixture, (const char *[]){"a.x=5", "a.y", "a.X=900", "a.x", "b.x", "c\n.x", "c.x", NULL});
    assert_int_equal(open_status(fixture, &err), -EBADMSG);
    list_salvaged(fixture, &reports, &is_partial, text, sizeof text);
    assert_string_equal(text, "a:x,y b:x c:x");
    assert_true(is_partial);
    assert_int_equal(reports.count, 3); /* two duplicates of a.x, and an invalid name */
    assert_ok(shard_open_with(fixture->io, fixture->path, &silently, &shard, &err), &err);
    shard_index_field(shard->index, 0, 0, &field);
    assert_int_equal(field.data_offset, 512);
    assert_int_equal(field.size_bytes, 5);
    shard_close(shard);
}

static void salvaging_an_intact_tar_changes_nothing(void **state)
{
    const struct fixture *fixture = *state;
    struct err err;
    struct shard *strict, *salvaged;
    struct plain_tar_index kept = {0};
    tar_fixture_write(fixture, (const char *[]){"a.x", "a.y", "b.x=70000", "a.x", NULL});
    assert_ok(shard_open_with(fixture->io, fixture->path, &silently, &salvaged, &err), &err);
    assert_true(tar_fixture_has_index(fixture, &kept)); /* cached for later callers */
    plain_tar_index_deinit(&kept);
    assert_ok(shard_open(fixture->io, fixture->path, &strict, &err), &err);
    assert_false(salvaged->is_partial);
    assert_int_equal(salvaged->identity_crc32c, strict->identity_crc32c);
    assert_int_equal(salvaged->trailer.index_crc32c, strict->trailer.index_crc32c);
    assert_int_equal(salvaged->trailer.archive_end, strict->trailer.archive_end);
    shard_close(strict);
    shard_close(salvaged);
}

static void an_index_of_a_damaged_tar_is_never_used_for_an_intact_one(void **state)
{
    const struct fixture *fixture = *state;
    struct skip_reports reports;
    struct err err;
    struct shard *shard;
    struct plain_tar_index kept = {0};
    char text[64];
    bool is_partial;
    tar_fixture_write(fixture, (const char *[]){"a.x", "b.x=2000", NULL});
    truncate_tar(fixture, 2000);
    tar_fixture_set_mtime(fixture, 1000);
    list_salvaged(fixture, &reports, &is_partial, text, sizeof text);
    uint32_t identity = 0;
    for (int i = 0; i < 2; i++) {
        assert_false(tar_fixture_has_index(fixture, &kept));
        assert_int_equal(open_status(fixture, &err), -EBADMSG);
        assert_int_equal(err.offset, 1536);
        assert_int_equal(tar_fixture_load_index(fixture, true, &kept), 0);
        assert_true(kept.is_partial);
        identity = kept.identity_crc32c;
        plain_tar_index_deinit(&kept);
        list_salvaged(fixture, &reports, &is_partial, text,
                      sizeof text); /* the report is repeated */
        assert_int_equal(reports.count, 1);
    }
    assert_ok(shard_open_with(fixture->io, fixture->path, &silently, &shard, &err), &err);
    assert_true(shard->is_partial);
    assert_int_equal(shard->identity_crc32c, identity);
    shard_close(shard);
    tar_fixture_write(fixture, (const char *[]){"a.x", "b.x=2000", NULL});
    tar_fixture_set_mtime(fixture, 1000); /* repaired, with the old time */
    list_salvaged(fixture, &reports, &is_partial, text, sizeof text);
    assert_string_equal(text, "a:x b:x");
    assert_false(is_partial);
    assert_true(tar_fixture_has_index(fixture, &kept));
    assert_int_not_equal(kept.identity_crc32c, identity);
    plain_tar_index_deinit(&kept);
}

static void salvaging_obeys_limits(void **state)
{
    const struct fixture *fixture = *state;
    struct err err;
    struct shard *shard;
    char names[SHARD_FIELDS_MAX + 1][16];
    const char *members[SHARD_FIELDS_MAX + 2] = {0};
    for (int i = 0; i <= SHARD_FIELDS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "a.x%d", i);
        members[i] = names[i];
    }
    tar_fixture_write(fixture, members);
    assert_int_equal(shard_open_with(fixture->io, fixture->path, &silently, &shard, &err),
                     -EBADMSG);
    assert_non_null(strstr(err.what, "too many"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, tar_fixture_set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_truncated_tars_samples_before_the_truncation_are_complete),
        CASE(every_truncation_keeps_the_samples_before_it),
        CASE(the_first_of_duplicate_members_is_used),
        CASE(salvaging_an_intact_tar_changes_nothing),
        CASE(an_index_of_a_damaged_tar_is_never_used_for_an_intact_one),
        CASE(salvaging_obeys_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
