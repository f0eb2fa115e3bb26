/*
 * plain_tar — tests that samples of other tools' tars are grouped as in WebDataset, that the index
 * is cached and rebuilt, and that checksums are computed on request.
 */
#include "shards/format/plain_tar.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "io/file_util.h"
#include "shards/dataset/dali.h"
#include "shards/format/index_cache.h"
#include "shards/format/member_name.h"
#include "shards/format/shard.h"
#include "shards/format/tar.h"
#include "shards/verify/verify.h"
#include "tests/shards/tar_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void assert_groups_as_is(const struct fixture *fixture, const char *wanted)
{
    struct err err;
    struct shard *shard;
    char text[1024];
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    assert_true(shard->is_plain_tar);
    tar_fixture_list_samples(shard, text, sizeof text);
    shard_close(shard);
    assert_string_equal(text, wanted);
}

static void assert_groups(const struct fixture *fixture, const char *const *members,
                          const char *wanted)
{
    tar_fixture_write(fixture, members);
    assert_groups_as_is(fixture, wanted);
}

static void members_are_grouped_by_convention(void **state)
{
    const struct fixture *fixture = *state;
    assert_groups(fixture, (const char *[]){"a.jpg", "a.cls", "b.cls", "b.jpg", NULL},
                  "a:cls,jpg b:cls,jpg");
    assert_groups(fixture, (const char *[]){"some/path/22.0/1.1.png", "some/path/22.0/1.CLS", NULL},
                  "some/path/22.0/1:1.png,cls");
    assert_groups(fixture,
                  (const char *[]){"a.x", "README", ".hidden", "d/.b.x", "e.", "a.y", NULL},
                  "a:x,y");
    assert_groups(fixture, (const char *[]){"__meta__/a.x", "__info__", "__a.x", "d/__b__.x", NULL},
                  "__a:x d/__b__:x");
    /* adjacent members only */
    assert_groups(fixture, (const char *[]){"a.x", "b.x", "a.y", NULL}, "a:x b:x a:y");
    assert_groups(fixture, (const char *[]){"nothing", NULL}, "");
}

/* Compares the splitting of each name with webdataset's regular expression. */
static void names_are_split_as_by_webdataset(void **state)
{
    (void)state;
    static const char *const names[] = {
        "a.jpg",       "a/b.c/d.e.F", "a.b/c",      "x",       "a/b.tar.gz", "./a.jpg",
        "/abs/a.jpg",  "__x__/a.jpg", "__x__",      "__x__.a", "____/a.b",   "___/a.b",
        "a/__x__/b.c", "a b.c d",     "\xc3\xa9.x", "a..b",    "a.b."};
    const char *python = test_need_python("webdataset");
    struct str script = {0};
    char theirs[4096], ours[4096] = "";
    size_t used = 0;
    str_add_text(&script,
                 "import re,sys\\nfrom webdataset.tariterators import base_plus_ext\\n"
                 "for n in sys.argv[1:]:\\n"
                 "  k,e=(None,None) if re.match(r\"__[^/]*__($|/)\",n) else base_plus_ext(n)\\n"
                 "  print(n, (k+\"|\"+e.lower()) if k else None)\\n");
    struct str arguments = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct member_name name;
        struct err err;
        bool is_field;
        assert_ok(member_name_split(names[i], &name, &is_field, &err), &err);
        used +=
            (size_t)(is_field ? snprintf(ours + used, sizeof ours - used, "%s %s|%s\n", names[i],
                                         name.key, name.extension)
                              : snprintf(ours + used, sizeof ours - used, "%s None\n", names[i]));
        str_add_format(&arguments, " '%s'", names[i]);
    }
    assert_int_equal(test_run_output(theirs, sizeof theirs,
                                     "PYTHONIOENCODING=utf-8 '%s' -c \"$(printf '%s')\"%s", python,
                                     script.data, arguments.data),
                     0);
    assert_string_equal(ours, theirs);
    str_deinit(&script);
    str_deinit(&arguments);
}

