/*
 * Converting images: their pixels and bytes, the same output for any number of workers, and errors
 * that name damaged files.
 */
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void real_photos_keep_their_bytes_and_classes(void **state)
{
    struct fixture *fixture = *state;
    copy_clothing_photos(fixture, 12);
    fixture->options.jpeg = CONVERT_JPEG_KEEP;
    assert_converts(fixture);
    struct dataset *dataset = open_dataset(fixture, "");
    assert_int_equal(fixture->result.samples_count, dataset->samples);
    assert_int_equal(dataset->samples, 120);
    assert_int_equal(dataset->classes_count, 10);
    assert_string_equal(dataset->classes[0], "dress");
    assert_string_equal(dataset->classes[9], "t-shirt");
    assert_int_equal(dataset->fields_count, 2);
    dataset_close(dataset);
    /* When extracted, each picture equals its source, and each class number is its folder's
     * index. */
    assert_int_equal(test_run("mkdir '%s/x' && tar -C '%s/x' -xf '%s/shard-000000.tar'",
                              fixture->folder, fixture->folder, fixture->target),
                     0);
    assert_int_equal(test_run("cd '%s/x' && n=0; for c in *; do for f in $c/*.cls; do test \"$(cat "
                              "$f)\" = $n || exit 1; "
                              "rm $f; done; n=$((n+1)); done; test $n = 10 && diff -r . '%s'",
                              fixture->folder, fixture->source),
                     0);
}

static void photos_are_tiled_to_the_same_pixels(void **state)
{
    struct fixture *fixture = *state;
    if (test_run("command -v djpeg >/dev/null"))
        test_skip("no djpeg here (libjpeg-turbo-progs)");
    copy_clothing_photos(fixture, 3);
    assert_converts(fixture);
    assert_int_equal(fixture->result.jpegs.tiled_count, 30);
    assert_int_equal(fixture->result.jpegs.kept_count, 0);
    assert_int_equal(fixture->result.jpegs.source_bytes, fixture->result.source_bytes);
    assert_int_equal(test_run("mkdir '%s/x' && tar -C '%s/x' -xf '%s/shard-000000.tar'",
                              fixture->folder, fixture->folder, fixture->target),
                     0);
    char text[32];
    assert_int_equal(
        test_run_output(text, sizeof text, "cat '%s'/x/*/*.jpg | wc -c", fixture->folder), 0);
    assert_int_equal(fixture->result.jpegs.written_bytes, atoi(text));
    assert_int_equal(
        test_run("cd '%s/x' && for f in */*.jpg; do djpeg $f >a.pnm && djpeg '%s'/$f >b.pnm && "
                 "cmp a.pnm b.pnm && ! cmp -s $f '%s'/$f || exit 1; done",
                 fixture->folder, fixture->source, fixture->source),
        0);
}

static void a_jpeg_under_another_extension_is_kept_and_counted(void **state)
{
    struct fixture *fixture = *state;
    static const enum convert_jpeg modes[] = {CONVERT_JPEG_TILE, CONVERT_JPEG_REENCODE,
                                              CONVERT_JPEG_KEEP};
    write_jpeg(fixture, "a/1.jpeg", 1);
    write_jpeg(fixture, "a/2.png", 2);
    write_source(fixture, "a/3.jpg", "P6\n1 1\n255\nabc", 15);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        fixture->options.jpeg = modes[i];
        fixture->options.force = true;
        assert_converts(fixture);
        assert_int_equal(fixture->result.jpegs.tiled_count, modes[i] == CONVERT_JPEG_TILE);
        /* reencoding would enlarge the small picture */
        static const unsigned kept[] = {[CONVERT_JPEG_TILE] = 1, [CONVERT_JPEG_REENCODE] = 2};
        assert_int_equal(fixture->result.jpegs.kept_count,
                         modes[i] == CONVERT_JPEG_KEEP ? 0 : kept[modes[i]]);
        assert_int_equal(fixture->result.jpegs.reencoded_count, 0);
        assert_int_equal(
            test_run("cd '%s' && rm -rf x && mkdir x && tar -C x -xf '%s/shard-000000.tar' && "
                     "cmp x/a/2.png '%s/a/2.png' && cmp x/a/3.jpg '%s/a/3.jpg' && "
                     "test -f x/a/1.jpg",
                     fixture->folder, fixture->target, fixture->source, fixture->source),
            0);
        assert_int_equal(
            test_run("cmp -s '%s/x/a/1.jpg' '%s/a/1.jpeg'", fixture->folder, fixture->source) == 0,
            modes[i] == CONVERT_JPEG_KEEP);
    }
}

