/*
 * mix — tests loaders of several datasets: each dataset has its own order and crops, and datasets
 * that do not match are refused.
 */
#include "tests/loader/fixture.h"

#include "io/file_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct loader_options mix_options(const struct fixture *first,
                                         const struct loader_source *mix, uint32_t count,
                                         enum loader_decode decode)
{
    struct loader_options options = fixture_loader_options(first, decode);
    options.dataset = NULL;
    options.mix = mix;
    options.mix_count = count;
    return options;
}

static void make_pair(struct fixture pair[2], uint64_t first, uint64_t second)
{
    struct fixture_options a = fixture_options_default(first), b = fixture_options_default(second);
    fixture_make_images(&pair[0], &a);
    fixture_make_images(&pair[1], &b);
}

static void remove_pair(struct fixture pair[2])
{
    fixture_remove(&pair[0]);
    fixture_remove(&pair[1]);
}

static void a_mix_of_one_dataset_is_that_dataset(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options make = fixture_options_default(100);
    fixture_make_images(&fixture, &make);
    struct loader_source alone = {.path = fixture.folder, .weight = 7000000};
    struct loader_options plain = fixture_loader_options(&fixture, LOADER_IMAGE);
    struct loader_options mix = mix_options(&fixture, &alone, 1, LOADER_IMAGE);
    struct delivery a, b;
    struct cursor at_a, at_b;
    consume_all(&plain, &a, NULL, &at_a);
    consume_all(&mix, &b, NULL, &at_b);
    assert_string_equal(a.text, b.text);
    assert_true(a.hash == b.hash);
    assert_memory_equal(&at_a, &at_b, sizeof at_a);
    delivery_free(&a);
    delivery_free(&b);
    fixture_remove(&fixture);
}

/* Dataset 0 has the same order and crops as on its own; dataset 1, with the same shards, has a
 * different order and different crops. */
static void each_dataset_has_its_own_order_and_crops(void **state)
{
    (void)state;
    enum { SAMPLES = 60, PIXELS_BYTES = 20 * 16 * 3 };
    static uint8_t pixels[2][SAMPLES][PIXELS_BYTES], alone[SAMPLES][PIXELS_BYTES];
    struct fixture fixture;
    struct fixture_options make = fixture_options_default(SAMPLES);
    fixture_make_images(&fixture, &make);
    struct loader_source twins[2] = {{fixture.folder, 1}, {fixture.folder, 1}};
    struct loader_options options[2] = {fixture_loader_options(&fixture, LOADER_IMAGE),
                                        mix_options(&fixture, twins, 2, LOADER_IMAGE)};
    uint64_t order[2][SAMPLES], places[2] = {0};
    for (int i = 0; i < 2; i++) {
        options[i].batching = (struct batching){.global = 4, .micro = 4, .ranks = 1};
        struct loader *loader;
        const struct batch *batch;
        struct err err;
        assert_ok(loader_open(&options[i], &loader, &err), &err);
        while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
            const struct batch_field *images = batch_field_named(batch, "image");
            for (uint32_t k = 0; k < batch->items_count; k++) {
                struct sample_ref ref = batch->items[k].ref;
                assert_int_equal(ref.epoch, 0);
                memcpy(i ? pixels[ref.dataset][ref.sample] : alone[ref.sample],
                       (uint8_t *)images->data + k * images->stride_bytes[0], PIXELS_BYTES);
                if (i)
                    order[ref.dataset][places[ref.dataset]++] = ref.sample;
            }
            loader_release(loader, batch);
        }
        assert_null(batch_field_named(batch, "tokens"));
        loader_close(loader);
    }
    assert_memory_equal(pixels[0], alone, sizeof alone);
    int same_place = 0, same_pixels = 0;
    for (int s = 0; s < SAMPLES; s++) {
        same_place += order[0][s] == order[1][s];
        same_pixels += memcmp(pixels[0][s], pixels[1][s], PIXELS_BYTES) == 0;
    }
    assert_true(places[0] == SAMPLES && places[1] == SAMPLES);
    assert_true(same_place < 10 && same_pixels < 10);
    fixture_remove(&fixture);
}

