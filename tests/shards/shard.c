/*
 * Tests that millrace and other tools can read the shards it writes, and that a shard with an
 * invalid tail is rejected.
 */
#include "shards/format/shard.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/hash.h"
#include "io/file_util.h"
#include "tests/shards/fixture.h"
#include "tests/shards/make_shard.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int set_up(void **state)
{
    return fixture_set_up(state, "shard-000000.tar");
}

/* Checks the bytes of a field at the location given by the index. */
static void check_field(const struct shard *shard, const uint8_t *file, size_t s, size_t f,
                        const struct make_shard_sample *sample)
{
    struct shard_field field;
    int number = shard_index_find(shard->index, sample->fields[f].extension);
    assert_true(number >= 0);
    shard_index_field(shard->index, s, (uint32_t)number, &field);
    size_t bytes = sample->fields[f].bytes;
    uint8_t *data = make_shard_data(s, f, bytes);
    assert_true(field.present);
    assert_int_equal(field.size_bytes, bytes);
    assert_memory_equal(file + field.data_offset, data, bytes);
    assert_int_equal(field.crc32c, crc32c(0, data, bytes));
    assert_int_equal(field.block_crc32c != NULL, bytes > SHARD_BLOCK_BYTES);
    for (size_t at = 0; field.block_crc32c && at < bytes; at += SHARD_BLOCK_BYTES)
        assert_int_equal(bytes_get_u32(field.block_crc32c + at / SHARD_BLOCK_BYTES * 4),
                         crc32c(0, data + at, bytes_min(SHARD_BLOCK_BYTES, bytes - at)));
    free(data);
}

static void a_written_shard_reads_back_the_same(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    struct shard *shard;
    struct shard_summary summary =
        make_shard(fixture->io, fixture->path, make_shard_variety, make_shard_variety_count);
    size_t bytes, count_fields = 0;
    uint8_t *file = test_read_file(fixture->path, &bytes);
    assert_int_equal(summary.file_bytes, bytes);
    assert_true(summary.xxh3 == hash_64(file, bytes));
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    assert_int_equal(shard_index_samples(shard->index), make_shard_variety_count);
    assert_int_equal(shard_index_fields(shard->index), 3);
    assert_int_equal(summary.index_crc32c, shard->trailer.index_crc32c);
    assert_int_equal(shard_index_find(shard->index, "png"), -1);
    for (size_t s = 0; s < make_shard_variety_count; s++) {
        const struct make_shard_sample *sample = &make_shard_variety[s];
        uint32_t key_bytes;
        const char *key = shard_index_key(shard->index, s, &key_bytes);
        assert_int_equal(key_bytes, strlen(sample->key));
        assert_memory_equal(key, sample->key, key_bytes);
        for (size_t f = 0; f < MAKE_SHARD_FIELDS_MAX && sample->fields[f].extension; f++)
            check_field(shard, file, s, f, sample);
        for (uint32_t f = 0; f < 3; f++) {
            struct shard_field field;
            shard_index_field(shard->index, s, f, &field);
            count_fields += field.present;
        }
    }
    assert_int_equal(count_fields, 14);
    shard_close(shard);
    free(file);
}

static void block_crcs_are_found_among_many_samples(void **state)
{
    struct fixture *fixture = *state;
    enum { SAMPLES = 300 };
    struct make_shard_sample *samples = calloc(SAMPLES, sizeof *samples);
    char(*keys)[16] = calloc(SAMPLES, sizeof *keys);
    for (size_t s = 0; s < SAMPLES; s++) {
        snprintf(keys[s], sizeof keys[s], "%06zu", s);
        samples[s].key = keys[s];
        samples[s].fields[0].extension = "a";
        samples[s].fields[0].bytes = s % 3 ? 10 : SHARD_BLOCK_BYTES * (s % 5) + 3;
        samples[s].fields[1].extension = "b";
        samples[s].fields[1].bytes = s % 7 ? 0 : SHARD_BLOCK_BYTES + s;
    }
    make_shard(fixture->io, fixture->path, samples, SAMPLES);
    struct err err;
    struct shard *shard;
    size_t bytes;
    uint8_t *file = test_read_file(fixture->path, &bytes);
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    for (size_t s = 0; s < SAMPLES; s++)
        for (size_t f = 0; f < 2; f++)
            check_field(shard, file, s, f, &samples[s]);
    shard_close(shard);
    free(file);
    free(keys);
    free(samples);
}