static void the_number_of_workers_changes_no_byte(void **state)
{
    struct fixture *fixture = *state;
    char other_target[TEST_PATH_BYTES_MAX + 32];
    copy_clothing_photos(fixture, 6);
    snprintf(other_target, sizeof other_target, "%s/other", fixture->folder);
    static const enum convert_jpeg modes[] = {CONVERT_JPEG_TILE, CONVERT_JPEG_KEEP,
                                              CONVERT_JPEG_REENCODE};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        bool reencode = modes[i] == CONVERT_JPEG_REENCODE;
        fixture->options.force = i > 0;
        fixture->options.jpeg = modes[i];
        fixture->options.max_side = 128;
        fixture->options.shard_bytes = reencode ? 64 << 10 : 400 << 10;
        fixture->options.target = fixture->target;
        fixture->options.workers = 1;
        assert_converts(fixture);
        assert_true(fixture->result.shards_count > 2);
        fixture->options.target = other_target;
        fixture->options.workers = 5;
        assert_converts(fixture);
        assert_int_equal(test_run("diff -r '%s' '%s'", fixture->target, other_target), 0);
    }
}

static void reencoding_bounds_the_longer_side(void **state)
{
    struct fixture *fixture = *state;
    const char *python = test_need_python("PIL");
    copy_clothing_photos(fixture, 2);
    fixture->options.jpeg = CONVERT_JPEG_REENCODE;
    fixture->options.max_side = 100;
    assert_converts(fixture);
    char text[256];
    assert_int_equal(
        test_run_output(
            text, sizeof text,
            "mkdir '%s/x' && tar -C '%s/x' -xf '%s/shard-000000.tar' && '%s' -c '\n"
            "import glob, sys, PIL.Image\n"
            "s = [PIL.Image.open(f).size for f in glob.glob(sys.argv[1] + \"/*/*.jpg\")]\n"
            "print(len(s), max(max(x) for x in s), min(max(x) for x in s))' '%s/x'",
            fixture->folder, fixture->folder, fixture->target, python, fixture->folder),
        0);
    assert_string_equal(text, "20 100 96\n");
}

/* Reencoding at high quality enlarges photos of low quality. Unless scaled, they are tiled
 * instead. */
static void reencoding_enlarges_no_photo_of_unchanged_size(void **state)
{
    struct fixture *fixture = *state;
    copy_clothing_photos(fixture, 2);
    fixture->options.jpeg = CONVERT_JPEG_TILE;
    assert_converts(fixture);
    struct convert_jpeg_counts tiled = fixture->result.jpegs;
    fixture->options.force = true;
    fixture->options.jpeg = CONVERT_JPEG_REENCODE;
    fixture->options.quality = 100;
    assert_converts(fixture);
    assert_in_range(fixture->result.jpegs.kept_count, 15, 20);
    assert_int_equal(fixture->result.jpegs.kept_count + fixture->result.jpegs.reencoded_count, 20);
    assert_true(fixture->result.jpegs.written_bytes <= tiled.written_bytes);
    assert_int_equal(fixture->result.jpegs.source_bytes, tiled.source_bytes);
    fixture->options.quality = 10;
    assert_converts(fixture);
    assert_in_range(fixture->result.jpegs.reencoded_count, 15, 20);
    assert_true(fixture->result.jpegs.written_bytes < fixture->result.jpegs.source_bytes);
    fixture->options.quality = 100;
    fixture->options.max_side = 300; /* all photos are larger */
    assert_converts(fixture);
    assert_int_equal(fixture->result.jpegs.reencoded_count, 20);
}

