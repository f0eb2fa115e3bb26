/*
 * arrays: datasets that are stored as arrays (NumPy, MNIST's idx, CIFAR, FFCV) become samples, row
 * by row. Python compares them with the arrays.
 */
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <string.h>

static void write_case(const struct fixture *fixture, const char *name)
{
    assert_int_equal(test_run("'%s' '%s/tests/convert/arrays.py' write %s '%s'",
                              test_need_python("PIL"), TEST_SOURCE_DIR, name, fixture->source),
                     0);
}

static void check_case(const struct fixture *fixture, const char *name)
{
    assert_int_equal(test_run("'%s' '%s/tests/convert/arrays.py' check %s '%s'",
                              test_need_python("PIL"), TEST_SOURCE_DIR, name, fixture->target),
                     0);
}

/* Runs Python below the source, with numpy as np and struct. */
static void run_python(const struct fixture *fixture, const char *code)
{
    assert_int_equal(test_run("cd '%s' && '%s' -c 'import numpy as np, os, struct\n%s'",
                              fixture->source, test_need_python("numpy"), code),
                     0);
}

/* Adds code to the script cases.py, which runs it in folder `number` below the source. */
static void add_code(const struct fixture *fixture, size_t number, const char *code)
{
    char name[2 * TEST_PATH_BYTES_MAX];
    snprintf(name, sizeof name, "%s/cases.py", fixture->folder);
    FILE *script = fopen(name, number == 0 ? "w" : "a");
    assert_non_null(script);
    if (number == 0)
        fprintf(script, "import numpy as np, os, zipfile\n");
    fprintf(script, "os.mkdir('%zu'); os.chdir('%zu')\n%s\nos.chdir('..')\n", number, number, code);
    assert_int_equal(fclose(script), 0);
}

static void run_code(const struct fixture *fixture)
{
    assert_int_equal(
        test_run("cd '%s' && '%s' ../cases.py", fixture->source, test_need_python("numpy")), 0);
}

static char path[2 * TEST_PATH_BYTES_MAX];
static void set_source_file(struct fixture *fixture, const char *name)
{
    snprintf(path, sizeof path, "%s/%s", fixture->source, name);
    fixture->options.source = path;
}

static const char *mappings[8];
static void set_columns(struct fixture *fixture, const char *first, const char *second)
{
    mappings[0] = first;
    mappings[1] = second;
    fixture->options.columns =
        (struct convert_string_list){mappings, (size_t) !!first + (size_t) !!second};
}

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("\"%s\" is not in: %s", (part), (text));                                      \
    } while (0)

static void assert_fails(struct fixture *fixture, int code, const char *part)
{
    char line[ERR_LINE_BYTES_MAX];
    int status = convert(fixture);
    if (status != code)
        fail_msg("%d instead of %d: %s", status, code,
                 status ? err_format(&fixture->err, line, sizeof line) : "success");
    assert_contains(err_format(&fixture->err, line, sizeof line), part);
    assert_no_target(fixture);
}

static void numpy_columns_equal_numpys_rows(void **state)
{
    struct fixture *fixture = *state;
    write_case(fixture, "numpy");
    assert_converts(fixture);
    check_case(fixture, "numpy");
    assert_contains(fixture->log, "Mask -> mask.npy, emb -> emb.npy, images -> png, labels -> "
                                  "class, others -> json: big, half, ok, score");
    assert_int_equal(fixture->result.classes_count, 5);
}

static void members_of_an_npz_file_are_columns(void **state)
{
    struct fixture *fixture = *state;
    write_case(fixture, "npz");
    set_source_file(fixture, "a.npz");
    assert_converts(fixture);
    check_case(fixture, "numpy");
    run_python(fixture, "np.savez_compressed(\"b.npz\", **np.load(\"a.npz\"))");
    assert_int_equal(test_run("mv '%s' '%s.stored'", fixture->target, fixture->target), 0);
    set_source_file(fixture, "b.npz");
    assert_converts(fixture);
    assert_int_equal(test_run("cmp '%s/shard-000000.tar' '%s.stored/shard-000000.tar'",
                              fixture->target, fixture->target),
                     0);
}

