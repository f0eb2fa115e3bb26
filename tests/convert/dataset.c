/*
 * Converting datasets: the samples made from files, their names and order; the output is the same
 * for any number of workers; errors name bad items.
 */
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void real_photos_keep_their_bytes_and_classes(void **state)
{
    struct fixture *fixture = *state;
    copy_clothing(fixture, 12);
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
    copy_clothing(fixture, 3);
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
    static const enum convert_jpeg ways[] = {CONVERT_JPEG_TILE, CONVERT_JPEG_REENCODE,
                                             CONVERT_JPEG_KEEP};
    write_jpeg(fixture, "a/1.jpeg", 1);
    write_jpeg(fixture, "a/2.png", 2);
    write_source(fixture, "a/3.jpg", "P6\n1 1\n255\nabc", 15);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        fixture->options.jpeg = ways[i];
        fixture->options.force = true;
        assert_converts(fixture);
        assert_int_equal(fixture->result.jpegs.tiled_count, ways[i] == CONVERT_JPEG_TILE);
        /* re-encoding would enlarge the small picture */
        static const unsigned kept[] = {[CONVERT_JPEG_TILE] = 1, [CONVERT_JPEG_REENCODE] = 2};
        assert_int_equal(fixture->result.jpegs.kept_count,
                         ways[i] == CONVERT_JPEG_KEEP ? 0 : kept[ways[i]]);
        assert_int_equal(fixture->result.jpegs.reencoded_count, 0);
        assert_int_equal(
            test_run("cd '%s' && rm -rf x && mkdir x && tar -C x -xf '%s/shard-000000.tar' && "
                     "cmp x/a/2.png '%s/a/2.png' && cmp x/a/3.jpg '%s/a/3.jpg' && "
                     "test -f x/a/1.jpg",
                     fixture->folder, fixture->target, fixture->source, fixture->source),
            0);
        assert_int_equal(
            test_run("cmp -s '%s/x/a/1.jpg' '%s/a/1.jpeg'", fixture->folder, fixture->source) == 0,
            ways[i] == CONVERT_JPEG_KEEP);
    }
}

static void the_number_of_workers_changes_no_byte(void **state)
{
    struct fixture *fixture = *state;
    char other[TEST_PATH_BYTES_MAX + 32];
    copy_clothing(fixture, 6);
    snprintf(other, sizeof other, "%s/other", fixture->folder);
    static const enum convert_jpeg ways[] = {CONVERT_JPEG_TILE, CONVERT_JPEG_KEEP,
                                             CONVERT_JPEG_REENCODE};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        bool reencode = ways[i] == CONVERT_JPEG_REENCODE;
        fixture->options.force = i > 0;
        fixture->options.jpeg = ways[i];
        fixture->options.max_side = 128;
        fixture->options.shard_bytes = reencode ? 64 << 10 : 400 << 10;
        fixture->options.target = fixture->target;
        fixture->options.workers = 1;
        assert_converts(fixture);
        assert_true(fixture->result.shards_count > 2);
        fixture->options.target = other;
        fixture->options.workers = 5;
        assert_converts(fixture);
        assert_int_equal(test_run("diff -r '%s' '%s'", fixture->target, other), 0);
    }
}

