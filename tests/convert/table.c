/*
 * table: lists in JSON Lines, CSV and TSV, and folders with metadata, become datasets.
 */
#include "convert/source/source.h"
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char list_path[2 * TEST_PATH_BYTES_MAX];

/* Writes source/name and makes it the source. */
static void write_list(struct fixture *fixture, const char *name, const char *text)
{
    write_source(fixture, name, text, strlen(text));
    snprintf(list_path, sizeof list_path, "%s/%s", fixture->source, name);
    fixture->options.source = list_path;
}

static const char *columns[8];
static void set_columns(struct fixture *fixture, const char *first, const char *second,
                        const char *third)
{
    columns[0] = first;
    columns[1] = second;
    columns[2] = third;
    size_t count = 0;
    while (count < 3 && columns[count])
        count++;
    fixture->options.columns = (struct convert_string_list){columns, count};
}

/* The content of a member of the target. */
static const char *read_member(struct fixture *fixture, const char *member)
{
    static char text[4096];
    memset(text, 0, sizeof text);
    assert_int_equal(test_run_output(text, sizeof text, "tar -xOf '%s/shard-000000.tar' '%s'",
                                     fixture->target, member),
                     0);
    return text;
}

static void remove_target(struct fixture *fixture)
{
    assert_int_equal(test_run("rm -rf '%s'", fixture->target), 0);
}

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("\"%s\" is not in: %s", (part), (text));                                      \
    } while (0)

static void a_list_of_photos_is_mapped_by_its_columns(void **state)
{
    struct fixture *fixture = *state;
    write_jpeg(fixture, "a/1.JPEG", 1);
    write_jpeg(fixture, "b/x.2.jpg", 2);
    write_list(fixture, "list.csv",
               "\xef\xbb\xbfimage,label,caption,id\r\n"
               "a/1.JPEG,dog,\"a \"\"good\"\"\r\ndog\",007\r\n"
               "\r\n"
               "./b/x.2.jpg,cat,,\xc3\xa9\r\n");
    fixture->options.keep_order = true;
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""), "a/1.cls\na/1.jpg\na/1.json\na/1.txt\n"
                                                   "b/x_2.cls\nb/x_2.jpg\nb/x_2.json\nb/x_2.txt\n");
    assert_string_equal(read_member(fixture, "a/1.cls"), "1");
    assert_string_equal(read_member(fixture, "a/1.txt"), "a \"good\"\r\ndog");
    assert_string_equal(read_member(fixture, "a/1.json"), "{\"id\":\"007\"}");
    assert_string_equal(read_member(fixture, "b/x_2.json"), "{\"id\":\"\xc3\xa9\"}");
    assert_string_equal(read_member(fixture, "b/x_2.txt"), "");
    assert_contains(fixture->log, "image -> its extension (file), caption -> txt (text), "
                                  "label -> class, others -> json (json): id");
}

static void columns_become_fields_of_their_kind(void **state)
{
    struct fixture *fixture = *state;
    static const char *const mapped[] = {"n=n:int",         "x=x:float",    "ok=ok:bool",
                                         "$.m.t[1]=t:json", "b=bin:base64", "*=json"};
    write_list(fixture, "list.jsonl",
               "{\"n\":-5,\"x\":-225e-2,\"ok\":true,\"m\":{\"t\":[1, [2, null]]},\"b\":\"aGk=\","
               "\"$.m.t[1]\":0,\"r\": [1.0,\"\\u00e9\"]}\n");
    fixture->options.columns = (struct convert_string_list){mapped, 6};
    assert_converts(fixture);
    assert_string_equal(read_member(fixture, "00000000.n"), "-5");
    assert_string_equal(read_member(fixture, "00000000.x"), "-2.25");
    assert_string_equal(read_member(fixture, "00000000.ok"), "true");
    assert_string_equal(read_member(fixture, "00000000.t"), "[2,null]");
    assert_string_equal(read_member(fixture, "00000000.bin"), "hi");
    assert_string_equal(read_member(fixture, "00000000.json"),
                        "{\"m\":{\"t\":[1, [2, null]]},\"$.m.t[1]\":0,\"r\":[1.0,\"\\u00e9\"]}");
    remove_target(fixture);
    write_list(fixture, "list.tsv", "n\tx\tok\tb\n 007 \t.5\tFALSE\taGk\n\t\t\t\n");
    set_columns(fixture, "n=n:int", "x=x:float", "ok=ok:bool");
    columns[3] = "b=bin:base64";
    fixture->options.columns.count = 4;
    assert_converts(fixture);
    assert_string_equal(read_member(fixture, "00000000.n"), "7");
    assert_string_equal(read_member(fixture, "00000000.x"), "0.5");
    assert_string_equal(read_member(fixture, "00000000.ok"), "false");
    assert_string_equal(read_member(fixture, "00000000.bin"), "hi");
    assert_true(has_line(list_members(fixture, ""), "00000001.bin"));
    assert_false(has_line(list_members(fixture, ""), "00000001.n"));
}