static void names_of_arrays_state_splits(void **state)
{
    struct fixture *fixture = *state;
    write_case(fixture, "keras_folder");
    assert_converts(fixture);
    check_case(fixture, "keras");
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    write_case(fixture, "keras");
    fixture->options.splits_count = 0;
    set_source_file(fixture, "a.npz");
    assert_converts(fixture);
    check_case(fixture, "keras");
    set_train_val_splits(fixture);
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    assert_fails(fixture, -EINVAL, "--split cannot be used with a source that already has splits");
}

static void one_of_the_splits_can_be_split_again(void **state)
{
    struct fixture *fixture = *state;
    static const char *const ignored[] = {"*_test.npy"};
    write_case(fixture, "keras_folder");
    fixture->options.ignore_globs = (struct convert_string_list){ignored, 1};
    set_train_val_splits(fixture);
    assert_converts(fixture);
    assert_int_equal(fixture->result.samples_count, 30);
    assert_int_equal(fixture->result.ignored_count, 2);
    assert_string_equal(fixture->result.splits[0].name, "train");
    assert_true(fixture->result.splits[1].samples_count > 0);
}

static void planes_of_colors_are_interleaved(void **state)
{
    struct fixture *fixture = *state;
    write_case(fixture, "planar");
    set_columns(fixture, "images=png", "gray=seg.png");
    assert_converts(fixture);
    check_case(fixture, "planar");
}

static void shards_do_not_depend_on_the_number_of_threads(void **state)
{
    struct fixture *fixture = *state;
    write_case(fixture, "numpy");
    fixture->options.shard_samples = 7;
    fixture->options.workers = 1;
    assert_converts(fixture);
    copy_target(fixture, "copy");
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    fixture->options.workers = 5;
    assert_converts(fixture);
    assert_target_equals(fixture, "copy");
}

static void columns_can_be_renamed_and_left_out(void **state)
{
    struct fixture *fixture = *state;
    char text[256] = "";
    run_python(fixture, "np.save(\"a\", np.array([[1, 2], [3, 4]], \"<u2\"))\n"
                        "np.save(\"b\", np.array([[7], [9]], \"u1\"))\n"
                        "np.save(\"c\", np.array([{}], dtype=object))\n");
    set_columns(fixture, "a=boxes:json", "b=n:int");
    assert_converts(fixture);
    assert_int_equal(test_run_output(text, sizeof text,
                                     "tar -xOf '%s/shard-000000.tar' 00000001.boxes 00000001.n",
                                     fixture->target),
                     0);
    assert_string_equal(text, "[3,4]9");
    assert_contains(fixture->log, "a -> boxes (json), b -> n (json); left out: c");
}

static void a_change_after_the_listing_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    const struct source_ops *ops;
    struct source *source;
    struct err *err = &fixture->err;
    run_python(fixture, "np.save(\"a\", np.zeros((2, 2))); np.save(\"b\", np.zeros(2))");
    set_columns(fixture, "a=npy", "*=json");
    assert_ok(source_probe(fixture->io, &fixture->options, &ops, err), err);
    assert_ok(source_open(fixture->io, &fixture->options, ops, &source, err), err);
    assert_ok(read_source_item(fixture, 0, err, source), err);
    run_python(fixture, "np.save(\"b\", np.ones(2))");
    assert_int_equal(read_source_item(fixture, 0, err, source), -ESTALE);
    assert_contains(err->path, "b.npy");
    source_close(source);
}

