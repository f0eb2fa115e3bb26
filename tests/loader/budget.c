/*
 * budget — tests that a loader stays within its memory budget.
 */
#include "loader/state.h"
#include "tests/loader/fixture.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 400, GLOBAL = 32, MICRO = 16, LARGE_MICRO = 4, WORKER_BYTES = 2 << 20 };

static int make_images(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.samples_per_shard = 100;
    return fixture_set_up_with_options(state, &options);
}

/* The size of the decoded picture: chroma has half the width and height. */
static uint64_t decoded_bytes(const struct fixture_options *picture)
{
    return (uint64_t)picture->width * picture->height * 3 / 2;
}

static void make_pictures(struct fixture *fixture, struct fixture_options *picture, uint32_t width,
                          uint32_t height)
{
    *picture = fixture_options_default(GLOBAL);
    picture->width = width;
    picture->height = height;
    fixture_make_images(fixture, picture);
}

static struct loader_options whole_pictures(const struct fixture *fixture,
                                            enum loader_decode decode, uint64_t memory_bytes)
{
    struct loader_options options = fixture_loader_options(fixture, decode);
    options.image.crop = crop_options_default(CROP_NONE);
    options.image.width = options.image.height = 128;
    options.batching = (struct batching){.global = GLOBAL, .micro = MICRO, .ranks = 1};
    options.memory_bytes = memory_bytes;
    options.epochs_max = 0;
    return options;
}

/* Returns the maximum growth of resident memory. The loader uses its whole budget: the consumer
 * takes batches until no more are available or memory runs out. */
static uint64_t growth_when_full(const struct loader_options *options)
{
    enum { ROUNDS = 2 };
    struct loader *loader;
    const struct batch *held[LOADER_SLOTS_MAX];
    struct err err;
    int count = 0;
    /* otherwise, reusing memory freed earlier would hide growth */
    malloc_trim(0);
    uint64_t before = test_resident_bytes(), most = before;
    assert_ok(loader_open(options, &loader, &err), &err);
    for (int round = 0; round < ROUNDS; round++) {
        int status;
        while (count > 0)
            loader_release(loader, held[--count]);
        while ((status = loader_next(loader, &held[count], &err)) == LOADER_BATCH)
            count++;
        assert_int_equal(status, -ENOBUFS);
        assert_true(count >= LOADER_SLOTS_MIN);
        uint64_t now = test_resident_bytes();
        most = now > most ? now : most;
        if (options->decode == LOADER_BYTES)
            break; /* after memory runs out, the loader can only be closed */
    }
    loader_close(loader);
    while (count > 0)
        loader_release(loader, held[--count]);
    return most - before;
}

/* Tolerates 5 % for stacks, the engine's rings and malloc's rounding. Sanitizers use memory
 * themselves: with them, nothing is measured, and one run of each kind suffices. */
static void expect_growth(const struct loader_options *options, uint64_t most_bytes)
{
    uint64_t bytes = growth_when_full(options);
    print_message("%s, %u workers: at most %" PRIu64 " KiB, grew by %" PRIu64 " KiB\n",
                  options->decode == LOADER_IMAGE ? "pictures" : "bytes", options->workers,
                  most_bytes >> 10, bytes >> 10);
    if (test_is_sanitized())
        return;
    assert_true(bytes <= most_bytes + most_bytes / 20);
    assert_true(bytes >= most_bytes / 3); /* the budget is really used */
}

/* Decoding these pictures uses most of the memory reserved for it. */
static void memory_stays_within_the_budget(void **state)
{
    (void)state;
    static const uint64_t budgets[] = {8 << 20, 16 << 20, 32 << 20};
    size_t budgets_count = test_is_sanitized() ? 1 : sizeof budgets / sizeof budgets[0];
    struct fixture_options picture;
    struct fixture fixture;
    make_pictures(&fixture, &picture, 1000, 1000);
    /* the filter's rows are added */
    assert_in_range(decoded_bytes(&picture), WORKER_BYTES / 10 * 7, WORKER_BYTES);
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        for (size_t i = 0; i < budgets_count; i++) {
            struct loader_options options = whole_pictures(&fixture, decode, budgets[i]);
            expect_growth(&options, budgets[i]);
        }
    }
    fixture_remove(&fixture);
}