static void reencoding_bounds_the_longer_side(void **state)
{
    struct fixture *fixture = *state;
    const char *python = test_need_python("PIL");
    copy_clothing(fixture, 2);
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

/* Re-encoding at high quality enlarges photos of low quality, so those keep their pixels unless
 * they are scaled. */
static void reencoding_enlarges_no_photo_of_unchanged_size(void **state)
{
    struct fixture *fixture = *state;
    copy_clothing(fixture, 2);
    fixture->options.jpeg = CONVERT_JPEG_TILE;
    assert_converts(fixture);
    struct convert_jpegs tiled = fixture->result.jpegs;
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

static void write_text(struct fixture *fixture, const char *relative)
{
    write_source(fixture, relative, "hi", 2);
}

static void clear_source(const struct fixture *fixture)
{
    assert_int_equal(test_run("rm -rf '%s' && mkdir '%s'", fixture->source, fixture->source), 0);
}

static void assert_classes(struct fixture *fixture, const char *below, const char *wanted)
{
    char names[256] = "";
    struct dataset *dataset = open_dataset(fixture, below);
    for (uint64_t i = 0; i < dataset->classes_count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s ", dataset->classes[i]);
    assert_string_equal(names, wanted);
    dataset_close(dataset);
}

static void split_folders_become_datasets_with_common_classes(void **state)
{
    struct fixture *fixture = *state;
    char number[8];
    write_jpeg(fixture, "train/b/1.jpg", 1);
    write_jpeg(fixture, "train/d/2.jpg", 2);
    write_jpeg(fixture, "train/d/3.jpg", 3);
    write_jpeg(fixture, "val/a/1.jpg", 4);
    write_jpeg(fixture, "val/d/2.jpg", 5);
    write_jpeg(fixture, "val/c/4.jpg", 6);
    write_text(fixture, "LICENSE");
    fixture->options.keep_order = true;
    assert_converts(fixture);
    assert_classes(fixture, "/train", "a b c d ");
    assert_classes(fixture, "/val", "a b c d ");
    assert_string_equal(list_members(fixture, "/train"),
                        "b/1.cls\nb/1.jpg\nd/2.cls\nd/2.jpg\nd/3.cls\nd/3.jpg\n");
    assert_string_equal(list_members(fixture, "/val"),
                        "a/1.cls\na/1.jpg\nc/4.cls\nc/4.jpg\nd/2.cls\nd/2.jpg\n");
    static const char *const numbers[][3] = {{"train", "b/1.cls", "1"},
                                             {"train", "d/2.cls", "3"},
                                             {"val", "a/1.cls", "0"},
                                             {"val", "c/4.cls", "2"}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_int_equal(test_run_output(number, sizeof number,
                                         "tar xOf '%s/%s/shard-000000.tar' %s", fixture->target,
                                         numbers[i][0], numbers[i][1]),
                         0);
        assert_string_equal(number, numbers[i][2]);
    }
    assert_non_null(strstr(fixture->log, "splits train, val"));
    assert_int_equal(fixture->result.splits_count, 2);
    assert_string_equal(fixture->result.splits[1].name, "val");
    assert_int_equal(fixture->result.splits[1].samples_count, 3);
    assert_int_equal(fixture->result.classes_count, 4);
    fixture->options.resume = true;
    assert_converts(fixture);
    assert_non_null(strstr(fixture->log, "already complete"));
    /* With an unusable file, nothing appears. */
    write_source(fixture, "val/c/5.jpg", "broken", 6);
    fixture->options.resume = false;
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    assert_int_equal(convert(fixture), -EBADMSG);
    assert_nothing_left(fixture);
}

static void split_folders_without_classes_become_datasets_of_files(void **state)
{
    struct fixture *fixture = *state;
    write_jpeg(fixture, "Train/1.jpg", 1);
    write_text(fixture, "Train/1.txt");
    write_jpeg(fixture, "TEST/1.jpg", 2);
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, "/Train"), "1.jpg\n1.txt\n");
    assert_string_equal(list_members(fixture, "/TEST"), "1.jpg\n");
    assert_classes(fixture, "/TEST", "");
}

static void split_folders_can_be_set_by_option(void **state)
{
    struct fixture *fixture = *state;
    write_jpeg(fixture, "train/x/1.jpg", 1);
    write_jpeg(fixture, "val/x/2.jpg", 2);
    fixture->options.split_folders = CONVERT_SPLIT_FOLDERS_NO;
    assert_converts(fixture);
    assert_classes(fixture, "", "train val ");
    fixture->options.force = true;
    clear_source(fixture);
    write_jpeg(fixture, "fold1/x/1.jpg", 1);
    write_jpeg(fixture, "fold2/y/2.jpg", 2);
    fixture->options.split_folders = CONVERT_SPLIT_FOLDERS_YES;
    assert_converts(fixture);
    assert_classes(fixture, "/fold1", "x y ");
    /* A class may be named train. */
    fixture->options.force = false;
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    clear_source(fixture);
    write_jpeg(fixture, "bus/1.jpg", 1);
    write_jpeg(fixture, "train/2.jpg", 2);
    fixture->options.split_folders = CONVERT_SPLIT_FOLDERS_AUTO;
    assert_converts(fixture);
    assert_classes(fixture, "", "bus train ");
}

static void assert_refused(struct fixture *fixture, int code, const char *advice)
{
    assert_int_equal(convert(fixture), code);
    if (!strstr(fixture->err.advice, advice))
        fail_msg("%s is not in: %s", advice, fixture->err.advice);
    assert_nothing_left(fixture);
}

static void ambiguous_split_folders_are_refused(void **state)
{
    struct fixture *fixture = *state;
    write_jpeg(fixture, "train/x/1.jpg", 1);
    write_jpeg(fixture, "cats/2.jpg", 2);
    assert_refused(fixture, -EINVAL, "--split-folders yes");
    clear_source(fixture);
    write_jpeg(fixture, "train/x/1.jpg", 1);
    write_jpeg(fixture, "test/2.jpg", 2);
    assert_refused(fixture, -EINVAL, "convert each one separately");
    fixture->options.splits_count = 1;
    fixture->options.splits[0] = (struct convert_split){"all", 1};
    assert_refused(fixture, -EINVAL, "remove --split,");
    fixture->options.splits_count = 0;
    clear_source(fixture);
    write_jpeg(fixture, "train/x/1.jpg", 1);
    assert_int_equal(test_run("mkdir -p '%s/test/x'", fixture->source), 0);
    assert_refused(fixture, -ENODATA, "--ignore test");
    clear_source(fixture);
    write_text(fixture, "train/1.txt");
    write_text(fixture, "val/1.txt");
    assert_refused(fixture, -EINVAL, "convert each one separately");
    fixture->options.tokenizer = "bytes";
    assert_refused(fixture, -EINVAL, "convert each one separately");
}

static void unmatched_files_are_listed_by_type(void **state)
{
    struct fixture *fixture = *state;
    static const char *const all_globs[] = {"*.tif", "a/*.xml", "lone.json"};
    static const char *const fields[] = {"jpeg", ".XML", "json"};
    write_jpeg(fixture, "a/1.jpg", 1);
    write_text(fixture, "a/1.xml");
    write_text(fixture, "a/1.json");
    write_text(fixture, "a/2.tif");
    write_text(fixture, "a/3.tif");
    write_text(fixture, "b/lone.json");
    assert_refused(fixture, -ENOTSUP, "--ignore '*.tif'");
    assert_non_null(strstr(fixture->log, ".tif: 2 without a sample; the first: a/2.tif"));
    assert_non_null(strstr(fixture->log, ".xml: 1 without a sample; the first: a/1.xml"));
    fixture->options.ignores = (struct convert_list){all_globs, 2};
    assert_refused(fixture, -ENOTSUP, "--ignore '*.json'");
    assert_non_null(strstr(fixture->err.found, "b/lone.json"));
    fixture->options.ignores.count = 3;
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""), "a/1.cls\na/1.jpg\na/1.json\n");
    assert_int_equal(fixture->result.ignored_count, 4);
    fixture->options.ignores.count = 1;
    fixture->options.fields = (struct convert_list){fields, 3};
    fixture->options.force = fixture->options.keep_order = true;
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""),
                        "a/1.cls\na/1.jpg\na/1.json\na/1.xml\nb/lone.cls\nb/lone.json\n");
    /* A file next to the class folders, one without an extension, and a non-regular file. */
    fixture->options.force = false;
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    write_jpeg(fixture, "beside.jpg", 1);
    write_text(fixture, "a/noext");
    assert_int_equal(test_run("ln -s nowhere '%s/b/broken.jpg'", fixture->source), 0);
    assert_refused(fixture, -ENOTSUP, "--ignore GLOB");
    assert_non_null(strstr(fixture->log,
                           "next to the class folders: 1 without a sample; the first: beside.jpg"));
    assert_non_null(strstr(fixture->log, "no extension: 1 without a sample; the first: a/noext"));
    assert_non_null(
        strstr(fixture->log, "not a regular file: 1 without a sample; the first: b/broken.jpg"));
    /* Text needs an option, which the error suggests. */
    fixture->options.fields.count = 0;
    clear_source(fixture);
    write_text(fixture, "a/1.txt");
    assert_refused(fixture, -ENOTSUP, "--tokenizer bytes");
    fixture->options.tokenizer = "bytes";
    write_text(fixture, "a/1.html");
    assert_refused(fixture, -ENOTSUP, "--ignore '*.html'");
}

