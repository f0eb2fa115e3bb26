/*
 * inline_decode — compares undecoded samples whose reads complete immediately, as from the page
 * cache, with the same samples read in other ways.
 */
#include "loader/state.h"
#include "tests/loader/fixture.h"
#include "tests/support/gate.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- An engine whose reads complete immediately, or never do. ---- */

enum arrival { IMMEDIATE, LATE, SOMETIMES_LATE };
enum { LATE_STRIDE = 40 }; /* one in this many polls finds nothing */

static const struct io_ops *real_ops;
static struct io_ops altered_ops;
static enum arrival arrival;
static atomic_int polls_count;
static atomic_bool refuses; /* makes new reads fail */

/* A poll without a timeout returns all outstanding reads, or nothing. */
static int altered_reap(struct io_queue *queue, struct io_request **done, unsigned count_max,
                        unsigned count_min, int timeout_ms)
{
    if (timeout_ms != 0)
        return real_ops->reap(queue, done, count_max, count_min, timeout_ms);
    bool is_late =
        arrival == LATE || (arrival == SOMETIMES_LATE && ++polls_count % LATE_STRIDE == 0);
    return is_late ? 0 : real_ops->reap(queue, done, count_max, count_max, IO_FOREVER);
}

/* Like an engine with a broken ring. */
static int altered_submit(struct io_queue *queue, struct io_request *const *requests,
                          unsigned count)
{
    return refuses ? -EIO : real_ops->submit(queue, requests, count);
}

static void intercept_reads(struct fixture *fixture, enum arrival as)
{
    real_ops = fixture->io->ops;
    altered_ops = *real_ops;
    altered_ops.reap = altered_reap;
    altered_ops.submit = altered_submit;
    refuses = false;
    fixture->io->ops = &altered_ops;
    arrival = as;
    polls_count = 0;
}

static void restore_reads(struct fixture *fixture)
{
    fixture->io->ops = real_ops;
}

/* ---- Fixtures. ---- */

enum {
    SAMPLES = 160,
    PAD_BYTES = 100000,
    BAD = 150 /* late enough in sequential order to be in the steady state */
};

static int make_oversized(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.pad_bytes = PAD_BYTES;
    return fixture_set_up_with_options(state, &options);
}

static int make_damaged(void **state)
{
    make_oversized(state);
    fixture_flip_in_field(*state, BAD, "bin", 200);
    return 0;
}

static struct loader_options make_options(const struct fixture *fixture,
                                          enum loader_bad_policy policy)
{
    struct loader_options options = fixture_loader_options(fixture, LOADER_BYTES);
    options.order = ORDER_SEQUENTIAL;
    options.bad_policy = policy;
    return options;
}

static bool is_steady(struct loader *loader)
{
    pthread_mutex_lock(&loader->mutex);
    bool is = inline_decode_is_steady(&loader->reader);
    pthread_mutex_unlock(&loader->mutex);
    return is;
}

/* Delivers two epochs with reads that arrive this way; returns whether inline decode was steady at
 * the end. */
static bool deliver_as(struct fixture *fixture, enum arrival as, enum loader_bad_policy policy,
                       struct delivery *ret_delivered)
{
    struct loader_options options = make_options(fixture, policy);
    struct loader *loader;
    struct err err;
    options.epochs_max = 2;
    *ret_delivered = (struct delivery){0};
    intercept_reads(fixture, as);
    assert_ok(loader_open(&options, &loader, &err), &err);
    consume(loader, ret_delivered, UINT64_MAX);
    bool was_steady = is_steady(loader);
    loader_close(loader);
    restore_reads(fixture);
    return was_steady;
}

/* ---- Cases. ---- */