/* Checks that a reader printed the names in make_shard_variety, one per line. */
static void check_listing(const char *listing)
{
    const char *at = listing;
    for (size_t s = 0; s < make_shard_variety_count; s++) {
        const struct make_shard_sample *sample = &make_shard_variety[s];
        for (size_t f = 0; f < MAKE_SHARD_FIELDS_MAX && sample->fields[f].extension; f++) {
            char name[1024];
            size_t bytes = (size_t)snprintf(name, sizeof name, "%s.%s\n", sample->key,
                                            sample->fields[f].extension);
            assert_int_equal(strncmp(at, name, bytes), 0);
            at += bytes;
        }
    }
    assert_string_equal(at, "");
}

static void gnu_tar_lists_shards_without_warnings(void **state)
{
    struct fixture *fixture = *state;
    static char text[1 << 16];
    make_shard(fixture->io, fixture->path, make_shard_variety, make_shard_variety_count);
    assert_int_equal(test_run_output(text, sizeof text, "tar --quoting-style=literal -tf '%s' 2>&1",
                                     fixture->path),
                     0);
    check_listing(text);
    assert_int_equal(
        test_run_output(text, sizeof text, "tar tvf '%s' 2>&1 >/dev/null", fixture->path), 0);
    assert_string_equal(text, "");
}

static void bsdtar_lists_shards_without_warnings(void **state)
{
    struct fixture *fixture = *state;
    static char text[1 << 16];
    if (test_run("command -v bsdtar >/dev/null"))
        test_skip("no bsdtar here (scripts/set_up --oracles)");
    make_shard(fixture->io, fixture->path, make_shard_variety, make_shard_variety_count);
    assert_int_equal(
        test_run_output(text, sizeof text, "LC_ALL=C.UTF-8 bsdtar -tf '%s' 2>&1", fixture->path),
        0);
    check_listing(text);
}

static void python_tarfile_lists_shards_without_warnings(void **state)
{
    struct fixture *fixture = *state;
    static char text[1 << 16];
    const char *python = test_need_python("tarfile");
    make_shard(fixture->io, fixture->path, make_shard_variety, make_shard_variety_count);
    assert_int_equal(
        test_run_output(text, sizeof text,
                        "'%s' -c 'import sys, tarfile\n"
                        "for m in tarfile.open(sys.argv[1]): sys.stdout.buffer.write((m.name + "
                        "\"\\n\").encode())' '%s' 2>&1",
                        python, fixture->path),
        0);
    check_listing(text);
}

static void gnu_tar_extracts_the_same_bytes(void **state)
{
    struct fixture *fixture = *state;
    make_shard(fixture->io, fixture->path, make_shard_variety, make_shard_variety_count);
    assert_int_equal(test_run("mkdir '%s/x' && tar -C '%s/x' -xf '%s'", fixture->folder,
                              fixture->folder, fixture->path),
                     0);
    for (size_t s = 0; s < make_shard_variety_count; s++) {
        const struct make_shard_sample *sample = &make_shard_variety[s];
        for (size_t f = 0; f < MAKE_SHARD_FIELDS_MAX && sample->fields[f].extension; f++) {
            char path[2048];
            snprintf(path, sizeof path, "%s/x/%s.%s", fixture->folder, sample->key,
                     sample->fields[f].extension);
            size_t bytes;
            uint8_t *found = test_read_file(path, &bytes);
            uint8_t *wanted = make_shard_data(s, f, sample->fields[f].bytes);
            assert_int_equal(bytes, sample->fields[f].bytes);
            assert_memory_equal(found, wanted, bytes);
            free(wanted);
            free(found);
        }
    }
}