static void numeric_classes_keep_their_numbers(void **state)
{
    struct fixture *fixture = *state;
    write_list(fixture, "list.jsonl",
               "{\"text\":\"a\",\"label\":10}\n{\"text\":\"b\",\"label\":2}\n");
    fixture->options.keep_order = true;
    assert_converts(fixture);
    assert_int_equal(fixture->result.classes_count, 11);
    assert_string_equal(read_member(fixture, "00000000.cls"), "10");
    assert_string_equal(read_member(fixture, "00000001.cls"), "2");
}

static void several_files_per_row_are_several_fields(void **state)
{
    struct fixture *fixture = *state;
    write_jpeg(fixture, "1.jpg", 1);
    write_jpeg(fixture, "1_m.jpg", 2);
    write_source(fixture, "1", "raw", 3);
    write_list(fixture, "list.csv", "file_name,mask_file_name,extra\n1.jpg,1_m.jpg,1\n");
    set_columns(fixture, "file_name=:file", "mask_file_name=mask.:image", "extra=bin:file");
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""), "1.bin\n1.jpg\n1.mask.jpg\n");
    assert_string_equal(read_member(fixture, "1.bin"), "raw");
    remove_target(fixture);
    write_list(fixture, "list.csv", "file_name,mask_file_name\n1.jpg,1_m.jpg\n");
    fixture->options.columns.count = 0;
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""), "1.jpg\n1.mask.jpg\n");
}

/* Without an extension, the content names the field. */
static void an_image_is_recognized_by_its_content(void **state)
{
    struct fixture *fixture = *state;
    write_jpeg(fixture, "photo", 1);
    write_list(fixture, "list.csv", "path\nphoto\n");
    set_columns(fixture, "path=:image", NULL, NULL);
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""), "photo.jpg\n");
}

static void lists_are_recognized_by_their_content(void **state)
{
    struct fixture *fixture = *state;
    static const char *const texts[] = {"{\"text\":\"a\"}\n{\"text\":\"b\"}\n", "id\ttext\n1\ta\n",
                                        "id,text\n1,\"a\n\"\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_list(fixture, "list.data", texts[i]);
        assert_converts(fixture);
        assert_true(has_line(list_members(fixture, ""), "00000000.txt"));
        remove_target(fixture);
    }
}

