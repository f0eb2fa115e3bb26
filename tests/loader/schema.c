/*
 * schema — tests a dataset's labels and tokens against those of a reference, and labels that
 * training cannot use.
 */
#include "tests/loader/fixture.h"

#include <errno.h>
#include <string.h>

enum { SAMPLES = 70, BAD = 33 };

static void edit_dataset_json(const struct fixture *fixture, const char *expression)
{
    assert_int_equal(test_run("chmod u+w '%s/dataset.json' && sed -i '%s' '%s/dataset.json'",
                              fixture->folder, expression, fixture->folder),
                     0);
}

/* Labels by sample number; -1 for samples that are not delivered. */
static void read_labels(const struct loader_options *options, int32_t labels[SAMPLES])
{
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    int status;
    memset(labels, -1, SAMPLES * sizeof labels[0]);
    assert_ok(loader_open(options, &loader, &err), &err);
    while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
        const int32_t *of_batch = batch_field_named(batch, "label")->data;
        for (uint32_t i = 0; i < batch->items_count; i++)
            labels[batch->items[i].ref.sample] = of_batch[i];
        loader_release(loader, batch);
    }
    assert_ok(status, &err);
    loader_close(loader);
}

static void assert_refused(const struct loader_options *options, const char *what, const char *path)
{
    struct loader *loader;
    struct err err = {0};
    assert_int_equal(loader_open(options, &loader, &err), -EINVAL);
    if (!strstr(err.what, what))
        fail_msg("the error is %s, expected %s", err.what, what);
    assert_non_null(strstr(err.path, path));
}

static void labels_are_mapped_to_the_reference_by_class_name(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    static const char *const permuted[] = {"c6", "new", "c5", "c4", "c0", "c1", "c2", "c3"};
    static const int32_t expected[FIXTURE_CLASSES] = {4, 5, 6, 7, 3, 2, 0};
    const struct loader_schema reference = {
        .path = "train", .classes = permuted, .classes_count = 8};
    int32_t labels[SAMPLES];
    options.reference = &reference;
    options.image.classes = 8;
    read_labels(&options, labels);
    for (int s = 0; s < SAMPLES; s++)
        assert_int_equal(labels[s], expected[s % FIXTURE_CLASSES]);
    struct loader *loader;
    struct err err;
    options.order_only = true;
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(loader_shape(loader).classes_count, 8);
    assert_int_equal(loader_schema(loader)->classes_count, FIXTURE_CLASSES);
    loader_close(loader);
    fixture_remove(&fixture);
}

static void labels_without_class_names_are_unchanged(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    static const char *const names[] = {"g", "f", "e", "d", "c", "b", "a"};
    struct loader_schema reference = {.path = "train"};
    int32_t labels[SAMPLES];
    options.reference = &reference;
    read_labels(&options, labels);
    for (int s = 0; s < SAMPLES; s++)
        assert_int_equal(labels[s], s % FIXTURE_CLASSES);
    edit_dataset_json(&fixture, "s/\"classes\":\\[[^]]*\\]/\"classes\":[]/");
    reference.classes = names;
    reference.classes_count = 7;
    read_labels(&options, labels);
    for (int s = 0; s < SAMPLES; s++)
        assert_int_equal(labels[s], s % FIXTURE_CLASSES);
    fixture_remove(&fixture);
}

static void a_class_that_the_reference_lacks_is_refused_by_name(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    static const char *const fewer[] = {"c0", "c1", "c2", "c3", "c4", "c6"};
    static const char *const twice[] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c0"};
    struct loader_schema reference = {.path = "train", .classes = fewer, .classes_count = 6};
    options.reference = &reference;
    assert_refused(&options, "class \"c5\" is not among the 6 classes of train", fixture.folder);
    reference.classes = twice;
    reference.classes_count = 8;
    assert_refused(&options, "two classes have the name \"c0\"", "train");
    options.reference = NULL;
    options.image.classes = 6;
    assert_refused(&options, "more classes than the model has", fixture.folder);
    fixture_remove(&fixture);
}