static void datasets_are_listed_with_weights_and_counts(void **state)
{
    (void)state;
    struct fixture pair[2];
    make_pair(pair, 90, 30);
    struct loader_source mix[2] = {{pair[0].folder, 500000}, {pair[1].folder, 250000}};
    struct loader_options options = mix_options(&pair[0], mix, 2, LOADER_BYTES);
    struct loader *loader;
    struct delivery delivered = {0};
    struct err err;
    const struct loader_dataset *list;
    assert_ok(loader_open(&options, &loader, &err), &err);
    consume(loader, &delivered, UINT64_MAX);
    assert_int_equal(loader_datasets(loader, &list), 2);
    assert_int_equal(list[0].weight, 2);
    assert_int_equal(list[1].weight, 1);
    assert_int_equal(list[0].delivered_count, 80);
    assert_int_equal(list[1].delivered_count, 40);
    assert_int_equal(list[1].order.dataset, 1);
    assert_int_equal(loader_shape(loader).samples, 120);
    uint64_t fingerprints[2] = {list[0].fingerprint, list[1].fingerprint}, weights[2] = {2, 1};
    assert_true(loader_shape(loader).fingerprint ==
                sampler_mix_fingerprint(fingerprints, weights, 2));
    assert_true(loader_cursor(loader).fingerprint == loader_shape(loader).fingerprint);
    loader_close(loader);
    delivery_free(&delivered);
    remove_pair(pair);
}

static void windows_of_two_texts_are_mixed(void **state)
{
    (void)state;
    struct fixture texts[2];
    fixture_make_text(&texts[0], 40000, 4097, 2);
    fixture_make_text(&texts[1], 20000, 1025, 3);
    struct loader_source mix[2] = {{texts[0].folder, 1}, {texts[1].folder, 1}};
    struct loader_options options = mix_options(&texts[0], mix, 2, LOADER_TOKENS);
    struct loader *loader;
    struct err err;
    const struct batch *batch;
    uint64_t seen[2] = {0};
    assert_ok(loader_open(&options, &loader, &err), &err);
    while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
        for (uint32_t i = 0; i < batch->items_count; i++) {
            const struct batch_item *item = &batch->items[i];
            uint64_t stride = texts[item->ref.dataset].member_tokens - 1;
            uint64_t first = strtoull(item->key + strlen("text-"), NULL, 10) * stride +
                             (uint64_t)item->window * 256;
            const int32_t *tokens = (const int32_t *)batch->fields[0].data + i * 257;
            for (uint64_t k = 0; k <= 256; k += 64)
                assert_int_equal(tokens[k], fixture_token(first + k));
            seen[item->ref.dataset]++;
        }
        loader_release(loader, batch);
    }
    assert_true(seen[0] > 100 && seen[1] > 100 && seen[0] - seen[1] <= 1);
    loader_close(loader);
    fixture_remove(&texts[0]);
    fixture_remove(&texts[1]);
}

static void expect_path(void *context, enum log_level level, const char *line)
{
    const struct fixture *fixture = context;
    assert_int_equal(level, LOG_WARN);
    assert_non_null(strstr(line, "bad sample \"k"));
    assert_non_null(strstr(line, fixture->folder));
}

/* The substitute for a bad sample comes from the same dataset, and the warning names it. */
static void substitutes_come_from_the_bad_samples_dataset(void **state)
{
    (void)state;
    struct fixture pair[2];
    struct fixture_options a = fixture_options_default(200), b = fixture_options_default(20);
    b.broken_jpg_stride = 4;
    fixture_make_images(&pair[0], &a);
    fixture_make_images(&pair[1], &b);
    struct loader_source mix[2] = {{pair[0].folder, 1}, {pair[1].folder, 1}};
    struct loader_options options = mix_options(&pair[0], mix, 2, LOADER_IMAGE);
    options.bad_fraction_max = 1;
    struct log log = {.write = expect_path, .context = &pair[1]};
    options.log = &log;
    struct loader *loader;
    struct delivery delivered = {0};
    struct err err;
    const struct loader_bad_sample *bad;
    assert_ok(loader_open(&options, &loader, &err), &err);
    consume(loader, &delivered, UINT64_MAX);
    uint64_t count = loader_quarantine(loader, &bad);
    assert_true(count > 20);
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(bad[i].ref.dataset, 1);
        assert_true(bad[i].substitute < 20 && bad[i].substitute % 4 != 0);
    }
    loader_close(loader);
    delivery_free(&delivered);
    remove_pair(pair);
}

