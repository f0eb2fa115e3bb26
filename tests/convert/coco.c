/*
 * coco: COCO datasets become samples of an image with boxes and captions; what is not clear is
 * refused where it is in the annotation file.
 */
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CATEGORIES ",\"categories\":[{\"id\":7,\"name\":\"b\"},{\"id\":3,\"name\":\"a\"}]}"
#define IMAGE_1    "{\"id\":5,\"file_name\":\"1.jpg\",\"width\":24,\"height\":24}"
#define IMAGE_2    "{\"id\":4,\"file_name\":\"2.jpg\"}"
#define IMAGES     "{\"images\":[" IMAGE_1 "," IMAGE_2 "],"
#define BOX(members)                                                                               \
    "{\"id\":1,\"image_id\":5,\"category_id\":7,\"bbox\":[1,2,3.50,4e0]" members "}"
#define OTHER_BOX "{\"id\":2,\"image_id\":5,\"category_id\":3,\"bbox\":[0,0,0,1]}"
#define ONE_BOX   IMAGES "\"annotations\":[" BOX("") "]" CATEGORIES

static void write_json(struct fixture *fixture, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "annotations/%s", name);
    write_source(fixture, path, text, strlen(text));
}

static void write_images(struct fixture *fixture, const char *folder)
{
    char path[512];
    for (unsigned i = 1; i <= 2; i++) {
        snprintf(path, sizeof path, "%s/%u.jpg", folder, i);
        write_jpeg(fixture, path, i);
    }
}

/* The content of a member of the target, below it. */
static const char *read_member(struct fixture *fixture, const char *folder, const char *member)
{
    static char text[4096];
    memset(text, 0, sizeof text);
    assert_int_equal(test_run_output(text, sizeof text, "tar -xOf '%s/%s/shard-000000.tar' '%s'",
                                     fixture->target, folder, member),
                     0);
    return text;
}

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("\"%s\" is not in: %s", (part), (text));                                      \
    } while (0)

static void boxes_and_classes_are_arrays(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.keep_order = true;
    write_images(fixture, "images");
    write_json(fixture, "instances.json",
               IMAGES
               "\"annotations\":[" BOX(",\"iscrowd\":1,\"area\":2.5,\"score\":1") "," OTHER_BOX
                                                                                  "]" CATEGORIES);
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""), "1.jpg\n1.json\n2.jpg\n2.json\n");
    assert_string_equal(read_member(fixture, "", "1.json"),
                        "{\"image_id\":5,\"width\":24,\"height\":24,\"boxes\":[[1,2,3.5,4],"
                        "[0,0,0,1]],\"classes\":[1,0],\"category_ids\":[7,3],\"iscrowd\":[1,0],"
                        "\"ids\":[1,2]}");
    assert_string_equal(read_member(fixture, "", "2.json"),
                        "{\"image_id\":4,\"boxes\":[],\"classes\":[],\"category_ids\":[],"
                        "\"iscrowd\":[],\"ids\":[]}");
    struct dataset *dataset = open_dataset(fixture, "");
    assert_int_equal(dataset->classes_count, 2);
    assert_string_equal(dataset->classes[0], "a");
    assert_string_equal(dataset->classes[1], "b");
    dataset_close(dataset);
    assert_contains(fixture->log, "left out of the annotations: score");
}

static void splits_become_datasets_with_common_classes(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.keep_order = true;
    write_images(fixture, "images/train");
    write_images(fixture, "val");
    write_json(fixture, "instances_train.json", ONE_BOX);
    write_json(fixture, "instances_val.json",
               "{\"categories\":[{\"id\":9,\"name\":\"c\"}],\"annotations\":[],\"images\":[" IMAGE_2
               "]}");
    write_json(fixture, "captions_val.json",
               IMAGES "\"annotations\":[{\"id\":1,\"image_id\":5,\"caption\":\"x\\ny\"},"
                      "{\"id\":0,\"image_id\":5,\"caption\":\"z\"}]}");
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, "/train"), "1.jpg\n1.json\n2.jpg\n2.json\n");
    assert_string_equal(read_member(fixture, "val", "1.captions.json"), "[\"x\\u000ay\",\"z\"]");
    assert_string_equal(read_member(fixture, "val", "1.txt"), "x\ny");
    assert_string_equal(read_member(fixture, "val", "2.captions.json"), "[]");
    assert_contains(read_member(fixture, "val", "1.json"), "\"image_id\":5");
    assert_contains(read_member(fixture, "val", "1.json"), "\"boxes\":[]");
    struct dataset *dataset = open_dataset(fixture, "/train");
    assert_int_equal(dataset->classes_count, 3);
    dataset_close(dataset);
}