static void webdataset_groups_samples_the_same_way(void **state)
{
    struct fixture *fixture = *state;
    const char *python = test_need_python("webdataset");
    static char text[1 << 16];
    make_shard(fixture->io, fixture->path, make_shard_variety, make_shard_variety_count);
    assert_int_equal(
        test_run_output(
            text, sizeof text,
            "'%s' -c 'import sys, webdataset\n"
            "for s in webdataset.WebDataset(sys.argv[1], shardshuffle=False):\n"
            "  for k in sorted(k for k in s if not k.startswith(\"__\")): "
            "sys.stdout.buffer.write((s[\"__key__\"] + \".\" + k + \"\\n\").encode())' '%s' 2>&1",
            python, fixture->path),
        0);
    check_listing(text);
}

static void a_python_reader_written_from_the_docs_reads_shards(void **state)
{
    struct fixture *fixture = *state;
    const char *python = test_need_python("struct");
    static char text[1 << 16], wanted[1 << 16];
    size_t used = 0;
    make_shard(fixture->io, fixture->path, make_shard_variety, make_shard_variety_count);
    for (size_t s = 0; s < make_shard_variety_count; s++) {
        const struct make_shard_sample *sample = &make_shard_variety[s];
        for (size_t f = 0; f < MAKE_SHARD_FIELDS_MAX && sample->fields[f].extension; f++)
            used +=
                (size_t)snprintf(wanted + used, sizeof wanted - used, "%s.%s\t%zu\n", sample->key,
                                 sample->fields[f].extension, sample->fields[f].bytes);
    }
    assert_int_equal(test_run_output(text, sizeof text, "'%s' '%s' '%s' 2>&1", python,
                                     TEST_SOURCE_DIR "/tests/shards/read_shard.py", fixture->path),
                     0);
    assert_string_equal(text, wanted);
}

/* Makes pictures with rows in the index, a small one, and a sample without a picture. */
static void make_pictures(const struct fixture *fixture)
{
    static const struct {
        const char *key, *header;
        uint32_t width, height;
    } pictures[] = {{"a", "P6\n300 100\n255\n", 300, 100},
                    {"b", "P6 # of b\n211\n333 255\n", 211, 333}};
    struct shard_writer *writer;
    struct shard_summary summary;
    struct err err;
    assert_ok(shard_writer_open(fixture->io, fixture->path, false, &writer, &err), &err);
    for (size_t i = 0; i < 2; i++) {
        struct str file = {0};
        struct shard_raw_image picture = {pictures[i].width, (uint32_t)strlen(pictures[i].header)};
        str_add(&file, pictures[i].header, picture.pixels_offset);
        str_add_fill(&file, 7, 3 * (size_t)pictures[i].width * pictures[i].height);
        assert_ok(shard_writer_begin_sample(writer, pictures[i].key, &err), &err);
        assert_ok(shard_writer_add_field(writer, "cls", "1", 1, &err), &err);
        assert_ok(shard_writer_add_raw_image(writer, "ppm", file.data, file.bytes, picture, &err),
                  &err);
        str_deinit(&file);
    }
    assert_ok(shard_writer_begin_sample(writer, "c", &err), &err);
    assert_ok(shard_writer_add_field(writer, "cls", "1", 1, &err), &err);
    assert_ok(shard_writer_add_field(writer, "ppm", "P6\n1 1\n255\nrgb", 14, &err), &err);
    assert_ok(shard_writer_begin_sample(writer, "d", &err), &err);
    assert_ok(shard_writer_add_field(writer, "cls", "1", 1, &err), &err);
    assert_ok(shard_writer_commit(writer, &summary, &err), &err);
}

static void raw_image_rows_are_found(void **state)
{
    struct fixture *fixture = *state;
    static const struct shard_raw_image wanted[] = {{300, 15}, {211, 22}, {0, 0}, {0, 0}};
    struct shard *shard;
    struct shard_field field;
    struct err err;
    make_pictures(fixture);
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    assert_int_equal(shard->trailer.flags, SHARD_FLAG_RAW_IMAGES);
    for (uint64_t s = 0; s < 4; s++) {
        shard_index_field(shard->index, s, 1, &field);
        assert_memory_equal(&field.picture, &wanted[s], sizeof wanted[s]);
        shard_index_field(shard->index, s, 0, &field);
        assert_int_equal(field.picture.width, 0);
    }
    shard_close(shard);
}

