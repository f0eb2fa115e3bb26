/*
 * bad_limit — tests the number of bad samples that a run tolerates.
 */
#include "tests/loader/fixture.h"

#include <errno.h>
#include <string.h>

enum { SAMPLES = 200, BAD = 77, OTHER_BAD = 83 };

static void too_many_bad_samples_end_the_run(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options fixture_options = fixture_options_default(SAMPLES);
    fixture_options.broken_jpg_stride = 10;
    fixture_make_images(&fixture, &fixture_options);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    struct err err;
    options.bad_fraction_max = 0.05;
    assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
    assert_non_null(strstr(err.what, "too many bad samples"));
    assert_string_equal(
        err.expected,
        "at most 5 % of the samples per epoch, or of the samples delivered if that is more");
    assert_non_null(strstr(err.path, "shard-"));
    options.bad_fraction_max = 1;
    struct delivery delivered;
    struct loader_stats stats;
    consume_all(&options, &delivered, &stats, NULL);
    assert_int_equal(delivered.items, SAMPLES);
    assert_int_equal(stats.bad_samples_count, SAMPLES / 10);
    delivery_free(&delivered);
    fixture_remove(&fixture);
}

static void bad_samples_up_to_the_limit_are_tolerated(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    struct delivery delivered;
    struct loader_stats stats;
    struct err err;
    fixture_flip_in_field(&fixture, BAD, "jpg", 200);
    options.bad_fraction_max = 0; /* one is always allowed */
    consume_all(&options, &delivered, &stats, NULL);
    assert_int_equal(stats.bad_samples_count, 1);
    delivery_free(&delivered);
    fixture_flip_in_field(&fixture, OTHER_BAD, "jpg", 200);
    assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
    options.bad_fraction_max = 2.0 / SAMPLES;
    consume_all(&options, &delivered, &stats, NULL);
    assert_int_equal(stats.bad_samples_count, 2);
    delivery_free(&delivered);
    fixture_remove(&fixture);
}

static void few_bad_samples_at_the_start_are_tolerated(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    for (uint64_t sample = 0; sample < 3; sample++)
        fixture_flip_in_field(&fixture, sample, "jpg", 200);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    struct delivery delivered;
    struct loader_stats stats;
    options.order = ORDER_SEQUENTIAL;
    options.bad_fraction_max = 0.02; /* 4 per epoch */
    consume_all(&options, &delivered, &stats, NULL);
    assert_int_equal(delivered.items, SAMPLES);
    assert_int_equal(stats.bad_samples_count, 3);
    delivery_free(&delivered);
    fixture_remove(&fixture);
}

static void dataset_without_any_good_sample_ends_the_run(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options fixture_options = fixture_options_default(SAMPLES);
    fixture_options.broken_jpg_stride = 1;
    fixture_make_images(&fixture, &fixture_options);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    struct err err;
    options.bad_fraction_max = 1;
    assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
    assert_non_null(strstr(err.what, "nor its 8 substitutes"));
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_many_bad_samples_end_the_run),
        cmocka_unit_test(bad_samples_up_to_the_limit_are_tolerated),
        cmocka_unit_test(few_bad_samples_at_the_start_are_tolerated),
        cmocka_unit_test(dataset_without_any_good_sample_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