static void a_bad_sample_is_refused_with_its_offset(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        const char *members[4];
        int64_t offset;
    } cases[] = {
        {{"a.jpg", "a.cls", "a.JPG", NULL}, 2048}, /* a repeated extension */
        {{"a.jpg", "b\nc.jpg", NULL}, 1024},
        {{"a.0123456789012345678901234567890123456789012345678", NULL}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err;
        struct shard *shard;
        tar_fixture_write(fixture, cases[i].members);
        assert_int_equal(shard_open(fixture->io, fixture->path, &shard, &err), -EBADMSG);
        assert_string_equal(err.path, fixture->path);
        assert_int_equal(err.offset, cases[i].offset);
    }
}

static void a_file_that_is_not_a_tar_is_named(void **state)
{
    const struct fixture *fixture = *state;
    struct err err;
    struct shard *shard;
    char bytes[2048] = "\x1f\x8b";
    test_write_file(fixture->path, bytes, sizeof bytes);
    assert_int_equal(shard_open(fixture->io, fixture->path, &shard, &err), -EBADMSG);
    assert_int_equal(err.offset, 0);
    assert_non_null(strstr(err.found, "gzip"));
}

static void the_index_is_kept_until_the_tar_changes(void **state)
{
    const struct fixture *fixture = *state;
    struct plain_tar_index found = {0};
    assert_groups(fixture, (const char *[]){"a.x", NULL}, "a:x");
    tar_fixture_set_mtime(fixture, 1000);
    assert_false(tar_fixture_has_index(fixture, &found));
    struct err err;
    struct shard *shard;
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    shard_close(shard);
    assert_true(tar_fixture_has_index(fixture, &found));
    assert_int_equal(found.trailer.samples, 1);
    assert_int_equal(found.trailer.flags, SHARD_FLAG_NO_CRCS);
    plain_tar_index_deinit(&found);
    assert_groups(fixture, (const char *[]){"a.x", "b.x", NULL}, "a:x b:x");
    tar_fixture_set_mtime(fixture, 1000); /* the same time, a different size */
    assert_false(tar_fixture_has_index(fixture, &found));
}

/* Updates the tar's identity in the cache entry to the current one, as if the storage could not
 * distinguish two states. */
static void forge_identity(const struct fixture *fixture)
{
    struct io_stat info;
    struct err err;
    char path[IO_PATH_BYTES_MAX];
    size_t bytes;
    assert_ok(index_cache_path(fixture->io, fixture->path, path, &err), &err);
    assert_ok(fixture->io->names->stat(fixture->io, fixture->path, &info, &err), &err);
    uint8_t *entry = test_read_file(path, &bytes);
    assert_int_equal(bytes_get_u32(entry + 64), info.identity.bytes_count);
    memcpy(entry + 104, info.identity.bytes, info.identity.bytes_count);
    bytes_put_u32(entry + 252, crc32c(0, entry, 252));
    test_write_file(path, entry, bytes);
    free(entry);
}

static void a_different_tar_of_the_same_size_and_time_is_reindexed(void **state)
{
    const struct fixture *fixture = *state;
    struct plain_tar_index found = {0};
    tar_fixture_write(fixture, (const char *[]){"a.x", "b.x", NULL});
    tar_fixture_set_mtime(fixture, 1000);
    assert_groups_as_is(fixture, "a:x b:x");
    assert_true(tar_fixture_has_index(fixture, &found));
    plain_tar_index_deinit(&found);
    tar_fixture_write(fixture, (const char *[]){"c.x", "d.x", NULL});
    tar_fixture_set_mtime(fixture, 1000);
    assert_false(tar_fixture_has_index(fixture, &found));
    assert_groups_as_is(fixture, "c:x d:x");
}