static void inline_decode_delivers_the_same_bytes(void **state)
{
    static const enum loader_bad_policy policies[] = {LOADER_BAD_SUBSTITUTE, LOADER_BAD_SKIP};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        struct delivery late, at_once, mixed;
        assert_false(deliver_as(*state, LATE, policies[i], &late));
        assert_true(deliver_as(*state, IMMEDIATE, policies[i], &at_once));
        deliver_as(*state, SOMETIMES_LATE, policies[i], &mixed);
        assert_string_equal(at_once.text, late.text);
        assert_string_equal(mixed.text, late.text);
        assert_true(at_once.hash == late.hash && mixed.hash == late.hash);
        delivery_free(&late);
        delivery_free(&at_once);
        delivery_free(&mixed);
    }
}

static void a_flipped_bit_stops_the_run_with_inline_decode_too(void **state)
{
    struct fixture *fixture = *state;
    struct loader_options options = make_options(fixture, LOADER_BAD_STOP);
    struct shard_field field;
    char path[TEST_PATH_BYTES_MAX];
    struct err err;
    fixture_find_field(fixture, BAD, "bin", path, &field);
    intercept_reads(fixture, IMMEDIATE);
    assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
    restore_reads(fixture);
    assert_non_null(strstr(err.what, "\"k000150\""));
    assert_non_null(strstr(err.what, "CRC32C"));
    assert_string_equal(err.path, path);
    assert_int_equal(err.offset, field.data_offset);
}

/* Waits until the reader is idle; returns the number of micro-batches ahead. */
static uint64_t wait_until_idle(struct loader *loader)
{
    uint64_t ahead = 0;
    for (bool is_idle = false; !is_idle; gate_pause()) {
        pthread_mutex_lock(&loader->mutex);
        is_idle = loader->reader.state == READER_NO_SLOT && loader->ready == loader->planned;
        ahead = loader->planned - loader->taken;
        pthread_mutex_unlock(&loader->mutex);
    }
    return ahead;
}

/* Takes batches until all batches ahead were begun in the steady state; returns the read-ahead
 * distance. */
static uint64_t measure_read_ahead(struct fixture *fixture, enum arrival as,
                                   struct loader **ret_loader)
{
    struct loader_options options = make_options(fixture, LOADER_BAD_STOP);
    const struct batch *batch;
    struct err err;
    options.epochs_max = 0;
    intercept_reads(fixture, as);
    assert_ok(loader_open(&options, ret_loader, &err), &err);
    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(loader_next(*ret_loader, &batch, &err), LOADER_BATCH);
        loader_release(*ret_loader, batch);
    }
    return wait_until_idle(*ret_loader);
}

static void cached_reads_use_the_inline_read_ahead(void **state)
{
    struct fixture *fixture = *state;
    struct loader *loader;
    uint64_t ahead = measure_read_ahead(fixture, IMMEDIATE, &loader);
    assert_true(loader->reader.inline_ahead_max < loader->reader.ahead_max);
    assert_int_equal(ahead, loader->reader.inline_ahead_max);
    loader_close(loader);
    restore_reads(fixture);
    ahead = measure_read_ahead(fixture, LATE, &loader);
    assert_int_equal(ahead, loader->reader.ahead_max);
    loader_close(loader);
    restore_reads(fixture);
}

/* Only the reader owns samples that wait for refused reads. */
static void refused_reads_end_the_run_with_inline_decode(void **state)
{
    struct fixture *fixture = *state;
    struct loader *loader;
    const struct batch *batch;
    struct err err;
    int status;
    measure_read_ahead(fixture, IMMEDIATE, &loader);
    refuses = true;
    while ((status = loader_next(loader, &batch, &err)) == LOADER_BATCH)
        loader_release(loader, batch);
    assert_int_equal(status, -EIO);
    assert_non_null(strstr(err.what, "could not read the shard"));
    loader_close(loader);
    restore_reads(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(inline_decode_delivers_the_same_bytes, make_damaged,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_flipped_bit_stops_the_run_with_inline_decode_too,
                                        make_damaged, fixture_tear_down),
        cmocka_unit_test_setup_teardown(cached_reads_use_the_inline_read_ahead, make_oversized,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(refused_reads_end_the_run_with_inline_decode,
                                        make_oversized, fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