static void a_broken_jpeg_stops_the_conversion_and_leaves_nothing(void **state)
{
    struct fixture *fixture = *state;
    write_classes(fixture, 5);
    write_source(fixture, "b/broken.jpg", "\xff\xd8\xff\xe0not really", 14);
    assert_int_equal(convert(fixture), -EBADMSG);
    assert_non_null(strstr(fixture->err.path, "b/broken.jpg"));
    assert_true(fixture->err.offset >= 0);
    assert_no_target(fixture);
}

static void broken_jpegs_are_named_counted_and_skipped(void **state)
{
    struct fixture *fixture = *state;
    write_classes(fixture, 5);
    write_source(fixture, "b/broken.jpg", "\xff\xd8\xff\xe0not really", 14);
    write_source(fixture, "a/empty.jpg", "", 0);
    fixture->options.skip_errors = true;
    assert_converts(fixture);
    assert_int_equal(fixture->result.skipped_count, 2);
    assert_int_equal(fixture->result.samples_count, 15);
    assert_non_null(strstr(fixture->log, "broken.jpg"));
    assert_non_null(strstr(fixture->log, "empty.jpg"));
    assert_null(strstr(list_members(fixture, ""), "broken"));
    fixture->options.force = true;
    fixture->options.errors_max = 2;
    assert_converts(fixture);
    fixture->options.errors_max = 1;
    assert_true(convert(fixture) < 0);
    /* the existing dataset still opens */
    dataset_close(open_dataset(fixture, ""));
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    assert_true(convert(fixture) < 0);
    assert_no_target(fixture);
    fixture->options.errors_max = -1;
    fixture->options.errors_max_fraction = 0.1;
    assert_true(convert(fixture) < 0);
    fixture->options.errors_max_fraction = 0.2;
    assert_converts(fixture);
}

static void all_malformed_jpegs_are_skipped_and_all_varieties_kept(void **state)
{
    struct fixture *fixture = *state;
    char good[TEST_PATH_BYTES_MAX], bad[TEST_PATH_BYTES_MAX];
    test_need_data("jpeg-variety", good);
    test_need_data("jpeg-malformed", bad);
    assert_int_equal(
        test_run("mkdir '%s/good' '%s/bad' && cp '%s'/*.jp* '%s/good' && cp '%s'/*.jp* '%s/bad' && "
                 "ls '%s/good' | wc -l >'%s/count'",
                 fixture->source, fixture->source, good, fixture->source, bad, fixture->source,
                 fixture->source, fixture->folder),
        0);
    fixture->options.skip_errors = true;
    assert_converts(fixture);
    char text[32], command[TEST_PATH_BYTES_MAX + 32];
    snprintf(command, sizeof command, "cat '%s/count'", fixture->folder);
    assert_int_equal(test_run_output(text, sizeof text, "%s", command), 0);
    assert_int_equal(fixture->result.samples_count, atoi(text));
    assert_int_equal(fixture->result.jpegs.tiled_count + fixture->result.jpegs.kept_count,
                     atoi(text));
    /* CMYK files and already tiled files */
    assert_in_range(fixture->result.jpegs.kept_count, 4, 8);
    assert_null(strstr(list_members(fixture, ""), "bad/"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(real_photos_keep_their_bytes_and_classes),
        CASE(photos_are_tiled_to_the_same_pixels),
        CASE(a_jpeg_under_another_extension_is_kept_and_counted),
        CASE(the_number_of_workers_changes_no_byte),
        CASE(reencoding_bounds_the_longer_side),
        CASE(reencoding_enlarges_no_photo_of_unchanged_size),
        CASE(a_broken_jpeg_stops_the_conversion_and_leaves_nothing),
        CASE(broken_jpegs_are_named_counted_and_skipped),
        CASE(all_malformed_jpegs_are_skipped_and_all_varieties_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
