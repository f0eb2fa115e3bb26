/*
 * Converting folders: split and class folders, unmatched files, keys and extensions.
 */
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <string.h>

static void write_text(struct fixture *fixture, const char *relative)
{
    write_source(fixture, relative, "hi", 2);
}

static void clear_source(const struct fixture *fixture)
{
    assert_int_equal(test_run("rm -rf '%s' && mkdir '%s'", fixture->source, fixture->source), 0);
}

static void assert_classes(struct fixture *fixture, const char *subfolder, const char *expected)
{
    char names[256] = "";
    struct dataset *dataset = open_dataset(fixture, subfolder);
    for (uint64_t i = 0; i < dataset->classes_count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s ", dataset->classes[i]);
    assert_string_equal(names, expected);
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
    assert_no_target(fixture);
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
    assert_no_target(fixture);
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
    fixture->options.ignore_globs = (struct convert_string_list){all_globs, 2};
    assert_refused(fixture, -ENOTSUP, "--ignore '*.json'");
    assert_non_null(strstr(fixture->err.found, "b/lone.json"));
    fixture->options.ignore_globs.count = 3;
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""), "a/1.cls\na/1.jpg\na/1.json\n");
    assert_int_equal(fixture->result.ignored_count, 4);
    fixture->options.ignore_globs.count = 1;
    fixture->options.fields = (struct convert_string_list){fields, 3};
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
        {"train-images-idx3-ubyte", "a/1.jpg", "MNIST"},
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
    fixture->options.fields = (struct convert_string_list){fields, 2};
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
        assert_no_target(fixture);
        assert_int_equal(test_run("rm -rf '%s/x'", fixture->source), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