static void a_python_reader_written_from_the_docs_reads_image_rows(void **state)
{
    struct fixture *fixture = *state;
    const char *python = test_need_python("struct");
    char text[256];
    make_pictures(fixture);
    assert_int_equal(test_run_output(text, sizeof text, "'%s' '%s' '%s' 2>&1", python,
                                     TEST_SOURCE_DIR "/tests/shards/read_shard.py", fixture->path),
                     0);
    assert_string_equal(
        text, "a.cls\t1\na.ppm\t90015\nb.cls\t1\nb.ppm\t210811\nc.cls\t1\nc.ppm\t14\nd.cls\t1\n");
}

/* The result is an ordinary tar: complete, but without our index. */
static void an_append_by_tar_invalidates_the_index(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    struct shard *shard;
    uint32_t bytes;
    struct shard_summary summary =
        make_shard(fixture->io, fixture->path, make_shard_variety, make_shard_variety_count);
    assert_int_equal(
        test_run("cd '%s' && echo hello >hello.txt && tar -rf shard-000000.tar hello.txt",
                 fixture->folder),
        0);
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    assert_true(shard->is_plain_tar);
    assert_true(shard->identity_crc32c != summary.index_crc32c);
    assert_int_equal(shard->trailer.samples, make_shard_variety_count + 1);
    const char *key = shard_index_key(shard->index, make_shard_variety_count, &bytes);
    assert_int_equal(bytes, 5);
    assert_memory_equal(key, "hello", 5);
    shard_close(shard);
}

/* Members are never lost silently: a truncated file that opens is a plain tar with all its
 * members. */
static void every_truncation_is_detected(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    struct shard *shard;
    char cut[TEST_PATH_BYTES_MAX];
    size_t bytes, opened = 0;
    make_shard(fixture->io, fixture->path, make_shard_variety, 2);
    uint8_t *file = test_read_file(fixture->path, &bytes);
    assert_ok(io_join_path(fixture->folder, "cut.tar", cut, &err), &err);
    for (size_t kept = 0; kept < bytes; kept += kept + 1100 < bytes ? 97 : 1) {
        test_write_file(cut, file, kept);
        int status = shard_open(fixture->io, cut, &shard, &err);
        if (status) {
            assert_int_equal(status, -EBADMSG);
            assert_true(err.offset >= 0);
            continue;
        }
        opened++;
        assert_true(shard->is_plain_tar);
        /* otherwise it was cut exactly between two members, which verify detects */
        if (shard->trailer.archive_end < kept)
            assert_int_equal(shard->trailer.samples, 2);
        shard_close(shard);
    }
    /* cut within the zeros after the members, before the index can be recognized */
    assert_in_range(opened, 1, 600);
    free(file);
}

/* Covers the index, the padding of the trailer, and the trailer itself; other padding is not
 * checked. */
static void every_flipped_byte_of_index_and_trailer_is_detected(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    struct shard *shard;
    char flipped[TEST_PATH_BYTES_MAX];
    size_t bytes;
    make_shard(fixture->io, fixture->path, make_shard_variety, 3);
    uint8_t *file = test_read_file(fixture->path, &bytes);
    assert_ok(io_join_path(fixture->folder, "flipped.tar", flipped, &err), &err);
    struct shard_trailer trailer;
    assert_ok(shard_trailer_decode(file + bytes - SHARD_TRAILER_BYTES, bytes, "x", &trailer, &err),
              &err);
    for (size_t at = trailer.index_offset; at < bytes; at++) {
        if (at >= trailer.index_offset + trailer.index_bytes && at < bytes - SHARD_TRAILER_BYTES)
            continue;
        file[at] ^= (uint8_t)(1u << at % 8);
        test_write_file(flipped, file, bytes);
        assert_int_equal(shard_open(fixture->io, flipped, &shard, &err), -EBADMSG);
        assert_true(err.offset >= (int64_t)trailer.index_offset && err.offset < (int64_t)bytes);
        file[at] ^= (uint8_t)(1u << at % 8);
    }
    free(file);
}

/* Forged data with correct CRCs: decoding must refuse it or return something consistent, and never
 * read out of bounds. */
