/*
 * Tars from other tools: samples are grouped as in WebDataset, the index is cached and rebuilt,
 * checksums are computed on request, and damage is reported with its offset.
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
#include "tests/shards/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int set_up(void **state)
{
    struct err err;
    char cache[TEST_PATH_BYTES_MAX];
    fixture_set_up(state, "a.tar");
    const struct fixture *fixture = *state;
    assert_ok(io_join_path(fixture->folder, "cache", cache, &err), &err);
    setenv("XDG_CACHE_HOME", cache, 1);
    return 0;
}

/* Writes a tar of members "name" or "name=size", filled with repetitions of their names. */
static void write_tar(const struct fixture *fixture, const char *const *members)
{
    struct str text = {0};
    struct err err;
    for (; *members; members++) {
        char name[256];
        const char *equals = strchr(*members, '=');
        size_t bytes = equals ? strlen(*members) - strlen(equals) : strlen(*members);
        size_t size = equals ? strtoul(equals + 1, NULL, 10) : 3;
        snprintf(name, sizeof name, "%.*s", (int)bytes, *members);
        assert_ok(tar_add_header(&text, name, size, &err), &err);
        for (size_t i = 0; i < size; i++)
            str_add(&text, &name[i % bytes], 1);
        str_add_fill(&text, 0, bytes_round_up(size, 512) - size);
    }
    str_add_fill(&text, 0, 1024);
    test_write_file(fixture->path, text.data, text.bytes);
    str_deinit(&text);
}

/* Lists the samples of an open shard as "key:ext,ext key:ext". */
static void describe(const struct shard *shard, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint64_t s = 0; s < shard->trailer.samples; s++) {
        uint32_t key_bytes;
        const char *key = shard_index_key(shard->index, s, &key_bytes), *comma = "";
        used += (size_t)snprintf(text + used, bytes - used, "%s%.*s:", s ? " " : "", (int)key_bytes,
                                 key);
        for (uint32_t f = 0; f < shard_index_fields(shard->index); f++) {
            struct shard_field field;
            shard_index_field(shard->index, s, f, &field);
            if (field.present)
                used += (size_t)snprintf(text + used, bytes - used, "%s%s", comma,
                                         shard_index_extension(shard->index, f));
            comma = field.present ? "," : comma;
        }
    }
}

static void assert_groups_as_is(const struct fixture *fixture, const char *wanted)
{
    struct err err;
    struct shard *shard;
    char text[1024];
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    assert_true(shard->is_plain_tar);
    describe(shard, text, sizeof text);
    shard_close(shard);
    assert_string_equal(text, wanted);
}

static void assert_groups(const struct fixture *fixture, const char *const *members,
                          const char *wanted)
{
    write_tar(fixture, members);
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
        write_tar(fixture, cases[i].members);
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

static int load_entry(const struct fixture *fixture, bool accept_partial,
                      struct plain_tar_index *ret_index)
{
    struct index_cache_tar tar = {.io = fixture->io, .path = fixture->path};
    struct err err;
    assert_ok(tar.io->ops->file_open(tar.io, tar.path, &tar.file, &err), &err);
    assert_ok(tar.io->ops->queue_open(tar.io, 1, &tar.queue, &err), &err);
    int status = index_cache_load(&tar, accept_partial, ret_index);
    tar.io->ops->queue_close(tar.queue);
    tar.io->ops->file_close(tar.file);
    return status;
}

static bool entry_is_there(const struct fixture *fixture, struct plain_tar_index *ret_index)
{
    return load_entry(fixture, false, ret_index) == 0;
}

/* Sets the tar's modification time, so that tests need not wait for the clock. */
static void touch(const struct fixture *fixture, time_t when)
{
    struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};
    assert_int_equal(utimensat(AT_FDCWD, fixture->path, times, 0), 0);
}