/* As loader.h documents, each worker may also use the memory that decoding needs beyond 2 MiB. */
static void large_images_exceed_the_budget_as_documented(void **state)
{
    (void)state;
    struct fixture_options picture;
    struct fixture fixture;
    make_pictures(&fixture, &picture, 2400, 2000);
    for (unsigned workers = test_is_sanitized() ? 2 : 1; workers <= 2; workers++) {
        struct loader_options options = whole_pictures(&fixture, LOADER_IMAGE, 8 << 20);
        options.batching.micro = LARGE_MICRO;
        options.workers = workers;
        expect_growth(&options,
                      options.memory_bytes + workers * (decoded_bytes(&picture) - WORKER_BYTES));
    }
    fixture_remove(&fixture);
}

static void the_minimum_budget_named_by_the_error_suffices(void **state)
{
    const struct fixture *fixture = *state;
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        struct loader_options options = fixture_loader_options(fixture, decode);
        struct loader *loader;
        struct err err;
        options.memory_bytes = 100000;
        assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
        const char *number = strchr(err.expected, '(');
        assert_non_null(number);
        assert_true(err.advice[0] != '\0');
        uint64_t least = strtoull(number + 1, NULL, 10);
        options.memory_bytes = least - 1;
        assert_int_equal(loader_open(&options, &loader, &err), -EINVAL);
        options.memory_bytes = least;
        struct delivery tight, wide;
        consume_all(&options, &tight, NULL, NULL);
        options.memory_bytes = 64 << 20;
        consume_all(&options, &wide, NULL, NULL);
        assert_true(tight.hash == wide.hash);
        delivery_free(&tight);
        delivery_free(&wide);
    }
}

/* Each of these mean sample sizes in dataset.json is refused, or needs more memory than the machine
 * has. */
static void huge_mean_sizes_do_not_overflow(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, GLOBAL);
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        for (int bits = 42; bits <= 63; bits++) {
            struct loader_options options = fixture_loader_options(&fixture, decode);
            struct loader *loader;
            struct err err;
            options.batching = (struct batching){.global = GLOBAL, .micro = MICRO, .ranks = 1};
            /* the loader adds two pages */
            fixture_set_listed_mean_bytes(&fixture, (UINT64_C(1) << bits) - 8192);
            int status = loader_open(&options, &loader, &err);
            assert_int_equal(status, bits <= 43 ? -EINVAL : -EBADMSG);
            assert_string_not_equal(err.advice, "");
        }
    }
    fixture_remove(&fixture);
}

/* The only substitute for a bad sample is larger than the budget. */
static void a_substitute_is_bounded_too(void **state)
{
    (void)state;
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        struct fixture_options made = fixture_options_default(2);
        struct fixture fixture;
        struct err err;
        made.cut_jpg = 0;
        made.oversized_sample = 1;
        made.oversized_bytes = 12 << 20;
        fixture_make_images(&fixture, &made);
        fixture_set_listed_mean_bytes(&fixture, 1000);
        if (decode == LOADER_BYTES) {
            struct shard_field field;
            char path[IO_PATH_BYTES_MAX];
            fixture_find_field(&fixture, 0, "jpg", path, &field);
            fixture_flip_bit(path, field.data_offset);
        }
        struct loader_options options = fixture_loader_options(&fixture, decode);
        options.order = ORDER_SEQUENTIAL;
        options.batching = (struct batching){.global = 1, .micro = 1, .ranks = 1};
        /* the large sample is read only as a substitute */
        options.positions_max = 1;
        options.bad_fraction_max = 1;
        options.memory_bytes = 8 << 20;
        assert_int_equal(consume_until_error(&options, &err), -ENOBUFS);
        assert_non_null(strstr(err.what, "substitute"));
        options.memory_bytes = 32 << 20;
        struct delivery delivered;
        consume_all(&options, &delivered, NULL, NULL);
        assert_int_equal(delivered.items, 1);
        delivery_free(&delivered);
        fixture_remove(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_stays_within_the_budget),
        cmocka_unit_test(large_images_exceed_the_budget_as_documented),
        cmocka_unit_test(huge_mean_sizes_do_not_overflow),
        cmocka_unit_test(a_substitute_is_bounded_too),
        cmocka_unit_test(the_minimum_budget_named_by_the_error_suffices),
    };
    return cmocka_run_group_tests(tests, make_images, fixture_tear_down);
}