static void a_cache_entry_that_does_not_match_the_tar_is_ignored(void **state)
{
    const struct fixture *fixture = *state;
    struct plain_tar_index found = {0};
    static const char *const others[][4] = {
        {"a.x", "b.x", "d.x"}, {"d.x", "b.x", "c.x"}, {"a.x", "b.x", "c.y"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_groups(fixture, (const char *[]){"a.x", "b.x", "c.x", NULL}, "a:x b:x c:x");
        forge_identity(fixture);
        assert_true(tar_fixture_has_index(fixture, &found)); /* still the same tar */
        plain_tar_index_deinit(&found);
        tar_fixture_write(fixture, others[i]);
        forge_identity(fixture);
        assert_false(tar_fixture_has_index(fixture, &found));
    }
    /* no samples and no members to compare */
    assert_groups(fixture, (const char *[]){"nothing", NULL}, "");
    assert_true(tar_fixture_has_index(fixture, &found));
    plain_tar_index_deinit(&found);
}

/* The path of an open tar may meanwhile name a different tar. */
static void a_cache_entry_belongs_to_the_open_tar_not_its_name(void **state)
{
    const struct fixture *fixture = *state;
    struct index_cache_tar tar = {.io = fixture->io, .path = fixture->path};
    struct plain_tar_index found = {0};
    struct io_identity identity;
    struct err err;
    char aside[TEST_PATH_BYTES_MAX + 8];
    static const struct plain_tar_options options = {0};
    tar_fixture_write(fixture, (const char *[]){"a.x", NULL});
    assert_ok(tar.io->ops->file_open(tar.io, tar.path, &tar.file, &err), &err);
    assert_ok(tar.io->ops->queue_open(tar.io, 1, &tar.queue, &err), &err);
    assert_ok(tar.io->ops->file_identity(tar.file, &identity, &err), &err);
    snprintf(aside, sizeof aside, "%s.old", fixture->path);
    assert_int_equal(rename(fixture->path, aside), 0);
    assert_groups(fixture, (const char *[]){"b.x", NULL}, "b:x");
    assert_int_equal(index_cache_load(&tar, true, &found), -ENOENT);
    assert_ok(plain_tar_index_build(tar.io, tar.file, tar.path, &options, &found, &err), &err);
    /* the rename changed its ctime */
    assert_int_equal(index_cache_store(&tar, &identity, &found, &err), -ESTALE);
    plain_tar_index_deinit(&found);
    tar.io->ops->queue_close(tar.queue);
    tar.io->ops->file_close(tar.file);
}

static void a_file_url_names_the_same_entry(void **state)
{
    const struct fixture *fixture = *state;
    static const char *const prefixes[] = {"file:", "file://", "file://localhost"};
    char plain[IO_PATH_BYTES_MAX], url[IO_PATH_BYTES_MAX + 32], path[IO_PATH_BYTES_MAX];
    struct err err;
    tar_fixture_write(fixture, (const char *[]){"a.x", NULL});
    assert_ok(index_cache_path(fixture->io, fixture->path, plain, &err), &err);
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        snprintf(url, sizeof url, "%s%s", prefixes[i], fixture->path);
        assert_ok(index_cache_path(fixture->io, url, path, &err), &err);
        assert_string_equal(path, plain);
    }
}

static void a_damaged_or_mismatched_cache_entry_is_ignored(void **state)
{
    const struct fixture *fixture = *state;
    struct plain_tar_index found = {0};
    struct err err;
    char path[IO_PATH_BYTES_MAX];
    size_t bytes;
    assert_groups(fixture, (const char *[]){"a.x", "b.yy", NULL}, "a:x b:yy");
    assert_ok(index_cache_path(fixture->io, fixture->path, path, &err), &err);
    uint8_t *entry = test_read_file(path, &bytes);
    for (size_t at = 0; at < bytes; at++) {
        entry[at] ^= (uint8_t)(1u << at % 8);
        test_write_file(path, entry, bytes);
        if (tar_fixture_has_index(fixture, &found)) {
            /* only the unused zeros after the path may change */
            assert_true(at >= 256 && bytes > 256);
            plain_tar_index_deinit(&found);
        }
        entry[at] ^= (uint8_t)(1u << at % 8);
    }
    for (size_t kept = 0; kept < bytes; kept++) {
        test_write_file(path, entry, kept);
        assert_false(tar_fixture_has_index(fixture, &found));
    }
    free(entry);
    struct shard *shard;
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err); /* rebuilds the index */
    assert_int_equal(shard->trailer.samples, 2);
    shard_close(shard);
    assert_true(tar_fixture_has_index(fixture, &found));
    plain_tar_index_deinit(&found);
}