static void hidden_and_system_files_are_counted(void **state)
{
    struct fixture *fixture = *state;
    static const char *const names[] = {"a/Thumbs.db",   "a/.DS_Store",
                                        "a/desktop.ini", "__MACOSX/a/1.jpg",
                                        ".git/config",   "a/.ipynb_checkpoints/1.jpg",
                                        "a/._1.jpg",     "b/@eaDir/1/x.jpg"};
    write_jpeg(fixture, "a/1.jpg", 1);
    write_jpeg(fixture, "b/1.jpg", 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        write_text(fixture, names[i]);
    assert_converts(fixture);
    assert_int_equal(fixture->result.hidden_count, sizeof names / sizeof names[0]);
    assert_classes(fixture, "", "a b ");
    assert_int_equal(fixture->result.samples_count, 2);
}

static void other_formats_are_named(void **state)
{
    struct fixture *fixture = *state;
    static const char *const cases[][3] = {
        {"data/part-0.parquet", NULL, "Parquet"},
        {"train/part-0.parquet", "val/part-0.parquet", "Parquet"},
        {"a/train.tfrecord-00000-of-00002", NULL, "TFRecord"},
        {"x.h5", NULL, "HDF5"},
        {"labels.csv", "a/1.jpg", "CSV"},
        {"annotations/instances.json", "images/1.jpg", "COCO"},
        {"train/images/1.jpg", "train/labels/1.txt", "YOLO"},
        {"Annotations/1.xml", "JPEGImages/1.jpg", "Pascal VOC"},
        {"train-images-idx3-ubyte", NULL, "MNIST"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        clear_source(fixture);
        write_text(fixture, cases[i][0]);
        if (cases[i][1])
            write_text(fixture, cases[i][1]);
        assert_refused(fixture, -ENOTSUP, "");
        if (!strstr(fixture->err.found, cases[i][2]))
            fail_msg("%s is not named: %s", cases[i][2], fixture->err.found);
    }
}

static void keys_and_extensions_are_normalized(void **state)
{
    struct fixture *fixture = *state;
    write_jpeg(fixture, "v1.0 set/a.b 1.JPG", 1);
    write_jpeg(fixture, "v1.0 set/sub/c.jpeg", 2);
    write_source(fixture, "v1.0 set/a.b 1.TXT", "hi", 2);
    write_source(fixture, "v1.0 set/.hidden.jpg", "hi", 2);
    write_source(fixture, "v1.0 set/__skipped__/a.jpg", "hi", 2);
    write_source(fixture, "README.md", "hi", 2);
    assert_int_equal(test_run("mkdir '%s/.git'", fixture->source), 0);
    fixture->options.keep_order = true;
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""),
                        "v1.0 set/a_b_1.cls\nv1.0 set/a_b_1.jpg\nv1.0 set/a_b_1.txt\n"
                        "v1.0 set/sub/c.cls\nv1.0 set/sub/c.jpg\n");
    assert_non_null(strstr(fixture->log, "README.md"));
    assert_non_null(strstr(fixture->log, "__skipped__"));
    assert_null(strstr(fixture->log, ".hidden"));
}