/* ---- Refused datasets. ---- */

static void edit_dataset_json(const struct fixture *fixture, const char *expression)
{
    assert_int_equal(test_run("chmod u+w '%s/dataset.json' && sed -i '%s' '%s/dataset.json'",
                              fixture->folder, expression, fixture->folder),
                     0);
}

static void assert_refused(const struct fixture *first, const struct fixture *other,
                           enum loader_decode decode, const char *what, const char *expected,
                           const char *found)
{
    struct loader_source mix[2] = {{first->folder, 1}, {other->folder, 1}};
    struct loader_options options = mix_options(first, mix, 2, decode);
    struct loader *loader;
    struct err err = {0};
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_non_null(strstr(err.what, what));
    assert_non_null(strstr(err.what, first->folder));
    assert_non_null(strstr(err.path, other->folder));
    assert_string_equal(err.expected, expected);
    assert_string_equal(err.found, found);
}

static void datasets_with_different_batch_layouts_are_refused(void **state)
{
    (void)state;
    struct fixture pair[2], texts[2];
    struct fixture_options a = fixture_options_default(30), b = a;
    b.pad_bytes = 4;
    fixture_make_images(&pair[0], &a);
    fixture_make_images(&pair[1], &b);
    assert_refused(&pair[0], &pair[1], LOADER_BYTES, "fields", "no field \"bin\"", "one");
    assert_refused(&pair[1], &pair[0], LOADER_BYTES, "fields", "a field \"bin\"", "none");
    edit_dataset_json(&pair[1], "s/\"c3\"/\"dog\"/");
    assert_refused(&pair[0], &pair[1], LOADER_IMAGE, "classes", "class 3 \"c3\"", "\"dog\"");
    edit_dataset_json(&pair[1], "s/,\"c6\"//");
    assert_refused(&pair[0], &pair[1], LOADER_IMAGE, "classes", "7 class names", "6");
    fixture_make_text(&texts[0], 9000, 4097, 2);
    fixture_make_text(&texts[1], 9000, 4097, 2);
    edit_dataset_json(&texts[1], "s/\"vocabulary\":5000/\"vocabulary\":6000/");
    assert_refused(&texts[0], &texts[1], LOADER_TOKENS, "tokens",
                   "tokenizer \"bytes\", vocabulary 5000, document end 4999",
                   "tokenizer \"bytes\", vocabulary 6000, document end 4999");
    fixture_remove(&texts[0]);
    fixture_remove(&texts[1]);
    remove_pair(pair);
}

static void impossible_mixes_are_refused(void **state)
{
    (void)state;
    struct fixture pair[2];
    make_pair(pair, 10, 10);
    struct loader_source mix[2] = {{pair[0].folder, 1}, {pair[1].folder, 0}};
    struct loader_options options = mix_options(&pair[0], mix, 2, LOADER_BYTES);
    struct loader *loader;
    struct err err;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    mix[1].weight = 1 << 20;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    assert_true(err.advice[0] != '\0');
    mix[1] = (struct loader_source){NULL, 1};
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    mix[1] = (struct loader_source){"/nonexistent/dataset.json", 1};
    assert_int_equal(loader_open(&options, &loader, &err), -ENOENT);
    mix[1] = mix[0];
    options.dataset = pair[0].folder;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    remove_pair(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mix_of_one_dataset_is_that_dataset),
        cmocka_unit_test(each_dataset_has_its_own_order_and_crops),
        cmocka_unit_test(datasets_are_listed_with_weights_and_counts),
        cmocka_unit_test(windows_of_two_texts_are_mixed),
        cmocka_unit_test(substitutes_come_from_the_bad_samples_dataset),
        cmocka_unit_test(datasets_with_different_batch_layouts_are_refused),
        cmocka_unit_test(impossible_mixes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