/* Creates a file as left by a killed writer age_s seconds ago. */
static void leave_behind(const char *folder, const char *name, time_t age_s)
{
    char path[IO_PATH_BYTES_MAX];
    struct err err;
    struct timespec times[2] = {{.tv_sec = time(NULL) - age_s}, {.tv_sec = time(NULL) - age_s}};
    assert_ok(io_join_path(folder, name, path, &err), &err);
    test_write_file(path, "half", 4);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool folder_has(const char *folder, const char *name)
{
    char path[IO_PATH_BYTES_MAX];
    struct stat info;
    assert_ok(io_join_path(folder, name, path, NULL), NULL);
    return stat(path, &info) == 0;
}

static void only_dead_writers_temporaries_are_removed(void **state)
{
    static const char old[] = ".tmp-0123456789abcdef-0-0-0123456789abcdef",
                      young[] = ".tmp-0123456789abcdef-0-0-fedcba9876543210",
                      other[] = ".tmp-of-another-program-0-0-0123456789abcdef";
    enum { HOUR_S = 3600, TARS = 1024 }; /* one open in 16 sweeps */
    struct fixture fixture = *(const struct fixture *)*state;
    char folder[IO_PATH_BYTES_MAX];
    struct plain_tar_index found = {0};
    assert_groups(&fixture, (const char *[]){"a.x", NULL}, "a:x");
    assert_int_equal(index_cache_folder(folder), 0);
    leave_behind(folder, old, 2 * HOUR_S);
    leave_behind(folder, young, HOUR_S / 2);
    leave_behind(folder, other, 2 * HOUR_S);
    for (int i = 0; i < TARS && folder_has(folder, old); i++) {
        snprintf(fixture.path, sizeof fixture.path, "%.900s/%d.tar", fixture.folder, i);
        assert_groups(&fixture, (const char *[]){"a.x", NULL}, "a:x");
        assert_true(tar_fixture_has_index(&fixture, &found));
        plain_tar_index_deinit(&found);
    }
    assert_false(folder_has(folder, old));
    assert_true(folder_has(folder, young));
    assert_true(folder_has(folder, other));
}

static void an_unwritable_cache_is_no_error(void **state)
{
    const struct fixture *fixture = *state;
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    assert_groups(fixture, (const char *[]){"a.x", NULL}, "a:x");
    struct err err;
    static const struct plain_tar_options options = {0};
    assert_true(shard_reindex(fixture->io, fixture->path, &options, &err) < 0);
}

static void optional_checksums_do_not_change_the_fingerprint(void **state)
{
    const struct fixture *fixture = *state;
    static const struct plain_tar_options options = {.with_crcs = true};
    struct err err;
    struct shard *shard;
    struct shard_field field;
    size_t bytes;
    tar_fixture_write(fixture, (const char *[]){"a.x=5", "b.x=200000", "b.y=65536", "c.y=0", NULL});
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    uint32_t identity = shard->identity_crc32c;
    shard_index_field(shard->index, 0, 0, &field);
    assert_true(field.present && !field.has_crc && !field.block_crc32c);
    shard_close(shard);
    assert_ok(shard_reindex(fixture->io, fixture->path, &options, &err), &err);
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    assert_int_equal(shard->identity_crc32c, identity);
    uint8_t *data = test_read_file(fixture->path, &bytes);
    for (uint64_t s = 0; s < 3; s++) {
        for (uint32_t f = 0; f < 2; f++) {
            shard_index_field(shard->index, s, f, &field);
            if (!field.present)
                continue;
            assert_true(field.has_crc);
            assert_int_equal(field.crc32c, crc32c(0, data + field.data_offset, field.size_bytes));
            assert_int_equal(field.block_crc32c != NULL, field.size_bytes > SHARD_BLOCK_BYTES);
            for (uint64_t at = 0; field.block_crc32c && at < field.size_bytes;
                 at += SHARD_BLOCK_BYTES)
                assert_int_equal(bytes_get_u32(field.block_crc32c + at / SHARD_BLOCK_BYTES * 4),
                                 crc32c(0, data + field.data_offset + at,
                                        bytes_min(SHARD_BLOCK_BYTES, field.size_bytes - at)));
        }
    }
    shard_close(shard);
    free(data);
}

static uint64_t count_problems(const struct fixture *fixture)
{
    struct err err;
    struct verify_options options = {0};
    struct verify_result result = {0};
    assert_ok(verify_shard(fixture->io, fixture->path, NULL, &options, &result, &err), &err);
    return result.problems_count;
}

static void verify_checks_optional_checksums(void **state)
{
    const struct fixture *fixture = *state;
    static const struct plain_tar_options options = {.with_crcs = true};
    struct err err;
    size_t bytes;
    tar_fixture_write(fixture, (const char *[]){"b.y", "b.x=100000", "a.x", "c.y=9", NULL});
    assert_int_equal(count_problems(fixture), 0);
    assert_ok(shard_reindex(fixture->io, fixture->path, &options, &err), &err);
    assert_int_equal(count_problems(fixture), 0);
    uint8_t *data = test_read_file(fixture->path, &bytes);
    data[2 * 512 + 512 + 70000] ^= 1; /* within b.x */
    test_write_file(fixture->path, data, bytes);
    free(data);
    forge_identity(fixture);                      /* a disk error leaves the identity unchanged */
    assert_int_equal(count_problems(fixture), 2); /* one for the block, one for the member */
}

static void a_repeated_key_is_a_problem(void **state)
{
    const struct fixture *fixture = *state;
    tar_fixture_write(fixture, (const char *[]){"a.x", "b.x", "a.y", NULL});
    assert_int_equal(count_problems(fixture), 1);
}

static void dali_indexes_reject_names_with_spaces(void **state)
{
    const struct fixture *fixture = *state;
    struct err err;
    struct shard *shard;
    struct str text = {0};
    tar_fixture_write(fixture, (const char *[]){"d/a.jpg=700", "d/a.cls=1", "b.cls=2", NULL});
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    assert_ok(dali_index_encode(shard, &text, &err), &err);
    assert_string_equal(text.data,
                        "v1.2 2\ncls 2048 1 d/a.cls jpg 512 700 d/a.jpg\ncls 3072 2 b.cls\n");
    shard_close(shard);
    tar_fixture_write(fixture, (const char *[]){"a b.jpg", NULL});
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    assert_int_equal(dali_index_encode(shard, &text, &err), -ENOTSUP);
    assert_non_null(strstr(err.found, "a b.jpg"));
    shard_close(shard);
    str_deinit(&text);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, tar_fixture_set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(members_are_grouped_by_convention),
        CASE(names_are_split_as_by_webdataset),
        CASE(a_bad_sample_is_refused_with_its_offset),
        CASE(a_file_that_is_not_a_tar_is_named),
        CASE(the_index_is_kept_until_the_tar_changes),
        CASE(a_different_tar_of_the_same_size_and_time_is_reindexed),
        CASE(a_cache_entry_that_does_not_match_the_tar_is_ignored),
        CASE(a_cache_entry_belongs_to_the_open_tar_not_its_name),
        CASE(a_file_url_names_the_same_entry),
        CASE(a_damaged_or_mismatched_cache_entry_is_ignored),
        CASE(only_dead_writers_temporaries_are_removed),
        CASE(an_unwritable_cache_is_no_error),
        CASE(optional_checksums_do_not_change_the_fingerprint),
        CASE(verify_checks_optional_checksums),
        CASE(a_repeated_key_is_a_problem),
        CASE(dali_indexes_reject_names_with_spaces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
