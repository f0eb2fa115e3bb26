/*
 * files — tests that a process with a low limit on open files can read datasets of many shards.
 */
#include "tests/loader/fixture.h"
#include "tests/support/gate.h"

#include "loader/state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SAMPLES = 96, MICRO = 4, FILES = 24, MORE_FILES = 64, BAD_STRIDE = 5 };

static struct rlimit original_limit;

/* Sets the limit to this many more files than are open. */
static void limit_free_files(unsigned count)
{
    struct rlimit limit;
    int lowest = dup(0);
    assert_true(lowest >= 0);
    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    original_limit = limit;
    limit.rlim_cur = (rlim_t)lowest + count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void restore_file_limit(void)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &original_limit), 0);
}

/* Restores the limit even after a failed test. */
static int tear_down(void **state)
{
    if (original_limit.rlim_max > 0)
        restore_file_limit();
    return fixture_tear_down(state);
}

/* One sample per shard. */
static int set_up(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.samples_per_shard = 1;
    return fixture_set_up_with_options(state, &options);
}

/* The read-ahead spans more shards than the process may have open files. */
static void a_low_file_limit_changes_neither_order_nor_bytes(void **state)
{
    const enum loader_decode decodes[] = {LOADER_BYTES, LOADER_IMAGE};
    for (size_t i = 0; i < sizeof decodes / sizeof decodes[0]; i++) {
        struct loader_options options = fixture_loader_options(*state, decodes[i]);
        struct delivery all, few;
        options.batches_ahead = FILES / MICRO + 4;
        options.epochs_max = 3;
        consume_all(&options, &all, NULL, NULL);
        limit_free_files(FILES);
        consume_all(&options, &few, NULL, NULL);
        restore_file_limit();
        assert_int_equal(few.items, 3 * SAMPLES);
        assert_string_equal(few.text, all.text);
        assert_true(few.hash == all.hash);
        delivery_free(&all);
        delivery_free(&few);
    }
}

static void a_micro_batch_of_more_shards_than_the_file_limit_is_an_error(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_BYTES);
    struct err err = {0};
    options.batching.global = options.batching.micro = 2 * FILES;
    limit_free_files(FILES);
    int status = consume_until_error(&options, &err);
    restore_file_limit();
    assert_int_equal(status, -EMFILE);
    assert_non_null(strstr(err.advice, "ulimit -n"));
}

static void a_consumer_that_holds_all_open_files_is_reported(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_BYTES);
    const struct batch *held[SAMPLES / MICRO];
    struct loader *loader;
    struct err err = {0};
    int status, count = 0;
    options.batches_ahead = SAMPLES / MICRO + 1;
    limit_free_files(FILES);
    assert_ok(loader_open(&options, &loader, &err), &err);
    while ((status = loader_next(loader, &held[count], &err)) == LOADER_BATCH)
        count++;
    assert_int_equal(status, -EMFILE);
    assert_in_range(count, 1, SAMPLES / MICRO - 1);
    loader_close(loader);
    while (count > 0)
        loader_release(loader, held[--count]);
    restore_file_limit();
}

/* Waits until the reader waits and all reads that it began are complete. */
static void wait_until_idle(struct loader *loader)
{
    for (bool rests = false; !rests; gate_pause()) {
        pthread_mutex_lock(&loader->mutex);
        /* the reader has not been woken */
        rests = loader->reader.is_waiting && loader->reader.state == READER_NO_SLOT &&
                loader->ready == loader->planned;
        pthread_mutex_unlock(&loader->mutex);
    }
}

static unsigned count_free_descriptors(void)
{
    int opened[2 * MORE_FILES];
    unsigned count = 0;
    while (count < sizeof opened / sizeof opened[0] &&
           (opened[count] = open("/dev/null", O_RDONLY)) >= 0)
        count++;
    for (unsigned i = 0; i < count; i++)
        close(opened[i]);
    return count;
}

/* Each shard needs a second file, to bypass the page cache. If the consumer holds all delivered
 * batches, the loader opens some of the remaining files for the next ones. */