static void bad_arrays_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *code, *column;
        int status;
        const char *part;
    } cases[] = {
        {"np.save(\"a\", np.zeros(3)); np.save(\"b\", np.zeros(4))", NULL, -EINVAL,
         "the arrays have different numbers of rows"},
        {"np.save(\"a\", np.asfortranarray(np.zeros((3, 2))))", NULL, -ENOTSUP, "Fortran order"},
        {"np.save(\"a\", np.array([{}], dtype=object))", NULL, -ENOTSUP, "Python objects"},
        {"np.save(\"a\", np.zeros(3, \"<c8\"))", NULL, -ENOTSUP, "elements of another type"},
        {"np.save(\"a\", np.zeros(()))", NULL, -ENOTSUP, "is not a column of rows"},
        {"np.save(\"a\", np.zeros((3, 0)))", NULL, -EFBIG, "rows of 1 to"},
        {"np.save(\"a\", np.zeros(0))", NULL, -ENODATA, "no files to convert"},
        {"np.save(\"a\", np.zeros(9)); os.truncate(\"a.npy\", 150)", NULL, -EBADMSG,
         "another size than its header says"},
        {"open(\"a.npy\", \"w\").write(\"no array\" * 9)", NULL, -EBADMSG, "NUMPY"},
        {"np.save(\"label\", np.array([0, -1]))", NULL, -EBADMSG, "is not a class number: "},
        {"np.save(\"label\", np.array([0, 1 << 20]))", NULL, -EBADMSG,
         "found 1048576 in row 1, counted from 0"},
        {"np.save(\"images\", np.zeros((2, 3, 5, 3), \"u1\"))", NULL, -EINVAL,
         "may have its channels first or last"},
        {"np.save(\"images\", np.zeros((2, 4, 5, 4), \"u1\"))", NULL, -EINVAL, "is not of images"},
        {"np.save(\"a\", np.zeros(2))", "a=jpg", -EINVAL, "png for images"},
        {"np.save(\"a\", np.zeros(2))", "a=txt", -EINVAL, "has another kind"},
        {"np.save(\"a\", np.zeros(2))", "b=npy", -EINVAL, "has no column \"b\""},
        {"np.save(\"a\", np.zeros(2))", "a=:class", -EINVAL, "is not of class numbers"},
        {"np.save(\"A\", np.zeros((2, 2))); np.save(\"a\", np.zeros((2, 2)))", NULL, -EINVAL,
         "has the same field as another"},
        {"np.save(\"a\", np.array([0, np.nan]))", "a=a:float", -EBADMSG, "a number is not finite"},
        {"np.save(\"0001\", np.zeros((3, 2))); np.save(\"0002\", np.zeros((3, 2)))", NULL, -EINVAL,
         "if each file is a sample, add --fields npy"},
        {"np.save(\"x_train\", np.zeros(2)); np.save(\"y_train\", np.zeros(2)); "
         "np.save(\"x_test\", np.zeros(2))",
         NULL, -EINVAL, "has no column \"y\", which another split has"},
        {"np.save(\"a\", np.zeros(2)); np.savez(\"b.npz\", np.zeros(2))", NULL, -ENOTSUP,
         "convert the file itself"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        add_code(fixture, i, cases[i].code);
    run_code(fixture);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char folder[8];
        snprintf(folder, sizeof folder, "%zu", i);
        set_source_file(fixture, folder);
        set_columns(fixture, cases[i].column, NULL);
        fixture->options.splits_count = 0;
        assert_fails(fixture, cases[i].status, cases[i].part);
    }
}