static void invalid_annotations_are_refused_before_anything_is_written(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *text, *what, *place, *found; /* place: where the offset is; NULL: none */
        int status;
    } cases[] = {
        {"[1]", "not valid JSON", "[1]", "\"[\"", -EBADMSG},
        {IMAGES "\"annotations\":[" BOX("") ",}" CATEGORIES, "not valid JSON", "}" CATEGORIES,
         "\"}\"", -EBADMSG},
        {IMAGES "\"annotations\":[" BOX(",\"area\":1.") "]" CATEGORIES, "not valid JSON",
         "}]" CATEGORIES, "", -EBADMSG},
        {IMAGES "\"annotations\":[" BOX(""), "not valid JSON", "", "end of the file", -EBADMSG},
        {IMAGES "\"annotations\":{}" CATEGORIES, "not an annotation file", "{}", "", -EBADMSG},
        {IMAGES "\"images\":[]}", "not an annotation file", "[]}", "", -EBADMSG},
        {IMAGES "\"annotations\":[]}", "not an annotation file", NULL, "", -EBADMSG},
        {"{\"annotations\":[]" CATEGORIES, "not an annotation file", NULL, "", -EBADMSG},
        {"{\"images\":[" IMAGE_1 ",{\"id\":\"4\",\"file_name\":\"2.jpg\"}]}", "no id",
         "{\"id\":\"4", "", -EBADMSG},
        {"{\"images\":[{\"id\":4}]}", "no id or file name", "{\"id\":4", "", -EBADMSG},
        {"{\"images\":[{\"id\":4,\"file_name\":\"1.jpg\",\"width\":-1}]}", "no valid size",
         "{\"id\":4", "", -EBADMSG},
        {IMAGES "\"annotations\":[" BOX("") ",{\"image_id\":5}]" CATEGORIES, "no valid box",
         "{\"image_id\":5}", "", -EBADMSG},
        {IMAGES "\"annotations\":[{\"id\":6,\"image_id\":5,\"category_id\":7,\"bbox\":[1,2,-3,4]}"
                "]" CATEGORIES,
         "negative width", "{\"id\":6", "annotation 6", -EBADMSG},
        {IMAGES "\"annotations\":[{\"image_id\":5,\"category_id\":7,\"bbox\":[1,2,3]}]" CATEGORIES,
         "no valid box", "{\"image_id\":5", "", -EBADMSG},
        {IMAGES "\"annotations\":[{\"image_id\":5,\"bbox\":[1,2,3,4]}]" CATEGORIES, "no category",
         "{\"image_id\":5", "", -EBADMSG},
        {IMAGES "\"annotations\":[{\"bbox\":[1,2,3,4]}]" CATEGORIES, "no image", "{\"bbox", "",
         -EBADMSG},
        {IMAGES "\"annotations\":[" BOX(",\"iscrowd\":2") "]" CATEGORIES, "not valid",
         BOX(",\"iscrowd\":2"), "annotation 1", -EBADMSG},
        {IMAGES "\"annotations\":[" BOX(",\"keypoints\":[1,2]") "]" CATEGORIES, "keypoints",
         BOX(",\"keypoints\":[1,2]"), "", -EBADMSG},
        {IMAGES "\"annotations\":[" BOX(",\"keypoints\":[1,2,1]") "," BOX(
             ",\"keypoints\":[1,2,1,3,4,1]") "]" CATEGORIES,
         "different numbers of keypoints", BOX(",\"keypoints\":[1,2,1,3,4,1]"), "2, and before 1",
         -EBADMSG},
        {IMAGES "\"annotations\":[" BOX("") ",{\"id\":2,\"image_id\":6,\"category_id\":7,"
                                            "\"bbox\":[1,2,3,4]}]" CATEGORIES,
         "not listed", "{\"id\":2,\"image_id\":6", "6", -EBADMSG},
        {IMAGES "\"annotations\":[{\"id\":2,\"image_id\":5,\"category_id\":8,\"bbox\":[1,2,3,4]}"
                "]" CATEGORIES,
         "not listed", "{\"id\":2,\"image_id\":5", "8", -EBADMSG},
        {"{\"images\":[" IMAGE_1
         ",{\"id\":5,\"file_name\":\"2.jpg\"}],\"annotations\":[]" CATEGORIES,
         "same id", "{\"id\":5,\"file_name\":\"2", "5", -EBADMSG},
        {"{\"images\":[" IMAGE_1
         ",{\"id\":6,\"file_name\":\"1.jpg\"}],\"annotations\":[]" CATEGORIES,
         "same key", "{\"id\":6", "\"images/1.jpg\" and \"1.jpg\"", -EEXIST},
        {"{\"images\":[" IMAGE_1
         ",{\"id\":6,\"file_name\":\"3.jpg\"}],\"annotations\":[]" CATEGORIES,
         "an image does not exist", "{\"id\":6", "images/3.jpg", -ENOENT},
        {"{\"images\":[" IMAGE_1
         ",{\"id\":6,\"file_name\":\"a/../1.jpg\"}],\"annotations\":[]" CATEGORIES,
         "leaves the folder", "{\"id\":6", "a/../1.jpg", -EBADMSG},
        {"{\"images\":[" IMAGE_1
         ",{\"id\":6,\"file_name\":\"/1.jpg\"}],\"annotations\":[]" CATEGORIES,
         "leaves the folder", "{\"id\":6", "/1.jpg", -EBADMSG},
        {"{\"images\":[" IMAGE_1
         ",{\"id\":6,\"file_name\":\"1.tif\"}],\"annotations\":[]" CATEGORIES,
         "not the name of an image", "{\"id\":6", "1.tif", -EBADMSG},
        {"{\"images\":[{\"id\":6,\"file_name\":\"x.jpg\"}],\"annotations\":[]" CATEGORIES,
         "in no folder", "{\"id\":6", "x.jpg", -ENOENT},
        {IMAGES
         "\"annotations\":[],\"categories\":[{\"id\":1,\"name\":\"a\"},{\"id\":1,\"name\":\"b\"}]}",
         "two names", "{\"id\":1,\"name\":\"b", "1 \"b\", and before 1 \"a\"", -EINVAL},
        {IMAGES
         "\"annotations\":[],\"categories\":[{\"id\":1,\"name\":\"a\"},{\"id\":2,\"name\":\"a\"}]}",
         "same name", "{\"id\":2", "2 \"a\", and before 1", -EINVAL},
    };
    fixture->options.keep_order = true;
    write_images(fixture, "images");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_json(fixture, "x.json", cases[i].text);
        print_message("%s\n", cases[i].text);
        int status = convert(fixture);
        assert_contains(fixture->err.what, cases[i].what);
        assert_int_equal(status, cases[i].status);
        if (!str_ends_with(fixture->err.path, "annotations/x.json"))
            fail_msg("%s is not named", fixture->err.path);
        assert_contains(fixture->err.found, cases[i].found);
        const char *place = !cases[i].place   ? NULL
                            : *cases[i].place ? strstr(cases[i].text, cases[i].place)
                                              : cases[i].text + strlen(cases[i].text);
        assert_int_equal(fixture->err.offset, place ? place - cases[i].text : ERR_NO_OFFSET);
        assert_no_target(fixture);
    }
}