static void invalid_lists_are_refused_before_anything_is_written(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *name, *text, *column, *what, *place, *found;
        int status;
    } cases[] = {
        {"l.csv", "a,b\n1,2\n\n3\n", NULL, "fewer columns", ":4", "1", -EBADMSG},
        {"l.csv", "a,b\n1,2,3\n", NULL, "more columns", ":2", "3", -EBADMSG},
        {"l.csv", "a,a\n1,2\n", NULL, "both named \"a\"", ":1", "", -EBADMSG},
        {"l.csv", "a,\n1,2\n", NULL, "column 2 has no name", ":1", "", -EBADMSG},
        {"l.csv", "a;b\n1;2\n", NULL, "header line has one column", ":1", "", -EBADMSG},
        {"l.csv", "a\n\"1\n2\n", NULL, "quoted value is not closed", ":2", "column 1", -EBADMSG},
        {"l.csv", "a\n\"1\n2\"3\n", NULL, "text follows the quote", ":2", "column 1", -EBADMSG},
        {"l.csv", "a,b\n1,\xff\n", NULL, "not valid UTF-8", ":2", "byte 0xff", -EBADMSG},
        {"l.csv",
         "\xff\xfe"
         "a\n",
         NULL, "UTF-16", "", "", -EBADMSG},
        {"l.csv", "a,b\n", NULL, "no rows", "", "", -ENODATA},
        {"l.csv", "", NULL, "no rows", "", "", -ENODATA},
        {"l.csv", "in.jpg,b\nx,y\n", NULL, "no header line", "", "in.jpg", -EBADMSG},
        {"l.csv", "a,n\nx,1\ny,1.5\n", "n=n:int", "\"n\" has another type", ":3", "\"1.5\"",
         -EBADMSG},
        {"l.csv", "a,n\nx,nan\n", "n=n:float", "\"n\" has another type", ":2", "\"nan\"", -EBADMSG},
        {"l.csv", "a,n\nx,yes\n", "n=n:bool", "\"n\" has another type", ":2", "yes", -EBADMSG},
        {"l.csv", "a,n\nx,{\n", "n=n:json", "\"n\" has another type", ":2", "\"{\"", -EBADMSG},
        {"l.csv", "a,n\nx,a*==\n", "n=n:base64", "\"n\" has another type", ":2", "a*", -EBADMSG},
        {"l.csv", "a,n\nx,\n", "n=:class", "\"n\" has no value", ":2", "", -EBADMSG},
        {"l.csv", "a,n\nx,1\n", "m=n:int", "no column \"m\"", "", "", -EINVAL},
        {"l.csv", "a,$.b\nx,1\n", "$.b=n:int", "no column \"$.b\"", "", "", -EINVAL},
        {"l.csv", "f\nin.jpg\nout.jpg\n", "f=:file", "does not exist", ":3", "out.jpg", -ENOENT},
        {"l.csv", "f\nsub\n", "f=jpg:file", "not a regular file", ":2", "sub", -ENOENT},
        {"l.csv", "f\nnone\n", "f=:file", "extension cannot be a field", ":2", "none", -EBADMSG},
        {"l.csv", "f\nhttp://x/in.jpg\n", "f=:file", "does not exist", ":2", "http", -ENOENT},
        {"l.csv", "image,x\nout.jpg,1\n", NULL, "its first one names no file", ":2", "image",
         -EINVAL},
        {"l.csv", "a,b\nin.jpg,in2.jpg\n", NULL, "several columns hold paths", ":2", "a, b",
         -EINVAL},
        {"l.csv", "*,x\nin.jpg,1\n", NULL, "another meaning in --column", ":2", "\"*\"", -EINVAL},
        {"l.jsonl", "{\"$img\":\"in.jpg\"}\n", NULL, "another meaning in --column", ":1", "$img",
         -EINVAL},
        {"l.jsonl", "{\"text\":\"a\"}\n\n{\"text\":\"a\",\"text\":\"b\"}\n", NULL, "not valid JSON",
         ":3", "duplicate", -EBADMSG},
        {"l.jsonl", "[1]\n", NULL, "not a JSON object", ":1", "array", -EBADMSG},
        {"l.jsonl", "{\"a\":1}\n{\"a\":\n", NULL, "not valid JSON", ":2", "", -EBADMSG},
        {"l.jsonl", "{\"a\":\"1\"}\n", "a=a:int", "another type", ":1", "the string \"1\"",
         -EBADMSG},
        {"l.jsonl", "{\"a\":1}\n", "a=txt", "another type", ":1", "an integer", -EBADMSG},
        {"l.jsonl", "{\"a\":1}\n", "b=txt", "no value in any mapped column", ":1", "", -EBADMSG},
        {"l.jsonl", "{\"a\":1}\n", "b=:class", "\"b\" has no value", ":1", "", -EBADMSG},
    };
    write_jpeg(fixture, "in.jpg", 1);
    write_jpeg(fixture, "in2.jpg", 1);
    write_jpeg(fixture, "sub/x.jpg", 1);
    write_source(fixture, "none", "x", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char place[64];
        write_list(fixture, cases[i].name, cases[i].text);
        set_columns(fixture, cases[i].column, NULL, NULL);
        print_message("%s %s\n", cases[i].text, cases[i].column ? cases[i].column : "");
        int status = convert(fixture);
        assert_contains(fixture->err.what, cases[i].what);
        assert_int_equal(status, cases[i].status);
        snprintf(place, sizeof place, "%s%s", cases[i].name, cases[i].place);
        if (!str_ends_with(fixture->err.path, place))
            fail_msg("%s is not %s", fixture->err.path, place);
        assert_contains(fixture->err.found, cases[i].found);
        assert_no_target(fixture);
    }
}

