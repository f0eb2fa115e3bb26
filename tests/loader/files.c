/*
 * files — tests: a process that may open few files reads datasets of many shards all the same.
 */
#include "tests/loader/fixture.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SAMPLES = 96, MICRO = 4, FILES = 24 };

static struct rlimit before;

/* So many more than are open. */
static void leave_files(unsigned count)
{
    struct rlimit limit;
    int lowest = dup(0);
    assert_true(lowest >= 0);
    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    before = limit;
    limit.rlim_cur = (rlim_t)lowest + count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void leave_files_as_before(void)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* A sample a shard. */
static int set_up(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.samples_a_shard = 1;
    return fixture_set_up_as(state, &options);
}

/* What is read ahead alone would be of more shards. */
static void few_files_change_neither_order_nor_bytes(void **state)
{
    const enum loader_decode decodes[] = {LOADER_BYTES, LOADER_IMAGE};
    for (size_t i = 0; i < sizeof decodes / sizeof decodes[0]; i++) {
        struct loader_options options = fixture_loader_options(*state, decodes[i]);
        struct delivered all, few;
        options.batches_ahead = FILES / MICRO + 4;
        options.epochs_max = 3;
        deliver_all(&options, &all, NULL, NULL);
        leave_files(FILES);
        deliver_all(&options, &few, NULL, NULL);
        leave_files_as_before();
        assert_int_equal(few.items, 3 * SAMPLES);
        assert_string_equal(few.text, all.text);
        assert_true(few.hash == all.hash);
        delivered_free(&all);
        delivered_free(&few);
    }
}

static void a_micro_batch_of_more_shards_than_files_is_an_error_not_a_hang(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_BYTES);
    struct err err = {0};
    options.batching.global = options.batching.micro = 2 * FILES;
    leave_files(FILES);
    int status = deliver_to_error(&options, &err);
    leave_files_as_before();
    assert_int_equal(status, -EMFILE);
    assert_non_null(strstr(err.advice, "ulimit -n"));
}

static void a_consumer_that_holds_the_files_is_told(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_BYTES);
    const struct batch *held[SAMPLES / MICRO];
    struct loader *loader;
    struct err err = {0};
    int status, count = 0;
    options.batches_ahead = SAMPLES / MICRO + 1;
    leave_files(FILES);
    assert_ok(loader_open(&options, &loader, &err), &err);
    while ((status = loader_next(loader, &held[count], &err)) == LOADER_BATCH)
        count++;
    assert_int_equal(status, -EMFILE);
    assert_in_range(count, 1, SAMPLES / MICRO - 1);
    loader_close(loader);
    leave_files_as_before();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(few_files_change_neither_order_nor_bytes, set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_micro_batch_of_more_shards_than_files_is_an_error_not_a_hang,
                                        set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_consumer_that_holds_the_files_is_told, set_up, fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