static void read_ahead_leaves_open_files_to_others(void **state)
{
    const enum io_cache caches[] = {IO_CACHE_ALL, IO_CACHE_NONE};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof caches / sizeof caches[0]; i++) {
        struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
        const struct batch *held[SAMPLES / MICRO];
        struct loader *loader;
        struct err err = {0};
        int count = 0;
        assert_ok(
            io_open(fixture->folder, &(struct io_options){.cache = caches[i]}, &options.io, &err),
            &err);
        options.batches_ahead = SAMPLES / MICRO + 1;
        limit_free_files(MORE_FILES);
        assert_ok(loader_open(&options, &loader, &err), &err);
        wait_until_idle(loader);
        assert_in_range(count_free_descriptors(), MORE_FILES / 4, MORE_FILES);
        while (loader_ready(loader)) {
            assert_true(count < SAMPLES / MICRO);
            assert_int_equal(loader_next(loader, &held[count++], &err), LOADER_BATCH);
            wait_until_idle(loader);
            assert_in_range(count_free_descriptors(), MORE_FILES / 8, MORE_FILES);
        }
        assert_int_equal(loader_next(loader, &held[0], &err), -EMFILE);
        loader_close(loader);
        while (count > 0)
            loader_release(loader, held[--count]);
        restore_file_limit();
        io_close(options.io);
    }
}

/* Training and an evaluation open one loader each. */
static void two_loaders_share_the_open_file_limit(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
    struct delivery all, beside;
    struct loader *loader;
    struct err err = {0};
    options.batches_ahead = SAMPLES / MICRO + 1;
    options.epochs_max = 1;
    consume_all(&options, &all, NULL, NULL);
    limit_free_files(MORE_FILES);
    assert_ok(loader_open(&options, &loader, &err), &err);
    wait_until_idle(loader);
    consume_all(&options, &beside, NULL, NULL);
    loader_close(loader);
    restore_file_limit();
    assert_true(beside.hash == all.hash);
    delivery_free(&all);
    delivery_free(&beside);
}

static int set_up_with_bad_samples(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.samples_per_shard = 1;
    options.broken_jpg_stride = BAD_STRIDE;
    return fixture_set_up_with_options(state, &options);
}

static void substitutes_can_open_their_shards_at_the_file_limit(void **state)
{
    struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
    struct delivery all, few;
    struct loader_stats stats;
    options.batches_ahead = SAMPLES / MICRO + 1;
    options.epochs_max = 3;
    options.bad_fraction_max = 1;
    consume_all(&options, &all, &stats, NULL);
    assert_in_range(stats.bad_samples_count, 3 * SAMPLES / BAD_STRIDE,
                    3 * (SAMPLES / BAD_STRIDE + 1));
    limit_free_files(FILES);
    consume_all(&options, &few, NULL, NULL);
    restore_file_limit();
    assert_string_equal(few.text, all.text);
    assert_true(few.hash == all.hash);
    delivery_free(&all);
    delivery_free(&few);
}

/* A longer read-ahead would not help. dataset.json claims large samples, so few micro-batches are
 * read ahead at first. */
static void waiting_for_open_files_does_not_grow_the_read_ahead(void **state)
{
    fixture_set_listed_mean_bytes(*state, 2000000);
    struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
    struct delivery few = {0};
    struct loader *loader;
    struct err err = {0};
    options.batching.global = options.batching.micro = FILES / 3;
    options.memory_bytes = 512 << 20;
    options.epochs_max = 20;
    limit_free_files(FILES);
    assert_ok(loader_open(&options, &loader, &err), &err);
    uint32_t at_first = loader->reader.ahead_max;
    assert_in_range(at_first, 2, loader->slots_count / 2);
    consume(loader, &few, UINT64_MAX);
    assert_int_equal(loader->reader.ahead_max, at_first);
    loader_close(loader);
    restore_file_limit();
    delivery_free(&few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_low_file_limit_changes_neither_order_nor_bytes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_micro_batch_of_more_shards_than_the_file_limit_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_consumer_that_holds_all_open_files_is_reported, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(read_ahead_leaves_open_files_to_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_loaders_share_the_open_file_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(substitutes_can_open_their_shards_at_the_file_limit,
                                        set_up_with_bad_samples, tear_down),
        cmocka_unit_test_setup_teardown(waiting_for_open_files_does_not_grow_the_read_ahead, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