static void invalid_mappings_are_wrong_usage(void **state)
{
    struct fixture *fixture = *state;
    static const char *const cases[][2] = {
        {"text", NULL},          {"=txt", NULL},        {"text=", NULL},
        {"text=txt:word", NULL}, {"text=score", NULL},  {"text=Txt:text", NULL},
        {"$.a[=txt", NULL},      {"*=txt", NULL},       {"#=txt", NULL},
        {"text=x:class", NULL},  {"text=:text", NULL},  {"text=:key", NULL},
        {"a=txt", "b=txt"},      {"a=:class", "b=cls"}, {"a=:key", "#=:key"},
        {"a=.x:int", NULL},      {"a=mp3:image", NULL}};
    write_list(fixture, "l.jsonl", "{\"text\":\"a\"}\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set_columns(fixture, cases[i][0], cases[i][1], NULL);
        print_message("%s\n", cases[i][0]);
        assert_int_equal(convert(fixture), -EINVAL);
        assert_contains(fixture->err.what, "--column");
        assert_no_target(fixture);
    }
}

static void rows_with_the_same_key_are_named(void **state)
{
    struct fixture *fixture = *state;
    write_jpeg(fixture, "a.b.jpg", 1);
    write_list(fixture, "l.csv", "f,t\na.b.jpg,x\n\na.b.jpg,y\n");
    assert_int_equal(convert(fixture), -EEXIST);
    assert_contains(fixture->err.what, "\"a_b\"");
    assert_string_equal(fixture->err.found, "it in lines 2 and 4");
    assert_no_target(fixture);
    set_columns(fixture, "f=:file", "#=:key", NULL);
    assert_converts(fixture);
    assert_true(has_line(list_members(fixture, ""), "00000001.jpg"));
}

static void bad_rows_can_be_skipped(void **state)
{
    struct fixture *fixture = *state;
    write_jpeg(fixture, "1.jpg", 1);
    write_jpeg(fixture, "2.jpg", 2);
    write_list(fixture, "l.csv", "f,n\n1.jpg,1\nx.jpg,2\n2.jpg,z\n2.jpg,4\n3.jpg\n");
    set_columns(fixture, "f=:file", "n=n:int", NULL);
    fixture->options.skip_errors = true;
    assert_converts(fixture);
    assert_int_equal(fixture->result.samples_count, 2);
    assert_int_equal(fixture->result.skipped_count, 3);
    assert_contains(fixture->log, "l.csv:3: ");
    assert_contains(fixture->log, "l.csv:4: ");
    assert_contains(fixture->log, "l.csv:6: ");
}

