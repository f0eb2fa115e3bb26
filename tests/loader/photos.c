/*
 * photos — tests with real files, converted by our converter: the loader delivers the content of
 * the folders.
 */
#include "convert/dataset/dataset.h"
#include "tests/loader/fixture.h"

#include <stdlib.h>
#include <string.h>

static void convert(struct fixture *fixture, const char *source, const char *tokenizer)
{
    struct err err;
    struct convert_result result;
    char target[TEST_PATH_BYTES_MAX + 16];
    memset(fixture, 0, sizeof *fixture);
    test_make_folder(fixture->folder);
    snprintf(target, sizeof target, "%s/shards", fixture->folder);
    assert_ok(io_open(fixture->folder, NULL, &fixture->io, &err), &err);
    struct convert_options options = {.source = source,
                                      .target = target,
                                      .shard_bytes = 2 << 20,
                                      .seed = 1,
                                      .tokenizer = tokenizer,
                                      .errors_max = -1};
    assert_ok(convert_dataset(fixture->io, &options, &result, &err), &err);
    fixture->samples = result.samples_count;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Classes are numbered in the byte order of their folders. */
static uint32_t list_classes(const char *folder, char **names)
{
    static char text[4096];
    uint32_t count = 0;
    assert_int_equal(test_run_output(text, sizeof text, "cd '%s' && ls -d */", folder), 0);
    for (char *name = strtok(text, "/\n"); name; name = strtok(NULL, "/\n"))
        names[count++] = name;
    qsort(names, count, sizeof names[0], compare_names);
    return count;
}

static void photos_are_delivered_with_the_class_of_their_folder(void **state)
{
    (void)state;
    char source[TEST_PATH_BYTES_MAX], dataset[TEST_PATH_BYTES_MAX + 16], *classes[64];
    struct fixture fixture;
    test_need_data("clothing/validation", source);
    convert(&fixture, source, NULL);
    snprintf(dataset, sizeof dataset, "%s/shards", fixture.folder);
    uint32_t classes_count = list_classes(source, classes);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    options.dataset = dataset;
    options.image.width = options.image.height = 64;
    options.lanes = options.window = options.run = 0;
    options.bad_policy = LOADER_BAD_STOP;
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    uint64_t seen = 0;
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(loader_shape(loader).classes_count, classes_count);
    int status;
    while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH) {
        for (uint32_t i = 0; i < batch->items_count; i++) {
            int32_t label = ((const int32_t *)batch->fields[1].data)[i];
            const char *name = classes[label];
            assert_memory_equal(batch->items[i].key, name, strlen(name));
            assert_int_equal(batch->items[i].key[strlen(name)], '/');
            seen++;
        }
        loader_release(loader, batch);
    }
    assert_ok(status, &err);
    assert_int_equal(seen, fixture.samples);
    loader_close(loader);
    fixture_remove(&fixture);
}

/* In sequential order and without the overlap of windows, the text equals the file (up to the
 * end-of-document token). */
static void text_is_delivered_unchanged(void **state)
{
    (void)state;
    char source[TEST_PATH_BYTES_MAX], dataset[TEST_PATH_BYTES_MAX + 16];
    struct fixture fixture;
    size_t bytes, at = 0;
    test_need_data("text/tinyshakespeare.txt", source);
    convert(&fixture, source, "bytes");
    snprintf(dataset, sizeof dataset, "%s/shards", fixture.folder);
    unsigned char *text = test_read_file(source, &bytes);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_TOKENS);
    options.dataset = dataset;
    options.text.block = 256;
    options.order = ORDER_SEQUENTIAL;
    options.batching = (struct batching){.global = 16, .micro = 16, .ranks = 1};
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    uint64_t member_sum = 0;
    assert_ok(loader_open(&options, &loader, &err), &err);
    while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
        const int32_t *tokens = batch->fields[0].data;
        for (uint32_t i = 0; i < batch->items_count; i++, tokens += 257) {
            member_sum += (uint64_t)batch->items[i].window;
            for (uint32_t k = 0; k < 257 && at + k < bytes; k++)
                assert_int_equal(tokens[k], text[at + k]);
            at += 256;
        }
        loader_release(loader, batch);
    }
    assert_true(at + 257 > bytes && member_sum > 0);
    loader_close(loader);
    free(text);
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(photos_are_delivered_with_the_class_of_their_folder),
        cmocka_unit_test(text_is_delivered_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