static void another_tokenizer_is_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_text(&fixture, 9000, 4097, 2);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_TOKENS);
    struct loader_schema reference = {
        .path = "train", .tokenizer = "bytes", .vocabulary = 5000, .document_end = 4999};
    struct delivery delivered;
    options.text.block = 64;
    options.reference = &reference;
    consume_all(&options, &delivered, NULL, NULL);
    delivery_free(&delivered);
    reference.tokenizer = "gpt2";
    assert_refused(&options, "the tokens of the dataset differ from those of train",
                   fixture.folder);
    reference.tokenizer = "bytes";
    reference.vocabulary = 5001;
    assert_refused(&options, "the tokens of the dataset differ from those of train",
                   fixture.folder);
    reference.vocabulary = 5000;
    reference.tokenizer_xxh3 = 7;
    edit_dataset_json(
        &fixture, "s/\"text\":/\"options\":{\"vocabulary_xxh3\":\"0000000000000007\"},\"text\":/");
    consume_all(&options, &delivered, NULL, NULL);
    delivery_free(&delivered);
    edit_dataset_json(&fixture, "s/0000000000000007/0000000000000008/");
    assert_refused(&options, "the tokens of the dataset differ from those of train",
                   fixture.folder);
    options.reference = NULL;
    options.text.vocabulary = 4999;
    assert_refused(&options, "vocabulary of the dataset is larger than the model's",
                   fixture.folder);
    fixture_remove(&fixture);
}

/* Checks that `count` samples, starting at `first`, are replaced for that reason. */
static void expect_substituted(const struct loader_options *options, uint64_t first, uint64_t count,
                               const char *reason)
{
    struct loader *loader;
    struct delivery delivered = {0};
    const struct loader_bad_sample *list;
    struct err err;
    assert_ok(loader_open(options, &loader, &err), &err);
    consume(loader, &delivered, UINT64_MAX);
    assert_int_equal(delivered.items, SAMPLES);
    assert_int_equal(loader_quarantine(loader, &list), count);
    assert_int_equal(list[0].ref.sample, first);
    if (!strstr(list[0].reason, reason))
        fail_msg("the reason is %s, expected %s", list[0].reason, reason);
    loader_close(loader);
    delivery_free(&delivered);
}

static void a_missing_or_too_large_label_is_a_bad_sample(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options make = fixture_options_default(SAMPLES);
    struct err err;
    int32_t labels[SAMPLES];
    make.without_cls = BAD;
    fixture_make_images(&fixture, &make);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    options.bad_fraction_max = 1;
    read_labels(&options, labels); /* like `millrace read` */
    assert_int_equal(labels[BAD], -1);
    options.image.requires_label = true;
    expect_substituted(&options, BAD, 1, "has no label: no field \"cls\"");
    options.bad_policy = LOADER_BAD_STOP;
    assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
    assert_non_null(strstr(err.what, "k000033"));
    assert_non_null(strstr(err.path, ".tar"));
    fixture_remove(&fixture);

    make = fixture_options_default(SAMPLES);
    fixture_make_images(&fixture, &make);
    edit_dataset_json(&fixture, "s/\"classes\":\\[[^]]*\\]/\"classes\":[]/");
    options = fixture_loader_options(&fixture, LOADER_IMAGE);
    options.bad_fraction_max = 1;
    options.verify = false;
    options.image.classes = FIXTURE_CLASSES;
    read_labels(&options, labels);
    assert_int_equal(labels[BAD], BAD % FIXTURE_CLASSES);
    options.order = ORDER_SEQUENTIAL;
    options.image.classes = FIXTURE_CLASSES - 1;
    expect_substituted(&options, FIXTURE_CLASSES - 1, SAMPLES / FIXTURE_CLASSES,
                       "expected 0 to 5, found \"6\"");
    options.image.classes = FIXTURE_CLASSES;
    fixture_flip_in_field(&fixture, BAD, "cls", 0);
    expect_substituted(&options, BAD, 1, "expected 0 to 6");
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_mapped_to_the_reference_by_class_name),
        cmocka_unit_test(labels_without_class_names_are_unchanged),
        cmocka_unit_test(a_class_that_the_reference_lacks_is_refused_by_name),
        cmocka_unit_test(another_tokenizer_is_refused),
        cmocka_unit_test(a_missing_or_too_large_label_is_a_bad_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