static void forge_index(const struct fixture *fixture)
{
    struct err err;
    size_t bytes, refused = 0, accepted = 0;
    uint8_t *file = test_read_file(fixture->path, &bytes);
    struct shard_trailer trailer;
    assert_ok(shard_trailer_decode(file + bytes - SHARD_TRAILER_BYTES, bytes, "x", &trailer, &err),
              &err);
    uint8_t *index_bytes = malloc(trailer.index_bytes);
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    for (size_t at = 0; at < trailer.index_bytes; at++) {
        for (size_t v = 0; v < sizeof values; v++) {
            struct shard_index *index;
            memcpy(index_bytes, file + trailer.index_offset, trailer.index_bytes);
            index_bytes[at] = values[v];
            trailer.index_crc32c = crc32c(0, index_bytes, trailer.index_bytes);
            int status =
                shard_index_decode(index_bytes, trailer.index_bytes, &trailer, "x", &index, &err);
            if (status) {
                assert_int_equal(status, -EBADMSG);
                refused++;
                continue;
            }
            accepted++;
            for (uint64_t i = 0; i < shard_index_numbers(index) * shard_index_samples(index); i++)
                assert_false(isinf(shard_index_number(index, i / shard_index_numbers(index),
                                                      (uint32_t)(i % shard_index_numbers(index)))));
            for (uint64_t s = 0; s < shard_index_samples(index); s++) {
                for (uint32_t f = 0; f < shard_index_fields(index); f++) {
                    struct shard_field field;
                    shard_index_field(index, s, f, &field);
                    assert_true(field.data_offset + field.size_bytes <= trailer.archive_end);
                    assert_true(field.picture.pixels_offset <= field.size_bytes);
                }
            }
            shard_index_close(index);
        }
    }
    assert_true(refused > 0 && accepted > 0); /* flips in stored CRCs are accepted */
    free(index_bytes);
    free(file);
}

static void a_forged_index_causes_no_reads_out_of_bounds(void **state)
{
    struct fixture *fixture = *state;
    make_shard(fixture->io, fixture->path, make_shard_variety, 3);
    forge_index(fixture);
}

static void forged_image_rows_cause_no_reads_out_of_bounds(void **state)
{
    make_pictures(*state);
    forge_index(*state);
}

/* The second of three samples has both numbers. */
static void make_numbers(const struct fixture *fixture)
{
    struct shard_writer *writer;
    struct shard_summary summary;
    struct err err;
    assert_ok(shard_writer_open(fixture->io, fixture->path, false, &writer, &err), &err);
    for (int i = 0; i < 3; i++) {
        char key[2] = {(char)('a' + i), 0};
        assert_ok(shard_writer_begin_sample(writer, key, &err), &err);
        assert_ok(shard_writer_add_field(writer, "cls", key, 1, &err), &err);
        if (i == 1)
            assert_ok(shard_writer_add_number(writer, "score", -0.1, &err), &err);
        if (i != 2)
            assert_ok(shard_writer_add_number(writer, "label", i ? 1e300 : NAN, &err), &err);
    }
    assert_ok(shard_writer_commit(writer, &summary, &err), &err);
}

static void numbers_are_found(void **state)
{
    struct fixture *fixture = *state;
    struct shard *shard;
    struct err err;
    make_numbers(fixture);
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    const struct shard_index *index = shard->index;
    assert_int_equal(shard->trailer.flags, SHARD_FLAG_NUMBERS);
    assert_int_equal(shard_index_numbers(index), 2);
    assert_string_equal(shard_index_number_name(index, 0), "label");
    assert_int_equal(shard_index_find_number(index, "score"), 1);
    assert_int_equal(shard_index_find_number(index, "scor"), -1);
    for (uint64_t s = 0; s < 3; s++) {
        double label = shard_index_number(index, s, 0), score = shard_index_number(index, s, 1);
        assert_true(s == 1 ? label == 1e300 && score == -0.1 : isnan(label) && isnan(score));
    }
    shard_close(shard);
}

static void a_python_reader_written_from_the_docs_reads_numbers(void **state)
{
    struct fixture *fixture = *state;
    const char *python = test_need_python("struct");
    char text[256];
    make_numbers(fixture);
    assert_int_equal(test_run_output(text, sizeof text, "'%s' '%s' '%s' 2>&1", python,
                                     TEST_SOURCE_DIR "/tests/shards/read_shard.py", fixture->path),
                     0);
    assert_string_equal(text, "a.cls\t1\na label=nan\na score=nan\n"
                              "b.cls\t1\nb label=1e+300\nb score=-0.1\n"
                              "c.cls\t1\nc label=nan\nc score=nan\n");
}

