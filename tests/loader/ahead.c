/*
 * ahead — tests the read-ahead distance, and that read-ahead memory does not grow with the length
 * of a run.
 */
#include "loader/state.h"
#include "tests/loader/held_reads.h"
#include "tests/support/gate.h"

#include <stdlib.h>

/* ---- Fixtures. ---- */

/* dataset.json claims large samples, so few are read ahead at first. */
static int make_short_read_ahead(void **state)
{
    fixture_set_up(state, 100);
    fixture_set_listed_mean_bytes(*state, 2000000);
    return 0;
}

static int make_large_dataset(void **state)
{
    return fixture_set_up(state, 400);
}

static struct loader *open_short_read_ahead(const struct fixture *fixture)
{
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    struct loader *loader;
    struct err err;
    options.memory_bytes = 512 << 20;
    options.epochs_max = 0;
    assert_ok(loader_open(&options, &loader, &err), &err);
    assert_true(loader->slots_count > 4 * loader->reader.ahead_max);
    return loader;
}

/* Does not call loader_next, which would count as waiting. */
static void wait_for_next(struct loader *loader)
{
    for (bool has_next = false; !has_next; gate_pause()) {
        pthread_mutex_lock(&loader->mutex);
        has_next = loader_has_next(loader);
        pthread_mutex_unlock(&loader->mutex);
    }
}

/* Waits until this many micro-batches are decoded and the workers are idle. */
static void wait_until_starved(struct loader *loader, uint32_t ready)
{
    for (bool stands = false; !stands; gate_pause()) {
        pthread_mutex_lock(&loader->mutex);
        stands = loader->ready == ready && loader->reader.has_idled_worker;
        pthread_mutex_unlock(&loader->mutex);
    }
}

/* ---- Cases. ---- */

/* For a consumer that never waits, the read-ahead suffices; the loader reuses the most recently
 * released memory first. */
static void only_batch_memory_within_the_read_ahead_is_touched(void **state)
{
    enum { SEEN_MAX = 64 };
    const void *seen[SEEN_MAX];
    uint32_t seen_count = 0, i;
    struct loader *loader = open_short_read_ahead(*state);
    const struct batch *batch;
    struct err err;
    for (int taken = 0; taken < 200; taken++) {
        wait_for_next(loader);
        assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
        for (i = 0; i < seen_count && seen[i] != batch->fields[0].data; i++)
            ;
        if (i == seen_count && seen_count < SEEN_MAX)
            seen[seen_count++] = batch->fields[0].data;
        loader_release(loader, batch);
    }
    assert_in_range(seen_count, 1, loader->reader.ahead_max + 1); /* plus the consumer's */
    loader_close(loader);
}

/* The workers run out of reads and the consumer has to wait: from then on the loader reads twice as
 * far ahead. */
static void read_ahead_grows_after_an_underrun(void **state)
{
    struct fixture *fixture = *state;
    const struct batch *batch;
    struct err err;
    pthread_t helper;
    held_reads_begin(fixture);
    struct loader *loader = open_short_read_ahead(fixture);
    uint32_t at_first = loader->reader.ahead_max;
    wait_until_starved(loader, at_first);
    held_reads_set(true);
    for (uint32_t i = 0; i < at_first; i++) {
        assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
        assert_int_equal(loader->reader.ahead_max, at_first);
        loader_release(loader, batch);
    }
    assert_int_equal(pthread_create(&helper, NULL, held_reads_release_when_consumer_waits, loader),
                     0);
    assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
    pthread_join(helper, NULL);
    assert_int_equal(loader->reader.ahead_max, 2 * at_first);
    loader_close(loader);
    loader_release(loader, batch);
    held_reads_end(fixture);
}

/* The same for a consumer that polls instead of waiting. Polling again for the same missing
 * micro-batch changes nothing. */
static void read_ahead_grows_for_a_polling_consumer(void **state)
{
    struct fixture *fixture = *state;
    const struct batch *batch;
    struct err err;
    held_reads_begin(fixture);
    struct loader *loader = open_short_read_ahead(fixture);
    uint32_t at_first = loader->reader.ahead_max;
    wait_until_starved(loader, at_first);
    held_reads_set(true);
    for (uint32_t i = 0; i < at_first; i++) {
        assert_true(loader_ready(loader));
        assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
        loader_release(loader, batch);
    }
    assert_false(loader_ready(loader));
    assert_int_equal(loader->reader.ahead_max, 2 * at_first);
    wait_until_starved(loader, at_first);
    assert_false(loader_ready(loader));
    assert_int_equal(loader->reader.ahead_max, 2 * at_first);
    held_reads_set(false);
    loader_close(loader);
    held_reads_end(fixture);
}

/* Waits until everything that fits the budget is decoded and the consumer holds nothing. */
static void wait_until_full(struct loader *loader)
{
    for (bool is_full = false; !is_full; gate_pause()) {
        pthread_mutex_lock(&loader->mutex);
        is_full = loader->reader.state == READER_NO_SLOT && loader->ready == loader->slots_count;
        pthread_mutex_unlock(&loader->mutex);
    }
}

/* The budget is full from the start, so later growth would be a leak; the tolerance covers reads
 * while all batches are full. */
static void ten_epochs_use_no_more_memory_than_two(void **state)
{
    enum { EPOCHS = 10, BUDGET = 48 << 20, TOLERANCE = 1 << 20 };
    struct loader_options options = fixture_loader_options(*state, LOADER_IMAGE);
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    uint64_t after[EPOCHS] = {0}, before = test_resident_bytes();
    options.image.width = options.image.height = 128;
    options.batching = (struct batching){.global = 32, .micro = 16, .ranks = 1};
    options.memory_bytes = BUDGET;
    options.epochs_max = EPOCHS;
    assert_ok(loader_open(&options, &loader, &err), &err);
    wait_until_full(loader);
    uint64_t full = test_resident_bytes();
    while (loader_next(loader, &batch, &err) == LOADER_BATCH) {
        after[batch->epoch] = test_resident_bytes();
        loader_release(loader, batch);
    }
    loader_close(loader);
    assert_true(after[EPOCHS - 1] > 0);
    /* sanitizers use more and more memory */
    if (test_is_sanitized())
        return;
    assert_true(full > before + BUDGET / 2);
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        assert_true(after[epoch] <= before + BUDGET + BUDGET / 20);
    assert_true(after[EPOCHS - 1] <= after[1] + TOLERANCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_batch_memory_within_the_read_ahead_is_touched,
                                        make_short_read_ahead, fixture_tear_down),
        cmocka_unit_test_setup_teardown(read_ahead_grows_after_an_underrun, make_short_read_ahead,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(read_ahead_grows_for_a_polling_consumer,
                                        make_short_read_ahead, fixture_tear_down),
        cmocka_unit_test_setup_teardown(ten_epochs_use_no_more_memory_than_two, make_large_dataset,
                                        fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