/* The maximum in the index is 47 bytes and the NUL. */
static void an_extension_may_have_47_bytes(void **state)
{
    struct fixture *fixture = *state;
    char name[64];
    write_jpeg(fixture, "x/a.jpg", 1);
    snprintf(name, sizeof name, "x/a.%047d", 0);
    write_source(fixture, name, "hi", 2);
    const char *fields[] = {"jpg", name + strlen("x/a.")};
    fixture->options.fields = (struct convert_list){fields, 2};
    assert_converts(fixture);
    assert_non_null(strstr(list_members(fixture, ""), name));
    snprintf(name, sizeof name, "x/a.%048d", 0);
    write_source(fixture, name, "hi", 2);
    fixture->options.force = true;
    assert_int_equal(convert(fixture), -EBADMSG);
    assert_non_null(strstr(fixture->err.path, name));
    assert_non_null(strstr(fixture->err.expected, "at most 47 bytes"));
}

static void files_without_classes_are_grouped_by_key(void **state)
{
    struct fixture *fixture = *state;
    write_jpeg(fixture, "a.jpg", 1);
    write_source(fixture, "a.json", "{}", 2);
    write_jpeg(fixture, "b.jpg", 1);
    fixture->options.keep_order = true;
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""), "a.jpg\na.json\nb.jpg\n");
    struct dataset *dataset = open_dataset(fixture, "");
    assert_int_equal(dataset->classes_count, 0);
    assert_int_equal(dataset->samples, 2);
    dataset_close(dataset);
}

