/*
 * oversized_read — tests samples and merged reads that are large compared with their arena.
 */
#include "tests/loader/fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void a_sample_larger_than_the_budget_is_an_error_not_a_hang(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options fixture_options = fixture_options_default(8);
    fixture_options.pad_bytes = 3 << 20;
    fixture_make_images(&fixture, &fixture_options);
    fixture_set_listed_mean_bytes(&fixture, 1000); /* so that the loader plans for many samples */
    struct loader_options options = fixture_loader_options(&fixture, LOADER_BYTES);
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    options.memory_bytes = 3 << 20;
    options.batching = (struct batching){.global = 2, .micro = 2, .ranks = 1};
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_int_equal(loader_next(loader, &batch, &err), -ENOBUFS);
    assert_non_null(strstr(err.advice, "more memory"));
    loader_close(loader);
    options.decode = LOADER_IMAGE; /* the picture by itself fits */
    struct delivery delivered;
    options.memory_bytes = 8 << 20;
    consume_all(&options, &delivered, NULL, NULL);
    assert_int_equal(delivered.items, 8);
    delivery_free(&delivered);
    fixture_remove(&fixture);
}

/* One sample is larger than the memory reserved for an average one and uses the rest of the
 * budget. */
static void a_sample_much_larger_than_the_others_is_read_within_the_budget(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options fixture_options = fixture_options_default(96);
    fixture_options.oversized_sample = 41;
    fixture_options.oversized_bytes = 12 << 20;
    fixture_make_images(&fixture, &fixture_options);
    fixture_set_listed_mean_bytes(&fixture, 1000);
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        struct loader_options options = fixture_loader_options(&fixture, decode);
        struct delivery tight, wide;
        struct err err;
        options.epochs_max = 2;
        options.memory_bytes = 12 << 20;
        assert_int_equal(consume_until_error(&options, &err), -ENOBUFS);
        assert_non_null(strstr(err.advice, "more memory"));
        options.memory_bytes = 24 << 20;
        consume_all(&options, &tight, NULL, NULL);
        assert_int_equal(tight.items, 2 * 96);
        options.memory_bytes = 256 << 20;
        options.workers = 1;
        consume_all(&options, &wide, NULL, NULL);
        assert_true(tight.hash == wide.hash);
        delivery_free(&tight);
        delivery_free(&wide);
    }
    fixture_remove(&fixture);
}

/* Closes the loader while the large sample's memory is in use, or shortly before. Batches are
 * released later. */
static void an_oversized_sample_frees_its_memory(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options fixture_options = fixture_options_default(24);
    fixture_options.oversized_sample = 13;
    fixture_options.oversized_bytes = 12 << 20;
    fixture_make_images(&fixture, &fixture_options);
    fixture_set_listed_mean_bytes(&fixture, 1000);
    struct device *device;
    struct err err;
    assert_ok(device_open("cpu", &device, &err), &err);
    for (int taken = 0; taken <= 6; taken++) {
        struct loader_options options = fixture_loader_options(&fixture, LOADER_BYTES);
        struct loader *loader;
        const struct batch *held[6];
        struct device_mem_info info;
        options.device = device;
        options.order = ORDER_SEQUENTIAL;
        options.memory_bytes = 24 << 20;
        assert_ok(loader_open(&options, &loader, &err), &err);
        for (int i = 0; i < taken; i++)
            assert_int_equal(loader_next(loader, &held[i], &err), LOADER_BATCH);
        loader_close(loader);
        for (int i = 0; i < taken; i++)
            loader_release(loader, held[i]);
        device->ops->mem_info(device, &info);
        assert_int_equal(info.used_bytes[MEM_HUGE], 0);
    }
    device_close(device);
    fixture_remove(&fixture);
}

/* Opens with the minimum budget that the error reports. */
static void assert_minimum_budget_suffices(struct loader_options options)
{
    struct loader *loader;
    struct delivery tight, wide;
    struct err err;
    options.memory_bytes = 100000;
    assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
    const char *number = strchr(err.expected, '(');
    assert_non_null(number);
    options.memory_bytes = strtoull(number + 1, NULL, 10);
    consume_all(&options, &tight, NULL, NULL);
    options.memory_bytes = 256 << 20;
    consume_all(&options, &wide, NULL, NULL);
    assert_true(tight.items > 0);
    assert_true(tight.hash == wide.hash);
    delivery_free(&tight);
    delivery_free(&wide);
}

/* Samples are close enough to be read together: some continue into the next read, and unwanted ones
 * lie between others. */
static void the_minimum_budget_suffices_for_merged_reads(void **state)
{
    (void)state;
    for (uint64_t pad_bytes = 3000; pad_bytes <= 5000; pad_bytes += 1000) {
        struct fixture fixture;
        struct fixture_options fixture_options = fixture_options_default(600);
        fixture_options.samples_per_shard = 600;
        fixture_options.pad_bytes = pad_bytes;
        fixture_make_images(&fixture, &fixture_options);
        struct loader_options options = fixture_loader_options(&fixture, LOADER_BYTES);
        options.batching = (struct batching){.global = 32, .micro = 32, .ranks = 1};
        assert_minimum_budget_suffices(options);
        fixture_set_listed_mean_bytes(&fixture, 1500); /* the size of the fields that are read */
        options = fixture_loader_options(&fixture, LOADER_IMAGE);
        options.order = ORDER_SEQUENTIAL;
        options.batching = (struct batching){.global = 600, .micro = 600, .ranks = 1};
        assert_minimum_budget_suffices(options);
        fixture_remove(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_larger_than_the_budget_is_an_error_not_a_hang),
        cmocka_unit_test(a_sample_much_larger_than_the_others_is_read_within_the_budget),
        cmocka_unit_test(an_oversized_sample_frees_its_memory),
        cmocka_unit_test(the_minimum_budget_suffices_for_merged_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