static void forged_numbers_cause_no_reads_out_of_bounds(void **state)
{
    make_numbers(*state);
    forge_index(*state);
}

static void invalid_numbers_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const char *const names[] = {"", "0a", "a-b", "a b", "\xc3\xa9"};
    struct shard_writer *writer;
    struct err err;
    char name[SHARD_NUMBER_NAME_BYTES_MAX + 1];
    assert_ok(shard_writer_open(fixture->io, fixture->path, false, &writer, &err), &err);
    assert_ok(shard_writer_begin_sample(writer, "a", &err), &err);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(shard_writer_add_number(writer, names[i], 1, &err), -EINVAL);
    memset(name, 'x', SHARD_NUMBER_NAME_BYTES_MAX);
    name[SHARD_NUMBER_NAME_BYTES_MAX] = '\0';
    assert_int_equal(shard_writer_add_number(writer, name, 1, &err), -EINVAL);
    for (int i = 0; i < SHARD_NUMBERS_MAX; i++) {
        sprintf(name, "x%d", i);
        assert_ok(shard_writer_add_number(writer, name, i, &err), &err);
    }
    assert_int_equal(shard_writer_add_number(writer, "y", 1, &err), -E2BIG);
    shard_writer_abort(writer);
}

static void the_writer_refuses_what_readers_would_misread(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    struct shard_writer *writer;
    static const char *const bad_keys[] = {"", "/a", "a.b", "a/", "a/b.c", "a\nb"};
    static const char *const bad_extensions[] = {"", "JPG", "a/b", "a b"};
    assert_ok(shard_writer_open(fixture->io, fixture->path, false, &writer, &err), &err);
    for (size_t i = 0; i < sizeof bad_keys / sizeof bad_keys[0]; i++)
        assert_int_equal(shard_writer_begin_sample(writer, bad_keys[i], &err), -EINVAL);
    assert_ok(shard_writer_begin_sample(writer, "a", &err), &err);
    for (size_t i = 0; i < sizeof bad_extensions / sizeof bad_extensions[0]; i++)
        assert_int_equal(shard_writer_add_field(writer, bad_extensions[i], "x", 1, &err), -EINVAL);
    assert_ok(shard_writer_add_field(writer, "jpg", "x", 1, &err), &err);
    assert_int_equal(shard_writer_add_field(writer, "jpg", "x", 1, &err), -EEXIST);
    assert_int_equal(shard_writer_add_field(writer, "cls", "x", 1, &err), -EINVAL);
    shard_writer_abort(writer);
    assert_int_equal(test_run("test -z \"$(ls -A '%s')\"", fixture->folder), 0);
}

static void a_shard_without_samples_opens(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    struct shard *shard;
    struct shard_summary summary = make_shard(fixture->io, fixture->path, NULL, 0);
    assert_int_equal(summary.samples, 0);
    assert_ok(shard_open(fixture->io, fixture->path, &shard, &err), &err);
    assert_int_equal(shard_index_samples(shard->index), 0);
    shard_close(shard);
}

static void an_existing_shard_is_replaced_only_on_request(void **state)
{
    struct fixture *fixture = *state;
    struct err err;
    struct shard_writer *writer = NULL;
    make_shard(fixture->io, fixture->path, make_shard_variety, 1);
    assert_int_equal(shard_writer_open(fixture->io, fixture->path, false, &writer, &err), -EEXIST);
    assert_ok(shard_writer_open(fixture->io, fixture->path, true, &writer, &err), &err);
    struct shard_summary summary;
    assert_ok(shard_writer_commit(writer, &summary, &err), &err);
    assert_int_equal(summary.samples, 0);
}