static void the_index_is_kept_until_the_tar_changes(void **state)
{
    const struct fixture *fixture = *state;
    struct plain_tar_index found = {0};
    assert_groups(fixture, (const char *[]){"a.x", NULL}, "a:x");
    touch(fixture, 1000);
    assert_false(entry_is_there(fixture, &found));
    struct err err;
    struct shard *shard;
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    shard_close(shard);
    assert_true(entry_is_there(fixture, &found));
    assert_int_equal(found.trailer.samples, 1);
    assert_int_equal(found.trailer.flags, SHARD_FLAG_NO_CRCS);
    plain_tar_index_deinit(&found);
    assert_groups(fixture, (const char *[]){"a.x", "b.x", NULL}, "a:x b:x");
    touch(fixture, 1000); /* the same time, a different size */
    assert_false(entry_is_there(fixture, &found));
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
    write_tar(fixture, (const char *[]){"a.x", "b.x", NULL});
    touch(fixture, 1000);
    assert_groups_as_is(fixture, "a:x b:x");
    assert_true(entry_is_there(fixture, &found));
    plain_tar_index_deinit(&found);
    write_tar(fixture, (const char *[]){"c.x", "d.x", NULL});
    touch(fixture, 1000);
    assert_false(entry_is_there(fixture, &found));
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
        assert_true(entry_is_there(fixture, &found)); /* still the same tar */
        plain_tar_index_deinit(&found);
        write_tar(fixture, others[i]);
        forge_identity(fixture);
        assert_false(entry_is_there(fixture, &found));
    }
    /* no samples and no members to compare */
    assert_groups(fixture, (const char *[]){"nothing", NULL}, "");
    assert_true(entry_is_there(fixture, &found));
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
    write_tar(fixture, (const char *[]){"a.x", NULL});
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
    write_tar(fixture, (const char *[]){"a.x", NULL});
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
        if (entry_is_there(fixture, &found)) {
            /* only the unused zeros after the path may change */
            assert_true(at >= 256 && bytes > 256);
            plain_tar_index_deinit(&found);
        }
        entry[at] ^= (uint8_t)(1u << at % 8);
    }
    for (size_t kept = 0; kept < bytes; kept++) {
        test_write_file(path, entry, kept);
        assert_false(entry_is_there(fixture, &found));
    }
    free(entry);
    struct shard *shard;
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err); /* rebuilds the index */
    assert_int_equal(shard->trailer.samples, 2);
    shard_close(shard);
    assert_true(entry_is_there(fixture, &found));
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

static bool is_in(const char *folder, const char *name)
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
    for (int i = 0; i < TARS && is_in(folder, old); i++) {
        snprintf(fixture.path, sizeof fixture.path, "%.900s/%d.tar", fixture.folder, i);
        assert_groups(&fixture, (const char *[]){"a.x", NULL}, "a:x");
        assert_true(entry_is_there(&fixture, &found));
        plain_tar_index_deinit(&found);
    }
    assert_false(is_in(folder, old));
    assert_true(is_in(folder, young));
    assert_true(is_in(folder, other));
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

static void checksums_are_optional_and_do_not_change_the_fingerprint(void **state)
{
    const struct fixture *fixture = *state;
    static const struct plain_tar_options options = {.crcs = true};
    struct err err;
    struct shard *shard;
    struct shard_field field;
    size_t bytes;
    write_tar(fixture, (const char *[]){"a.x=5", "b.x=200000", "b.y=65536", "c.y=0", NULL});
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
    static const struct plain_tar_options options = {.crcs = true};
    struct err err;
    size_t bytes;
    write_tar(fixture, (const char *[]){"b.y", "b.x=100000", "a.x", "c.y=9", NULL});
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
    write_tar(fixture, (const char *[]){"a.x", "b.x", "a.y", NULL});
    assert_int_equal(count_problems(fixture), 1);
}