static void collisions_name_both_files(void **state)
{
    struct fixture *fixture = *state;
    static const char *const pairs[][2] = {{"x/a.jpg", "x/a.jpeg"},
                                           {"x/a.b.jpg", "x/a b.jpg"},
                                           {"x/a.jpg", "x/a.png"},
                                           {"x/a.JPG", "x/a.jpg"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        write_jpeg(fixture, pairs[i][0], 1);
        write_jpeg(fixture, pairs[i][1], 2);
        assert_int_equal(convert(fixture), -EEXIST);
        char line[ERR_LINE_BYTES_MAX];
        err_format(&fixture->err, line, sizeof line);
        assert_non_null(strstr(line, pairs[i][0]));
        assert_non_null(strstr(line, pairs[i][1]));
        assert_nothing_left(fixture);
        assert_int_equal(test_run("rm -rf '%s/x'", fixture->source), 0);
    }
}

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

static void a_broken_jpeg_stops_and_leaves_nothing(void **state)
{
    struct fixture *fixture = *state;
    write_classes(fixture, 5);
    write_source(fixture, "b/broken.jpg", "\xff\xd8\xff\xe0not really", 14);
    assert_int_equal(convert(fixture), -EBADMSG);
    assert_non_null(strstr(fixture->err.path, "b/broken.jpg"));
    assert_true(fixture->err.offset >= 0);
    assert_nothing_left(fixture);
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
    /* the dataset that was to be replaced still opens */
    dataset_close(open_dataset(fixture, ""));
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    assert_true(convert(fixture) < 0);
    assert_nothing_left(fixture);
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
    /* CMYK files, and files that are already tiled */
    assert_in_range(fixture->result.jpegs.kept_count, 4, 8);
    assert_null(strstr(list_members(fixture, ""), "bad/"));
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
    write_source(fixture, "a.tar", "x", 1);
    assert_int_equal(convert(fixture), -ENOTSUP);
    assert_non_null(strstr(fixture->err.expected, "folder of class folders"));
    char path[TEST_PATH_BYTES_MAX + 64];
    snprintf(path, sizeof path, "%s/a.tar", fixture->source);
    fixture->options.source = path;
    assert_int_equal(convert(fixture), -ENOTSUP);
    fixture->options.source = "/does/not/exist";
    assert_int_equal(convert(fixture), -ENOENT);
    fixture->options.source = fixture->source;
    assert_int_equal(test_run("rm '%s'/a.tar", fixture->source), 0);
    assert_int_equal(convert(fixture), -ENODATA);
    fixture->options.splits_count = 1;
    fixture->options.splits[0] = (struct convert_split){"train", 0.5};
    assert_int_equal(convert(fixture), -EINVAL);
    assert_nothing_left(fixture);
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
        CASE(real_photos_keep_their_bytes_and_classes),
        CASE(photos_are_tiled_to_the_same_pixels),
        CASE(a_jpeg_under_another_extension_is_kept_and_counted),
        CASE(the_number_of_workers_changes_no_byte),
        CASE(reencoding_bounds_the_longer_side),
        CASE(reencoding_enlarges_no_photo_of_unchanged_size),
        CASE(split_folders_become_datasets_with_common_classes),
        CASE(split_folders_without_classes_become_datasets_of_files),
        CASE(split_folders_can_be_set_by_option),
        CASE(ambiguous_split_folders_are_refused),
        CASE(unmatched_files_are_listed_by_type),
        CASE(hidden_and_system_files_are_counted),
        CASE(other_formats_are_named),
        CASE(keys_and_extensions_are_normalized),
        CASE(an_extension_may_have_47_bytes),
        CASE(files_without_classes_are_grouped_by_key),
        CASE(collisions_name_both_files),
        CASE(shuffling_is_keyed_by_the_seed),
        CASE(a_broken_jpeg_stops_and_leaves_nothing),
        CASE(broken_jpegs_are_named_counted_and_skipped),
        CASE(all_malformed_jpegs_are_skipped_and_all_varieties_kept),
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