static void any_number_of_threads_gives_the_same_bytes(void **state)
{
    struct fixture *fixture = *state;
    enum { ROWS = 3000 };
    struct str text = {0};
    for (int i = 0; i < ROWS; i++)
        str_add_format(&text, "{\"text\":\"%0*d\",\"label\":\"c%d\",\"n\":%d}\n", i % 90, i, i % 7,
                       i);
    write_list(fixture, "l.jsonl", text.data);
    str_deinit(&text);
    fixture->options.shard_bytes = 1 << 20;
    set_train_val_splits(fixture);
    fixture->options.workers = 1;
    assert_converts(fixture);
    assert_int_equal(fixture->result.samples_count, ROWS);
    copy_target(fixture, "one");
    for (unsigned workers = 2; workers < 6; workers++) {
        remove_target(fixture);
        fixture->options.workers = workers;
        assert_converts(fixture);
        assert_target_equals(fixture, "one");
    }
}

/* Larger than a block, with rows across its end. */
static void rows_span_blocks(void **state)
{
    struct fixture *fixture = *state;
    enum { ROWS = 90, ROW_BYTES = 100001 };
    struct str text = {0};
    str_add_text(&text, "id,text\n");
    for (int i = 0; i < ROWS; i++) {
        str_add_format(&text, "k%d,\"", i);
        str_add_fill(&text, i % 2 ? '\n' : 'x', ROW_BYTES);
        str_add_text(&text, "\"\n");
    }
    write_list(fixture, "l.csv", text.data);
    str_deinit(&text);
    set_columns(fixture, "text=txt", "id=:key", NULL);
    assert_converts(fixture);
    assert_int_equal(fixture->result.samples_count, ROWS);
    for (int i = 0; i < ROWS; i += 7)
        assert_int_equal(test_run("test $(tar -xOf '%s/shard-000000.tar' k%d.txt | wc -c) = %d",
                                  fixture->target, i, ROW_BYTES),
                         0);
}

static void a_change_after_the_listing_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    const struct source_ops *ops;
    struct source *source;
    struct err err = {0};
    write_jpeg(fixture, "1.jpg", 1);
    write_jpeg(fixture, "2.jpg", 2);
    write_list(fixture, "l.csv", "f\n1.jpg\n2.jpg\n");
    fixture->options.keep_order = true;
    assert_ok(source_probe(fixture->io, &fixture->options, &ops, &err), &err);
    assert_ok(source_open(fixture->io, &fixture->options, ops, &source, &err), &err);
    assert_ok(read_source_item(fixture, 0, &err, source), &err);
    write_jpeg(fixture, "1.jpg", 3);
    assert_int_equal(read_source_item(fixture, 0, &err, source), -ESTALE);
    assert_contains(err.path, "1.jpg");
    assert_ok(read_source_item(fixture, 1, &err, source), &err);
    write_list(fixture, "l.csv", "f\n2.jpg\n1.jpg\n");
    assert_int_equal(read_source_item(fixture, 1, &err, source), -ESTALE);
    assert_contains(err.path, "l.csv");
    source_close(source);
}

static void write_metadata(struct fixture *fixture, const char *name, const char *text)
{
    write_source(fixture, name, text, strlen(text));
}

static void a_folder_with_metadata_has_a_row_per_file(void **state)
{
    struct fixture *fixture = *state;
    write_jpeg(fixture, "train/sub/1.jpg", 1);
    write_jpeg(fixture, "train/2.jpg", 2);
    write_jpeg(fixture, "test/1.jpg", 3);
    write_metadata(fixture, "train/metadata.csv", "file_name,text\nsub/1.jpg,one\n2.jpg,two\n");
    write_metadata(fixture, "test/metadata.jsonl",
                   "{\"file_name\":\"1.jpg\",\"text\":\"three\"}\n");
    write_metadata(fixture, "train/README.md", "x");
    assert_converts(fixture);
    assert_int_equal(fixture->result.splits_count, 2);
    assert_string_equal(list_members(fixture, "/test"), "1.jpg\n1.txt\n");
    assert_true(has_line(list_members(fixture, "/train"), "sub/1.txt"));
    remove_target(fixture);
    write_jpeg(fixture, "test/9.jpg", 3);
    assert_int_equal(convert(fixture), -ENOTSUP);
    assert_contains(fixture->err.found, "test/9.jpg");
    write_metadata(fixture, "test/metadata.jsonl",
                   "{\"file_name\":\"8.jpg\",\"text\":\"three\"}\n");
    assert_int_equal(convert(fixture), -ENOENT);
    assert_contains(fixture->err.path, "metadata.jsonl:1");
    assert_contains(fixture->err.found, "8.jpg");
}