static void dali_indexes_reject_names_with_spaces(void **state)
{
    const struct fixture *fixture = *state;
    struct err err;
    struct shard *shard;
    struct str text = {0};
    write_tar(fixture, (const char *[]){"d/a.jpg=700", "d/a.cls=1", "b.cls=2", NULL});
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    assert_ok(dali_index_encode(shard, &text, &err), &err);
    assert_string_equal(text.data,
                        "v1.2 2\ncls 2048 1 d/a.cls jpg 512 700 d/a.jpg\ncls 3072 2 b.cls\n");
    shard_close(shard);
    write_tar(fixture, (const char *[]){"a b.jpg", NULL});
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    assert_int_equal(dali_index_encode(shard, &text, &err), -ENOTSUP);
    assert_non_null(strstr(err.found, "a b.jpg"));
    shard_close(shard);
    str_deinit(&text);
}

/* Collects the reports of what is left out of a damaged tar. */
struct reported {
    unsigned count;
    struct err last;
};

static void record(void *context, const struct err *what)
{
    struct reported *reported = context;
    reported->count++;
    reported->last = *what;
}

/* Lists the complete samples of the tar and collects reports of what was left out. */
static void salvage(const struct fixture *fixture, struct reported *reported, bool *ret_partial,
                    char *text, size_t bytes)
{
    struct err err;
    struct shard *shard;
    *reported = (struct reported){0};
    const struct salvage salvage = {.on_skip = record, .context = reported};
    assert_ok(shard_open_salvaging(fixture->io, fixture->path, &salvage, &shard, &err), &err);
    *ret_partial = shard->is_partial;
    describe(shard, text, bytes);
    shard_close(shard);
}

static int open_strictly(const struct fixture *fixture, struct err *err)
{
    struct shard *shard = NULL;
    int status = shard_open(fixture->io, fixture->path, &shard, err);
    shard_close(shard);
    return status;
}

static void cut(const struct fixture *fixture, uint64_t bytes)
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
        struct reported reported;
        struct err err;
        char text[64];
        bool is_partial;
        write_tar(fixture, (const char *[]){"a.x", "a.y", "b.x=1400", "b.y=900", "c.x", NULL});
        cut(fixture, cases[i].bytes);
        assert_int_equal(open_strictly(fixture, &err), -EBADMSG);
        assert_int_equal(err.offset, cases[i].offset);
        salvage(fixture, &reported, &is_partial, text, sizeof text);
        assert_string_equal(text, cases[i].wanted);
        assert_true(is_partial);
        assert_int_equal(reported.count, 1);
        assert_int_equal(reported.last.offset, cases[i].offset);
        assert_string_equal(reported.last.path, fixture->path);
        assert_non_null(strstr(reported.last.advice, "left out"));
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
        struct reported reported;
        struct err err;
        char text[64];
        bool is_partial;
        unsigned whole = 0;
        for (unsigned i = 0; i < 3; i++)
            whole += bytes >= samples[i].data_end &&
                     (bytes <= samples[i].next || bytes >= samples[i].next + 512);
        write_tar(fixture, (const char *[]){"a.x=700", "b.x=5", "c.x=1500", NULL});
        cut(fixture, bytes);
        salvage(fixture, &reported, &is_partial, text, sizeof text);
        assert_string_equal(text, wanted[whole]);
        assert_int_equal(open_strictly(fixture, &err), is_partial ? -EBADMSG : 0);
        assert_int_equal(reported.count, is_partial);
    }
}

static void the_first_of_duplicate_members_is_used(void **state)
{
    const struct fixture *fixture = *state;
    struct reported reported;
    struct err err;
    struct shard *shard;
    struct shard_field field;
    char text[64];
    bool is_partial;
    write_tar(fixture,
              (const char *[]){"a.x=5", "a.y", "a.X=900", "a.x", "b.x", "c\n.x", "c.x", NULL});
    assert_int_equal(open_strictly(fixture, &err), -EBADMSG);
    salvage(fixture, &reported, &is_partial, text, sizeof text);
    assert_string_equal(text, "a:x,y b:x c:x");
    assert_true(is_partial);
    assert_int_equal(reported.count, 3); /* two duplicates of a.x, and an invalid name */
    const struct salvage silently = {0};
    assert_ok(shard_open_salvaging(fixture->io, fixture->path, &silently, &shard, &err), &err);
    shard_index_field(shard->index, 0, 0, &field);
    assert_int_equal(field.data_offset, 512);
    assert_int_equal(field.size_bytes, 5);
    shard_close(shard);
}