static void bad_npz_files_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *code;
        int status;
        const char *part;
    } cases[] = {
        {"np.savez_compressed(\"a.npz\", x=np.zeros(99)); b = bytearray(open(\"a.npz\", "
         "\"rb\").read()); b[90] ^= 16; open(\"a.npz\", \"wb\").write(b)",
         -EBADMSG, "archive"},
        {"open(\"a.npz\", \"w\").write(\"no archive\" * 9)", -EBADMSG, "a ZIP archive"},
        {"np.savez(\"a.npz\", x=np.zeros(9)); b = open(\"a.npz\", \"rb\").read(); "
         "open(\"a.npz\", \"wb\").write(b[40:])",
         -EBADMSG, "is damaged"},
        {"np.savez(\"a.npz\", x=np.zeros(9)); b = bytearray(open(\"a.npz\", \"rb\").read()); "
         "b[200] ^= 1; open(\"a.npz\", \"wb\").write(b)",
         -EBADMSG, "expected CRC-32 "},
        {"zipfile.ZipFile(\"a.npz\", \"w\").writestr(\"b.txt\", \"b\")", -EBADMSG,
         "only members with names such as images.npy"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        add_code(fixture, i, cases[i].code);
    run_code(fixture);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu/a.npz", i);
        set_source_file(fixture, name);
        assert_fails(fixture, cases[i].status, cases[i].part);
    }
}

static void idx_files_equal_their_arrays(void **state)
{
    struct fixture *fixture = *state;
    write_case(fixture, "mnist");
    write_source(fixture, "train-images-idx3-ubyte.gz", "packed", 6); /* torchvision keeps it */
    assert_converts(fixture);
    check_case(fixture, "mnist");
    assert_int_equal(fixture->result.classes_count, 10);
    assert_int_equal(fixture->result.splits_count, 2);
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    fixture->options.splits_count = 0;
    fixture->options.split_folders = CONVERT_SPLIT_FOLDERS_NO;
    assert_converts(fixture);
    assert_int_equal(fixture->result.splits_count, 0);
    assert_int_equal(fixture->result.samples_count, 70);
    assert_true(has_line(list_members(fixture, ""), "00000069.png"));
}

static void idx_files_of_one_split_or_without_labels_are_converted(void **state)
{
    struct fixture *fixture = *state;
    static const char *const ignored[] = {"train-*", "*-labels-*"};
    write_case(fixture, "mnist");
    fixture->options.ignore_globs = (struct convert_string_list){ignored, 2};
    assert_converts(fixture);
    assert_int_equal(fixture->result.samples_count, 20);
    assert_int_equal(fixture->result.splits_count, 0);
    assert_int_equal(fixture->result.classes_count, 0);
    assert_true(has_line(list_members(fixture, ""), "00000019.png"));
    assert_int_equal(test_run("rm -r '%s' && cd '%s' && for f in images-idx3 labels-idx1; do mv "
                              "t10k-$f-ubyte emnist-letters-test-$f-ubyte; done",
                              fixture->target, fixture->source),
                     0);
    fixture->options.ignore_globs.count = 0;
    assert_fails(fixture, -EINVAL, "several datasets of idx files");
    assert_int_equal(test_run("rm '%s'/train-*", fixture->source), 0);
    assert_converts(fixture);
    assert_int_equal(fixture->result.classes_count, 10);
}

/* Makes a copy of what the source was at the first call, and runs a command in it. */
static void run_on_copy(struct fixture *fixture, const char *command)
{
    assert_int_equal(test_run("cd '%s' && { [ -d good ] || cp -r source good; } && rm -r source && "
                              "cp -r good source && cd source && { %s; }",
                              fixture->folder, command),
                     0);
}

static void bad_idx_files_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *command;
        int status;
        const char *part;
    } cases[] = {
        {"truncate -s -1 train-images-idx3-ubyte", -EBADMSG,
         "expected 39200 bytes after the header, found 39199"},
        {"rm train-images-idx3-ubyte", -ENODATA, "expected images of split train"},
        {"rm t10k-labels-idx1-ubyte", -ENODATA, "expected labels of split test"},
        {"cp t10k-labels-idx1-ubyte train-labels-idx1-ubyte", -EBADMSG, "as many labels as images"},
        {"cp t10k-images-idx3-ubyte t10k-labels-idx1-ubyte", -EBADMSG, "found 3 dimensions"},
        {"printf abcdefghijk >train-labels-idx1-ubyte", -EBADMSG, "two zero bytes"},
        {"printf '\\0\\0\\15\\1abcdef' >train-labels-idx1-ubyte", -ENOTSUP,
         "at 2: expected elements of type 8, bytes, found type 13"},
        {"mv train-labels-idx1-ubyte labels-ubyte", -ENOTSUP, "names such as train-images"},
        {"echo x >other.bin", -ENOTSUP, "a folder of nothing but these files"},
    };
    write_case(fixture, "mnist");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_on_copy(fixture, cases[i].command);
        fixture->options.splits_count = 0;
        assert_fails(fixture, cases[i].status, cases[i].part);
    }
}

