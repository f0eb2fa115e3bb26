/*
 * voc: Pascal VOC datasets become samples of an image with boxes, its annotation file and masks.
 */
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <string.h>

#define BOX(x0, y0, x1, y1)                                                                        \
    "<bndbox><xmin>" #x0 "</xmin><ymin>" #y0 "</ymin><xmax>" #x1 "</xmax><ymax>" #y1               \
    "</ymax></bndbox>"
#define OBJECT "<object><name>b</name>" BOX(1, 2, 3, 4) "</object>"

static void write_text(struct fixture *fixture, const char *relative, const char *text)
{
    write_source(fixture, relative, text, strlen(text));
}

static void write_dataset(struct fixture *fixture)
{
    write_jpeg(fixture, "JPEGImages/1.jpg", 1);
    write_jpeg(fixture, "JPEGImages/2.JPEG", 2);
    write_text(fixture, "Annotations/1.xml", "<annotation>" OBJECT "</annotation>");
    fixture->options.keep_order = true;
}

static const char *read_member(struct fixture *fixture, const char *member)
{
    static char text[4096];
    memset(text, 0, sizeof text);
    assert_int_equal(test_run_output(text, sizeof text, "tar -xOf '%s/shard-000000.tar' '%s'",
                                     fixture->target, member),
                     0);
    return text;
}

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("\"%s\" is not in: %s", (part), (text));                                      \
    } while (0)

static void without_lists_all_images_are_taken(void **state)
{
    struct fixture *fixture = *state;
    write_dataset(fixture);
    write_text(
        fixture, "Annotations/1.xml",
        "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n<annotation><size><width>24</width>"
        "<height>24</height></size><object><name> caf\xe9 &amp; x\n</name>" BOX(
            1.5, 0, 24,
            24) "<difficult>1</difficult><part><name>y</name>" BOX(1, 1, 1, 1) "</part></object></"
                                                                               "annotation>");
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""), "1.jpg\n1.json\n1.xml\n2.jpg\n2.json\n");
    assert_string_equal(read_member(fixture, "1.json"),
                        "{\"width\":24,\"height\":24,\"boxes\":[[0.5,-1,24,24]],\"classes\":[0],"
                        "\"difficult\":[1],\"truncated\":[0],\"occluded\":[0]}");
    assert_string_equal(read_member(fixture, "2.json"),
                        "{\"boxes\":[],\"classes\":[],\"difficult\":[],\"truncated\":[],"
                        "\"occluded\":[]}");
    assert_contains(fixture->log, "1 images have no annotation file");
}

static void invalid_annotations_are_refused_before_anything_is_written(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *text, *what, *place, *found; /* place: where the offset is; NULL: at the end */
    } cases[] = {
        {"", "not valid XML", NULL, "no element"},
        {"<annotation><object></annotation>", "not valid XML", NULL, "mismatched"},
        {"<!DOCTYPE a [<!ENTITY b \"c\">]><annotation/>", "document type", "[<!ENTITY", ""},
        {"<a></a>", "not an annotation file", "</a>", ""},
        {"<annotation><object><name>a</name></object></annotation>", "not complete", "</object>",
         ""},
        {"<annotation><object>" BOX(1, 2, 3, 4) "</object></annotation>", "not complete",
         "</object>", ""},
        {"<annotation><object><name> </name></object></annotation>", "no class", "</name>", ""},
        {"<annotation><object><name>a</name>" BOX(4, 2, 3, 4) "</object></annotation>",
         "negative width", "</object>", "4 2 3 4"},
        {"<annotation><object><name>a</name>" BOX(1, x, 3, 4) "</object></annotation>",
         "not a number", "</ymin>", "\"x\""},
        {"<annotation><object><name>a</name>" BOX(nan, 1, 3, 4) "</object></annotation>",
         "not a number", "</xmin>", "\"nan\""},
        {"<annotation><object><name>a</name>" BOX(1, 1, 1e10, 4) "</object></annotation>",
         "not a number", "</xmax>", "\"1e10\""},
        {"<annotation><object><name>a</name>" BOX(1, 1, 2, 4)
             BOX(1, 1, 2, 4) "</object></annotation>",
         "two boxes", NULL, ""},
        {"<annotation><size><width>2.5</width></size></annotation>", "not a size", "</width>", ""},
        {"<annotation><object><difficult>2</difficult></object></annotation>", "not a truth value",
         "</difficult>", "\"2\""},
    };
    write_dataset(fixture);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_text(fixture, "Annotations/1.xml", cases[i].text);
        print_message("%s\n", cases[i].text);
        assert_int_equal(convert(fixture), -EBADMSG);
        assert_contains(fixture->err.what, cases[i].what);
        assert_contains(fixture->err.path, "Annotations/1.xml");
        assert_contains(fixture->err.found, cases[i].found);
        if (cases[i].place)
            assert_int_equal(fixture->err.offset,
                             strstr(cases[i].text, cases[i].place) - cases[i].text);
        assert_no_target(fixture);
    }
}