static void unclear_metadata_is_refused(void **state)
{
    struct fixture *fixture = *state;
    write_jpeg(fixture, "train/1.jpg", 1);
    write_jpeg(fixture, "test/1.jpg", 3);
    write_metadata(fixture, "metadata.csv", "file_name,text\ntrain/1.jpg,a\ntest/1.jpg,b\n");
    assert_int_equal(convert(fixture), -EINVAL);
    assert_contains(fixture->err.advice, "--split-folders no");
    fixture->options.split_folders = CONVERT_SPLIT_FOLDERS_NO;
    assert_converts(fixture);
    remove_target(fixture);
    write_metadata(fixture, "metadata.jsonl", "{\"file_name\":\"train/1.jpg\"}\n");
    assert_int_equal(convert(fixture), -EINVAL);
    assert_contains(fixture->err.what, "both metadata.csv and metadata.jsonl");
    assert_int_equal(
        test_run("cd '%s' && rm metadata.jsonl && mv metadata.csv train", fixture->source), 0);
    fixture->options.split_folders = CONVERT_SPLIT_FOLDERS_AUTO;
    assert_int_equal(convert(fixture), -ENOENT);
    assert_contains(fixture->err.path, "test");
    write_metadata(fixture, "test/metadata.csv", "name\n1.jpg\n");
    assert_int_equal(convert(fixture), -EINVAL);
    assert_no_target(fixture);
}

static void other_lists_come_with_advice(void **state)
{
    struct fixture *fixture = *state;
    static const char *const cases[][3] = {
        {"l.parquet", "PAR1", "JSON Lines"},
        {"l.sqlite", "SQLite format 3", "sqlite3"},
        {"l.json", "[{\"a\":1}]\n", "jq -c"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_list(fixture, cases[i][0], cases[i][1]);
        assert_int_equal(convert(fixture), -ENOTSUP);
        assert_contains(fixture->err.advice, cases[i][2]);
    }
    write_list(fixture, "l.csv.gz", "x");
    assert_int_equal(convert(fixture), -EBADMSG);
    assert_contains(fixture->err.what, "not compressed, in spite of its name");
    write_list(fixture, "l.csv", "text\na\n");
    fixture->options.tokenizer = "bytes";
    assert_int_equal(convert(fixture), -EINVAL);
    assert_contains(fixture->err.what, "--tokenizer");
    fixture->options.tokenizer = NULL;
    write_list(fixture, "l.txt", "text,x\na,b\n");
    set_columns(fixture, "text=txt", NULL, NULL);
    assert_int_equal(convert(fixture), -EINVAL);
    assert_contains(fixture->err.what, "--column is for lists");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_list_of_photos_is_mapped_by_its_columns),
        CASE(columns_become_fields_of_their_kind),
        CASE(numeric_classes_keep_their_numbers),
        CASE(several_files_per_row_are_several_fields),
        CASE(an_image_is_recognized_by_its_content),
        CASE(lists_are_recognized_by_their_content),
        CASE(invalid_lists_are_refused_before_anything_is_written),
        CASE(invalid_mappings_are_wrong_usage),
        CASE(rows_with_the_same_key_are_named),
        CASE(bad_rows_can_be_skipped),
        CASE(any_number_of_threads_gives_the_same_bytes),
        CASE(rows_span_blocks),
        CASE(a_change_after_the_listing_is_noticed),
        CASE(a_folder_with_metadata_has_a_row_per_file),
        CASE(unclear_metadata_is_refused),
        CASE(other_lists_come_with_advice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