static void cifar_files_equal_their_arrays(void **state)
{
    struct fixture *fixture = *state;
    static const char *const ignored[] = {"test*"};
    write_case(fixture, "cifar_10");
    write_source(fixture, "readme.html", "CIFAR", 5);
    assert_converts(fixture);
    check_case(fixture, "cifar_10");
    struct dataset *dataset = open_dataset(fixture, "/test");
    assert_int_equal(dataset->classes_count, 10);
    assert_string_equal(dataset->classes[9], "class 9");
    dataset_close(dataset);
    assert_int_equal(test_run("rm -r '%s' '%s'/*", fixture->target, fixture->source), 0);
    write_case(fixture, "cifar_100");
    fixture->options.splits_count = 0;
    assert_converts(fixture);
    check_case(fixture, "cifar_100");
    assert_int_equal(fixture->result.classes_count, 100);
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    fixture->options.splits_count = 0;
    fixture->options.ignore_globs = (struct convert_string_list){ignored, 1};
    set_columns(fixture, "coarse_label=:class", "image=png");
    assert_converts(fixture);
    assert_int_equal(fixture->result.splits_count, 0);
    dataset = open_dataset(fixture, "");
    assert_int_equal(dataset->samples, 12);
    assert_int_equal(dataset->classes_count, 20);
    assert_string_equal(dataset->classes[19], "class 19");
    dataset_close(dataset);
}

static void bad_cifar_files_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *command;
        int status;
        const char *part;
    } cases[] = {
        {"truncate -s -1 data_batch_2.bin", -EBADMSG, "expected a multiple of 3073 bytes"},
        {"printf '\\12' | dd of=data_batch_3.bin conv=notrunc status=none", -EBADMSG,
         "a label has no class name"},
        {"rm batches.meta.txt; printf '\\12' | dd of=test_batch.bin conv=notrunc status=none",
         -EBADMSG, "expected 0 to 9, found 10"},
        {"sed -i 3d batches.meta.txt", -EBADMSG, "expected 10, found 9"},
        {"echo x >>batches.meta.txt", -EBADMSG, "expected 10, found 11 or more"},
        {"cp test_batch.bin test.bin", -EINVAL, "files of CIFAR-10 and of CIFAR-100"},
        {"rm *.bin", -ENODATA, "no files to convert"},
        {"truncate -s 0 test_batch.bin", -ENODATA, "split test has no rows"},
        {"rm *; touch data_batch_1 batches.meta readme.html", -ENOTSUP,
         "download the binary version"},
        {"rm *; touch file.txt~ meta train test", -ENOTSUP, "CIFAR's Python version"},
    };
    write_case(fixture, "cifar_10");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_on_copy(fixture, cases[i].command);
        fixture->options.splits_count = 0;
        assert_fails(fixture, cases[i].status, cases[i].part);
    }
}

