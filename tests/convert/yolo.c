/*
 * yolo: YOLO datasets become samples of an image with boxes; what is not clear is refused.
 */
#include "tests/convert/dataset_case.h"

#include <errno.h>
#include <string.h>

static void write_text(struct fixture *fixture, const char *relative, const char *text)
{
    write_source(fixture, relative, text, strlen(text));
}

static const char *read_member(struct fixture *fixture, const char *folder, const char *member)
{
    static char text[4096];
    memset(text, 0, sizeof text);
    assert_int_equal(test_run_output(text, sizeof text, "tar -xOf '%s/%s/shard-000000.tar' '%s'",
                                     fixture->target, folder, member),
                     0);
    return text;
}

static void clear(struct fixture *fixture)
{
    assert_int_equal(test_run("rm -rf '%s'/* '%s'", fixture->source, fixture->target), 0);
    fixture->options.splits_count = 0;
    fixture->options.keep_order = true;
}

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("\"%s\" is not in: %s", (part), (text));                                      \
    } while (0)

static void assert_refused(struct fixture *fixture, int status, const char *what)
{
    fixture->options.splits_count = 0;
    assert_int_equal(convert(fixture), status);
    assert_contains(fixture->err.what, what);
    assert_no_target(fixture);
}

static void images_and_labels_with_names_in_classes_txt(void **state)
{
    struct fixture *fixture = *state;
    clear(fixture);
    write_jpeg(fixture, "images/a/1.jpg", 1);
    write_jpeg(fixture, "images/a/2.jpg", 2);
    write_text(fixture, "labels/a/1.txt", "1 0.5 0.25 0.125 1\r\n\n0 1e-1 .5 0 0.1 ");
    write_text(fixture, "classes.txt", "cat\r\ndog\n\n");
    assert_converts(fixture);
    assert_string_equal(list_members(fixture, ""), "1.jpg\n1.json\n2.jpg\n2.json\n");
    assert_string_equal(read_member(fixture, "", "1.json"),
                        "{\"boxes\":[[0.5,0.25,0.125,1],[0.1,0.5,0,0.1]],\"classes\":[1,0]}");
    assert_string_equal(read_member(fixture, "", "2.json"), "{\"boxes\":[],\"classes\":[]}");
    struct dataset *dataset = open_dataset(fixture, "");
    assert_int_equal(dataset->classes_count, 2);
    assert_string_equal(dataset->classes[1], "dog");
    dataset_close(dataset);
}

/* As Ultralytics and Roboflow write them. */
static void splits_come_from_data_yaml_or_from_folders(void **state)
{
    struct fixture *fixture = *state;
    static const char *const yamls[] = {
        ("path: ../datasets/x\ntrain: images/train # c\nval: images/val\ntest:\n"
         "names:\n  0: cat\n  1: a dog\n"),
        "train: ../images/train/\nval: ./images/val\nnc: 2\nnames: ['cat', 'a dog']\n",
        "names: [cat, a dog]\n",
        "train: ../train/images\nval: ../val/images\nnames: [cat, a dog]\n",
    };
    for (size_t i = 0; i < 4; i++) {
        bool is_inside = i == 3; /* images and labels are in the split folders */
        clear(fixture);
        write_jpeg(fixture, is_inside ? "train/images/1.jpg" : "images/train/1.jpg", 1);
        write_jpeg(fixture, is_inside ? "val/images/1.jpg" : "images/val/1.jpg", 1);
        write_text(fixture, is_inside ? "train/labels/1.txt" : "labels/train/1.txt",
                   "1 0 0 1 0 1 1 0.5 0.25\n");
        write_text(fixture, is_inside ? "val/labels/1.txt" : "labels/val/1.txt", "");
        write_text(fixture, "data.yaml", yamls[i]);
        assert_converts(fixture);
        assert_string_equal(list_members(fixture, "/train"),
                            "1.jpg\n1.json\n1.segmentation.json\n");
        assert_string_equal(read_member(fixture, "train", "1.json"),
                            "{\"boxes\":[[0.5,0.5,1,1]],\"classes\":[1]}");
        assert_string_equal(read_member(fixture, "train", "1.segmentation.json"),
                            "[[0,0,1,0,1,1,0.5,0.25]]");
        assert_string_equal(read_member(fixture, "val", "1.segmentation.json"), "[]");
        struct dataset *dataset = open_dataset(fixture, "/val");
        assert_string_equal(dataset->classes[1], "a dog");
        dataset_close(dataset);
    }
}