static void an_image_of_another_size_is_refused(void **state)
{
    struct fixture *fixture = *state;
    fixture->options.keep_order = true;
    write_images(fixture, "images");
    write_json(fixture, "x.json",
               "{\"images\":[{\"id\":5,\"file_name\":\"1.jpg\",\"width\":25,\"height\":24}],"
               "\"annotations\":[]" CATEGORIES);
    assert_int_equal(convert(fixture), -EBADMSG);
    assert_contains(fixture->err.what, "another size");
    assert_contains(fixture->err.path, "images/1.jpg");
    assert_contains(fixture->err.expected, "25 x 24 pixels, by ");
    assert_contains(fixture->err.expected, "annotations/x.json");
    assert_string_equal(fixture->err.found, "24 x 24");
    fixture->options.jpeg = CONVERT_JPEG_REENCODE;
    fixture->options.max_side = 20;
    assert_int_equal(convert(fixture), -EINVAL);
    assert_contains(fixture->err.advice, "--max-side 65500");
}

static void ambiguous_layouts_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const char *const globs[] = {"annotations/y.json"};
    fixture->options.keep_order = true;
    write_images(fixture, "images");
    write_images(fixture, "x");
    write_json(fixture, "x.json", ONE_BOX);
    assert_int_equal(convert(fixture), -EINVAL);
    assert_contains(fixture->err.what, "in two folders");
    assert_int_equal(test_run("rm -r '%s/x'", fixture->source), 0);
    write_json(fixture, "instances_x.json", ONE_BOX);
    assert_int_equal(convert(fixture), -EINVAL);
    assert_contains(fixture->err.found, "annotations/instances_x.json and annotations/x.json");
    assert_contains(fixture->err.advice, "--ignore 'annotations/x.json'");
    assert_int_equal(test_run("rm '%s/annotations/instances_x.json'", fixture->source), 0);
    write_json(fixture, "panoptic_x.json", ONE_BOX);
    assert_int_equal(convert(fixture), -ENOTSUP);
    assert_contains(fixture->err.advice, "--ignore 'annotations/panoptic_x.json'");
    assert_int_equal(test_run("rm '%s/annotations/panoptic_x.json'", fixture->source), 0);
    write_json(fixture, "captions_x.json",
               "{\"images\":[{\"id\":5,\"file_name\":\"2.jpg\"}],\"annotations\":[]}");
    assert_int_equal(convert(fixture), -EINVAL);
    assert_contains(fixture->err.what, "different images with one id");
    assert_int_equal(test_run("rm '%s/annotations/captions_x.json'", fixture->source), 0);
    write_json(fixture, "y.json", ONE_BOX);
    set_train_val_splits(fixture);
    assert_int_equal(convert(fixture), -EINVAL);
    assert_contains(fixture->err.what, "--split");
    fixture->options.ignore_globs = (struct convert_string_list){globs, 1};
    fixture->options.splits_count = 0;
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""), "1.jpg\n1.json\n2.jpg\n2.json\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(boxes_and_classes_are_arrays),
        CASE(splits_become_datasets_with_common_classes),
        CASE(invalid_annotations_are_refused_before_anything_is_written),
        CASE(an_image_of_another_size_is_refused),
        CASE(ambiguous_layouts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