static void salvaging_an_intact_tar_changes_nothing(void **state)
{
    const struct fixture *fixture = *state;
    const struct salvage silently = {0};
    struct err err;
    struct shard *strict, *salvaged;
    struct plain_tar_index kept = {0};
    write_tar(fixture, (const char *[]){"a.x", "a.y", "b.x=70000", "a.x", NULL});
    assert_ok(shard_open_salvaging(fixture->io, fixture->path, &silently, &salvaged, &err), &err);
    assert_true(entry_is_there(fixture, &kept)); /* cached for later callers */
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
    const struct salvage silently = {0};
    struct reported reported;
    struct err err;
    struct shard *shard;
    struct plain_tar_index kept = {0};
    char text[64];
    bool is_partial;
    write_tar(fixture, (const char *[]){"a.x", "b.x=2000", NULL});
    cut(fixture, 2000);
    touch(fixture, 1000);
    salvage(fixture, &reported, &is_partial, text, sizeof text);
    uint32_t identity = 0;
    for (int i = 0; i < 2; i++) {
        assert_false(entry_is_there(fixture, &kept));
        assert_int_equal(open_strictly(fixture, &err), -EBADMSG);
        assert_int_equal(err.offset, 1536);
        assert_int_equal(load_entry(fixture, true, &kept), 0);
        assert_true(kept.is_partial);
        identity = kept.identity_crc32c;
        plain_tar_index_deinit(&kept);
        salvage(fixture, &reported, &is_partial, text, sizeof text); /* the report is repeated */
        assert_int_equal(reported.count, 1);
    }
    assert_ok(shard_open_salvaging(fixture->io, fixture->path, &silently, &shard, &err), &err);
    assert_true(shard->is_partial);
    assert_int_equal(shard->identity_crc32c, identity);
    shard_close(shard);
    write_tar(fixture, (const char *[]){"a.x", "b.x=2000", NULL});
    touch(fixture, 1000); /* repaired, with the old time */
    salvage(fixture, &reported, &is_partial, text, sizeof text);
    assert_string_equal(text, "a:x b:x");
    assert_false(is_partial);
    assert_true(entry_is_there(fixture, &kept));
    assert_int_not_equal(kept.identity_crc32c, identity);
    plain_tar_index_deinit(&kept);
}

static void salvaging_obeys_limits(void **state)
{
    const struct fixture *fixture = *state;
    const struct salvage silently = {0};
    struct err err;
    struct shard *shard;
    char names[SHARD_FIELDS_MAX + 1][16];
    const char *members[SHARD_FIELDS_MAX + 2] = {0};
    for (int i = 0; i <= SHARD_FIELDS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "a.x%d", i);
        members[i] = names[i];
    }
    write_tar(fixture, members);
    assert_int_equal(shard_open_salvaging(fixture->io, fixture->path, &silently, &shard, &err),
                     -EBADMSG);
    assert_non_null(strstr(err.what, "too many"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, fixture_tear_down)

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
        CASE(checksums_are_optional_and_do_not_change_the_fingerprint),
        CASE(verify_checks_optional_checksums),
        CASE(a_repeated_key_is_a_problem),
        CASE(dali_indexes_reject_names_with_spaces),
        CASE(a_truncated_tars_samples_before_the_truncation_are_complete),
        CASE(every_truncation_keeps_the_samples_before_it),
        CASE(the_first_of_duplicate_members_is_used),
        CASE(salvaging_an_intact_tar_changes_nothing),
        CASE(an_index_of_a_damaged_tar_is_never_used_for_an_intact_one),
        CASE(salvaging_obeys_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