static void invalid_labels_are_refused_with_their_line(void **state)
{
    struct fixture *fixture = *state;
    static const char *const cases[][3] = {
        {"0 0.5 0.5 1 1\n2 0.5 0.5 1 1\n", "class of an object is unknown", ":2"},
        {"-1 0.5 0.5 1 1\n", "class of an object is unknown", ":1"},
        {"0.5 0.5 0.5 1 1\n", "class of an object is unknown", ":1"},
        {"\n\n0 0.5 0.5 1\n", "another number of values", ":3"},
        {"0\n", "another number of values", ":1"},
        {"0 0.5 0.5 1 1 0.9\n", "another number of values", ":1"},
        {"0 0.5 0.5 1 1 1 1 1\n", "another number of values", ":1"},
        {"0 12 30 100 100\n", "not fractions", ":1"},
        {"0 0.5 -0.5 1 1\n", "not fractions", ":1"},
        {"0 0.5 0.5 -0.001 1\n", "negative width", ":1"},
        {"0 x 0.5 1 1\n", "not a number", ":1"},
        {"0 nan 0.5 1 1\n", "not a number", ":1"},
        {"0 0.5 0.5 0.1 0.1\n0 0 0 1 0 1 1\n", "mixes boxes and polygons", ":2"},
    };
    clear(fixture);
    write_jpeg(fixture, "images/1.jpg", 1);
    write_text(fixture, "classes.txt", "cat\ndog");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char place[64];
        write_text(fixture, "labels/1.txt", cases[i][0]);
        print_message("%s\n", cases[i][0]);
        assert_refused(fixture, -EBADMSG, cases[i][1]);
        snprintf(place, sizeof place, "labels/1.txt%s", cases[i][2]);
        if (!str_ends_with(fixture->err.path, place))
            fail_msg("%s is not %s", fixture->err.path, place);
    }
}

static void unclear_layouts_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *yaml, *what;
        int status;
    } yamls[] = {
        {"names: [a, a]\n", "same name", -EINVAL},
        {"names: {1: a}\n", "not in order", -EINVAL},
        {"names: [a, \"\"]\n", "no name", -EINVAL},
        {"nc: 2\n", "class names of the YOLO dataset are missing", -EINVAL},
        {"train: /data/images\nnames: [a]\n", "does not exist in the source", -ENOENT},
        {"train: images/none\nnames: [a]\n", "does not exist in the source", -ENOENT},
        {"train: ../../images\nnames: [a]\n", "does not exist in the source", -ENOENT},
        {"train: train.txt\nnames: [a]\n", "lists of images", -ENOTSUP},
        {"train: [images, images]\nnames: [a]\n", "lists of images", -ENOTSUP},
        {"kpt_shape: [17, 3]\nnames: [a]\n", "keypoints", -ENOTSUP},
        {"names: [a\n", "not valid YAML", -EINVAL},
    };
    clear(fixture);
    write_jpeg(fixture, "images/1.jpg", 1);
    write_text(fixture, "labels/1.txt", "");
    assert_refused(fixture, -EINVAL, "class names of the YOLO dataset are missing");
    for (size_t i = 0; i < sizeof yamls / sizeof yamls[0]; i++) {
        write_text(fixture, "x.yaml", yamls[i].yaml);
        print_message("%s\n", yamls[i].yaml);
        assert_refused(fixture, yamls[i].status, yamls[i].what);
    }
    write_text(fixture, "x.yaml", "names: [a]\n");
    write_text(fixture, "y.yaml", "names: [b]\n");
    assert_refused(fixture, -EINVAL, "several YAML files");
    write_text(fixture, "data.yaml", "names: [a]\n");
    write_text(fixture, "labels/2.txt", "0 0.5 0.5 1 1\n");
    assert_refused(fixture, -ENOENT, "image of a label file does not exist");
    assert_contains(fixture->err.path, "labels/2.txt");
    write_text(fixture, "images/2.bmp", "BM");
    assert_refused(fixture, -EBADMSG, "not the name of an image");
    assert_contains(fixture->err.found, "2.bmp");
    write_jpeg(fixture, "images/train/1.jpg", 1);
    assert_refused(fixture, -EINVAL, "both folders and images");
    clear(fixture);
    write_text(fixture, "classes.txt", "cat");
    write_jpeg(fixture, "train/images/1.jpg", 1);
    write_text(fixture, "train/labels/1.txt", "");
    write_jpeg(fixture, "val/cat/1.jpg", 1);
    assert_refused(fixture, -EINVAL, "only some of the split folders have images and labels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(images_and_labels_with_names_in_classes_txt),
        CASE(splits_come_from_data_yaml_or_from_folders),
        CASE(invalid_labels_are_refused_with_their_line),
        CASE(unclear_layouts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