static void values_of_a_beton_file_are_stored_as_they_are(void **state)
{
    struct fixture *fixture = *state;
    write_case(fixture, "beton");
    set_source_file(fixture, "a.beton");
    fixture->options.jpeg = CONVERT_JPEG_KEEP;
    assert_converts(fixture);
    check_case(fixture, "beton");
    assert_contains(fixture->log,
                    "image -> image.jpg or png, label -> class, Second -> second.jpg or png, "
                    "audio -> audio.bin, emb -> emb.npy, others -> json: score, meta");
    copy_target(fixture, "copy");
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    fixture->options.workers = 5;
    assert_converts(fixture);
    assert_target_equals(fixture, "copy");
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    set_columns(fixture, "audio=wav", "image=:image");
    assert_converts(fixture);
    assert_true(has_line(list_members(fixture, ""), "00000000.png"));
    assert_true(has_line(list_members(fixture, ""), "00000001.jpg"));
    assert_true(has_line(list_members(fixture, ""), "00000001.wav"));
    assert_int_equal(test_run("rm -r '%s'", fixture->target), 0);
    set_columns(fixture, "image=jpg", NULL);
    assert_fails(fixture, -EINVAL, "--column 'image=:image'");
    set_columns(fixture, "emb=:class", NULL);
    assert_fails(fixture, -EINVAL, "is not of class numbers");
}

static void bad_beton_files_are_refused(void **state)
{
    struct fixture *fixture = *state;
    /* The fields are image, label, Second, score, audio, emb, meta; rows begin at 7311 and have 88
     * bytes. */
    static const struct {
        const char *patch; /* Python: offset, bytes */
        int status;
        const char *part;
    } cases[] = {
        {"0, b\"\\x01\"", -ENOTSUP, "expected version 2, found 1"},
        {"2, b\"\\x00\"", -EBADMSG, "1 to 63 fields"},
        {"8, b\"\\xff\" * 8", -EBADMSG, "the rows of all samples before the allocations"},
        {"16, b\"\\xff\" * 8", -EBADMSG, "allocations up to the end"},
        {"24, b\"\\xff\"", -ENOTSUP, "type 255 of field \"image\""},
        {"1066, b\"image\\0\"", -EBADMSG, "fields with different names"},
        {"24 + 5 * 1041 + 17 + 264, b\"[[\\\"a\\\"\"", -ENOTSUP, "arrays of numbers"},
        {"7311, b\"\\x02\"", -EBADMSG, "neither a JPEG (0) nor pixels (1): "},
        {"7311, b\"\\x00\"", -EBADMSG, ""},
        {"7311 + 88 + 5, b\"\\xff\"", -EBADMSG, "no allocation has the offset of a JPEG"},
        {"7311 + 16, b\"\\xff\" * 8", -EBADMSG, "found -1 in row 0"},
        {"7311 + 56, b\"\\xff\" * 5", -EBADMSG, "a value lies outside the file"},
        {"len(b) - 24, b\"\\xff\" * 8", -EBADMSG, "an allocation of an FFCV dataset"},
    };
    write_case(fixture, "beton");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char code[512];
        snprintf(code, sizeof code,
                 "b = open(\"../a.beton\", \"rb\").read(); at, new = %s\n"
                 "open(\"a.beton\", \"wb\").write(b[:at] + new + b[at + len(new):])",
                 cases[i].patch);
        add_code(fixture, i, code);
    }
    run_code(fixture);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu/a.beton", i);
        set_source_file(fixture, name);
        assert_fails(fixture, cases[i].status, cases[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(numpy_columns_equal_numpys_rows),
        CASE(members_of_an_npz_file_are_columns),
        CASE(names_of_arrays_state_splits),
        CASE(one_of_the_splits_can_be_split_again),
        CASE(planes_of_colors_are_interleaved),
        CASE(shards_do_not_depend_on_the_number_of_threads),
        CASE(columns_can_be_renamed_and_left_out),
        CASE(a_change_after_the_listing_is_noticed),
        CASE(bad_arrays_are_refused),
        CASE(bad_npz_files_are_refused),
        CASE(idx_files_equal_their_arrays),
        CASE(idx_files_of_one_split_or_without_labels_are_converted),
        CASE(bad_idx_files_are_refused),
        CASE(cifar_files_equal_their_arrays),
        CASE(bad_cifar_files_are_refused),
        CASE(values_of_a_beton_file_are_stored_as_they_are),
        CASE(bad_beton_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