static void an_index_of_many_samples_stays_small(void **state)
{
    (void)state;
    struct err err;
    struct shard_index_builder *builder;
    struct shard_index *index;
    uint64_t samples = test_is_sanitized() ? 10000 : 100000;
    assert_ok(shard_index_builder_open(&builder, &err), &err);
    for (uint64_t s = 0; s < samples; s++) {
        char key[32];
        snprintf(key, sizeof key, "class/%08u", (unsigned)s);
        assert_ok(shard_index_builder_begin_sample(builder, key, &err), &err);
        assert_ok(
            shard_index_builder_add_field(builder, "cls", (s * 4 + 1) * 512, "1", 1, NULL, &err),
            &err);
        assert_ok(
            shard_index_builder_add_field(builder, "jpg", (s * 4 + 3) * 512, "2", 1, NULL, &err),
            &err);
    }
    struct str bytes = {0};
    struct shard_trailer trailer = {
        .version = SHARD_VERSION, .samples = samples, .archive_end = samples * 2048};
    assert_ok(shard_index_builder_encode(builder, true, &bytes, &trailer.fields, &err), &err);
    shard_index_builder_close(builder);
    assert_true(bytes.bytes < samples * 48); /* 14 for the key, 4, 2 x 12 for the fields */
    trailer.index_offset = trailer.archive_end + 1024;
    trailer.index_bytes = bytes.bytes;
    trailer.index_crc32c = crc32c(0, bytes.data, bytes.bytes);
    assert_ok(shard_index_decode((uint8_t *)bytes.data, bytes.bytes, &trailer, "x", &index, &err),
              &err);
    struct shard_field field;
    shard_index_field(index, samples - 1, 1, &field);
    assert_int_equal(field.data_offset, ((samples - 1) * 4 + 3) * 512);
    shard_index_close(index);
    str_deinit(&bytes);
}

/* Checks that the fixture's file equals a golden one, which can be opened. */
static void check_golden(const struct fixture *fixture, const char *golden_path, uint64_t samples)
{
    struct err err;
    struct shard *shard;
    size_t bytes, golden_bytes;
    uint8_t *file = test_read_file(fixture->path, &bytes);
    uint8_t *golden = test_read_file(golden_path, &golden_bytes);
    assert_int_equal(bytes, golden_bytes);
    assert_memory_equal(file, golden, bytes);
    free(golden);
    free(file);
    assert_ok(shard_open(fixture->io, golden_path, &shard, &err), &err);
    assert_int_equal(shard_index_samples(shard->index), samples);
    shard_close(shard);
}

/* The format is fixed: the output equals, byte for byte, the output when version 1 was defined. */
static void the_golden_shard_is_reproduced(void **state)
{
    struct fixture *fixture = *state;
    make_shard(fixture->io, fixture->path, make_shard_variety, 2);
    check_golden(fixture, TEST_SOURCE_DIR "/tests/shards/golden/two-samples.tar", 2);
}

static void the_golden_shard_with_numbers_is_reproduced(void **state)
{
    make_numbers(*state);
    check_golden(*state, TEST_SOURCE_DIR "/tests/shards/golden/numbers.tar", 3);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_written_shard_reads_back_the_same),
        CASE(block_crcs_are_found_among_many_samples),
        CASE(gnu_tar_lists_shards_without_warnings),
        CASE(bsdtar_lists_shards_without_warnings),
        CASE(python_tarfile_lists_shards_without_warnings),
        CASE(gnu_tar_extracts_the_same_bytes),
        CASE(webdataset_groups_samples_the_same_way),
        CASE(a_python_reader_written_from_the_docs_reads_shards),
        CASE(an_append_by_tar_invalidates_the_index),
        CASE(every_truncation_is_detected),
        CASE(every_flipped_byte_of_index_and_trailer_is_detected),
        CASE(a_forged_index_causes_no_reads_out_of_bounds),
        CASE(forged_image_rows_cause_no_reads_out_of_bounds),
        CASE(a_python_reader_written_from_the_docs_reads_image_rows),
        CASE(raw_image_rows_are_found),
        CASE(the_writer_refuses_what_readers_would_misread),
        CASE(a_shard_without_samples_opens),
        CASE(an_existing_shard_is_replaced_only_on_request),
        CASE(an_index_of_many_samples_stays_small),
        CASE(the_golden_shard_is_reproduced),
        CASE(the_golden_shard_with_numbers_is_reproduced),
        CASE(numbers_are_found),
        CASE(a_python_reader_written_from_the_docs_reads_numbers),
        CASE(forged_numbers_cause_no_reads_out_of_bounds),
        CASE(invalid_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