static void assert_refused(struct fixture *fixture, int status, const char *what, const char *path,
                           int64_t offset)
{
    assert_int_equal(convert(fixture), status);
    assert_contains(fixture->err.what, what);
    assert_contains(fixture->err.path, path);
    assert_int_equal(fixture->err.offset, offset);
    assert_no_target(fixture);
}

static void lists_name_images_that_exist_once(void **state)
{
    struct fixture *fixture = *state;
    static const char *const globs[] = {"cat_*.txt"};
    write_dataset(fixture);
    write_text(fixture, "Annotations/3.xml", "<annotation/>");
    assert_refused(fixture, -ENOENT, "image of an annotation file", "Annotations/3.xml",
                   ERR_NO_OFFSET);
    write_text(fixture, "ImageSets/Main/trainval.txt", "1\r\n\n3\n");
    assert_refused(fixture, -ENOENT, "an image does not exist", "Main/trainval.txt", 4);
    write_text(fixture, "ImageSets/Main/trainval.txt", "1\n1\n");
    assert_refused(fixture, -EEXIST, "same key", "Main/trainval.txt", 2);
    write_text(fixture, "ImageSets/Main/trainval.txt", "../JPEGImages/1\n");
    assert_refused(fixture, -ENOENT, "an image does not exist", "Main/trainval.txt", 0);
    write_text(fixture, "ImageSets/Main/trainval.txt", "1 -1\n");
    assert_refused(fixture, -EBADMSG, "another format", "Main/trainval.txt", 0);
    write_text(fixture, "ImageSets/Main/trainval.txt", "\n");
    assert_refused(fixture, -ENODATA, "names no images", "Main/trainval.txt", ERR_NO_OFFSET);
    write_text(fixture, "ImageSets/Main/trainval.txt", "2\n1");
    write_text(fixture, "ImageSets/Main/cat_train.txt", "2 1\n");
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""), "2.jpg\n2.json\n1.jpg\n1.json\n1.xml\n");
    assert_int_equal(
        test_run("rm -r '%s' '%s/ImageSets/Main/trainval.txt'", fixture->target, fixture->source),
        0);
    write_text(fixture, "ImageSets/Main/other.txt", "1\n");
    assert_refused(fixture, -EBADMSG, "another format", "Main/cat_train.txt", 0);
    fixture->options.ignore_globs = (struct convert_string_list){globs, 1};
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""), "1.jpg\n1.json\n1.xml\n");
}

static void annotations_of_two_kinds_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const char *const globs[] = {"annotations"};
    write_dataset(fixture);
    write_text(fixture, "annotations/x.json", "{}");
    assert_int_equal(convert(fixture), -EINVAL);
    assert_contains(fixture->err.advice, "--ignore annotations");
    fixture->options.ignore_globs = (struct convert_string_list){globs, 1};
    assert_converts(fixture);
}

static void masks_stay_as_they_are(void **state)
{
    struct fixture *fixture = *state;
    write_dataset(fixture);
    write_text(fixture, "SegmentationClass/1.png", "a mask");
    fixture->options.store = CONVERT_STORE_RAW;
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""),
                        "1.json\n1.ppm\n1.seg.png\n1.xml\n2.json\n2.ppm\n");
    write_jpeg(fixture, "JPEGImages/1.png", 1);
    fixture->options.force = true;
    assert_int_equal(convert(fixture), -EEXIST);
    assert_contains(fixture->err.what, "differ only in their extensions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(without_lists_all_images_are_taken),
        CASE(invalid_annotations_are_refused_before_anything_is_written),
        CASE(lists_name_images_that_exist_once),
        CASE(annotations_of_two_kinds_are_refused),
        CASE(masks_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
