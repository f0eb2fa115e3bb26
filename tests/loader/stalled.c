/*
 * stalled — tests that a log line names a stalled read during the wait, and that the run ends if a
 * timeout is set.
 *
 * The fault-injecting backend holds reads, and releases them when the loader has logged what it
 * waits for.
 */
#include "io/faults/io_fault.h"
#include "tests/loader/fixture.h"
#include "tests/support/gate.h"

#include "base/philox.h"

#include <errno.h>
#include <string.h>

enum { SAMPLES = 200, SHARD_SAMPLES = 37 };

struct watch {
    struct io *io;
    const char *expected, *path; /* content of the line that releases the reads */
    char line[LOG_LINE_BYTES_MAX];
    int others; /* number of other lines about waiting, which may come first */
};

static void release_when_named(void *context, enum log_level level, const char *line)
{
    struct watch *watch = context;
    assert_int_equal(level, LOG_WARN);
    if (!strstr(line, "no micro-batch for "))
        return;
    if (!strstr(line, watch->expected) || !strstr(line, watch->path)) {
        watch->others++;
        return;
    }
    snprintf(watch->line, sizeof watch->line, "%s", line);
    io_fault_release(watch->io);
}

/* Delivers the whole fixture with read faults by these rules; the loader logs what it waits for,
 * which releases the reads. */
static void expect_named(const struct fixture *fixture, const char *rules, const char *expected,
                         const char *path)
{
    struct loader_options options = fixture_loader_options(fixture, LOADER_IMAGE);
    struct delivery quick, stalled;
    struct err err = {0};
    options.order = ORDER_SEQUENTIAL;
    options.batches_ahead = 2;
    consume_all(&options, &quick, NULL, NULL);
    struct watch watch = {.expected = expected, .path = path};
    assert_ok(io_fault_open(fixture->folder, NULL, rules, &watch.io, &err), &err);
    struct log log = {.write = release_when_named, .context = &watch};
    options.io = watch.io;
    options.log = &log;
    options.stall_report_ns = 1000000;
    consume_all(&options, &stalled, NULL, NULL);
    assert_true(watch.line[0]);
    assert_true(stalled.hash == quick.hash);
    delivery_free(&stalled);
    delivery_free(&quick);
    io_close(watch.io);
}

static void a_stuck_read_is_named_and_the_run_continues_after_it(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    expect_named(&fixture, "read:hold@2+:shard-000000", "waiting for a read of ",
                 "shard-000000.tar at ");
    fixture_remove(&fixture);
}

static void a_stuck_index_is_named(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    expect_named(&fixture, "read:hold@1:shard-000002", "waiting for the index of a shard",
                 "shard-000002.tar");
    fixture_remove(&fixture);
}

/* The substitute for a bad sample in the first shard is in another shard, whose reads stall after
 * its index. */
static void a_stuck_worker_is_distinguished_from_a_stuck_read(void **state)
{
    (void)state;
    struct fixture fixture;
    char path[TEST_PATH_BYTES_MAX], rules[64];
    struct shard_field field;
    uint64_t bad = 0, other = 0;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    for (; other < 2 * SHARD_SAMPLES; bad++) {
        struct philox_block block =
            philox_sample(options.seed, 0, options.epoch, bad, PHILOX_SUBSTITUTE, 0);
        other = ((uint64_t)block.word[0] << 32 | block.word[1]) % SAMPLES;
    }
    bad--;
    assert_true(bad < 24); /* the sample is in the first step, before the other shard is read */
    fixture_find_field(&fixture, bad, "jpg", path, &field);
    fixture_flip_bit(path, field.data_offset + 100);
    snprintf(rules, sizeof rules, "read:hold@2+:shard-%06d", (int)(other / SHARD_SAMPLES));
    expect_named(&fixture, rules, "samples to be decoded", "");
    fixture_remove(&fixture);
}

/* Opens a loader on watch->io, a new backend that holds the reads of the first shard. */
static struct loader *open_held(const struct fixture *fixture, struct watch *watch,
                                const struct log *log, struct loader_options *options)
{
    struct loader *loader;
    struct err err = {0};
    assert_ok(io_fault_open(fixture->folder, NULL, "read:hold@2+:shard-000000", &watch->io, &err),
              &err);
    options->io = watch->io;
    options->order = ORDER_SEQUENTIAL;
    options->log = log;
    assert_ok(loader_open(options, &loader, &err), &err);
    return loader;
}

/* Lets a call look at the time, then ends it. */
static bool stop_every_other_time(const void *context)
{
    static unsigned polls;
    (void)context;
    return polls++ % 2 == 1;
}

static void a_wait_goes_on_after_a_stop(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    const struct batch *batch;
    struct err err = {0};
    struct watch watch = {.expected = "never said", .path = ""};
    const struct log log = {.write = release_when_named, .context = &watch};
    options.timeout_ns = 20000000;
    options.stall_report_ns = 5000000;
    options.batches_ahead = 2;
    options.wants_stop = stop_every_other_time;
    struct loader *loader = open_held(&fixture, &watch, &log, &options);
    int status = loader_next(loader, &batch, &err);
    assert_int_equal(status, -EINTR);
    while (status == -EINTR) /* each call is shorter than either time */
        status = loader_next(loader, &batch, &err);
    assert_int_equal(status, -ETIMEDOUT);
    assert_true(watch.others >= 2); /* the stall, and the end */
    loader_close(loader);
    io_close(options.io);
    fixture_remove(&fixture);
}

static void a_read_that_never_completes_ends_the_run_in_time(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    const struct batch *batch;
    struct err err = {0}, again;
    struct watch watch = {.expected = "never said", .path = ""};
    const struct log log = {.write = release_when_named, .context = &watch};
    options.timeout_ns = 1000000;
    /* both batches are in that shard, so no index is being read while a read is held */
    options.batches_ahead = 2;
    struct loader *loader = open_held(&fixture, &watch, &log, &options);
    while (io_fault_counts(options.io).held_operations == 0)
        gate_pause();
    assert_int_equal(loader_next(loader, &batch, &err), -ETIMEDOUT);
    assert_non_null(strstr(err.what, "waiting for a read of "));
    assert_non_null(strstr(err.path, "shard-000000.tar"));
    assert_true(err.offset >= 0);
    assert_true(err.advice[0]);
    assert_true(watch.others >= 1); /* the wait is also logged, since closing may take as long */
    assert_int_equal(loader_next(loader, &batch, &again), -ETIMEDOUT);
    loader_close(loader);
    assert_int_equal(io_fault_counts(options.io).in_flight_requests, 0);
    io_close(options.io);
    fixture_remove(&fixture);
}

static bool is_not_zero(const void *number)
{
    return atomic_load((const atomic_int *)number);
}

/* The read never completes unless it is released. */
static void a_wait_ends_only_on_a_stop_request(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    const struct batch *batch;
    struct err err = {0};
    struct watch watch = {.expected = "waiting ", .path = ""};
    const struct log log = {.write = release_when_named, .context = &watch};
    atomic_int stop = 1;
    options.wants_stop = is_not_zero;
    options.stop_context = &stop;
    options.stall_report_ns = 1000000;
    struct loader *loader = open_held(&fixture, &watch, &log, &options);
    for (int i = 0; i < 2; i++)
        assert_int_equal(loader_next(loader, &batch, &err), -EINTR);
    atomic_store(&stop, 0);
    err_clear(&err);
    assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
    loader_close(loader);
    loader_release(loader, batch);
    io_close(watch.io);
    fixture_remove(&fixture);
}

/* An overflowing deadline would be in the past, and so log a line or end the run at once. */
static void a_timeout_can_be_disabled(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    const struct batch *batch;
    struct err err = {0};
    struct watch watch = {.expected = "waiting ", .path = ""};
    const struct log log = {.write = release_when_named, .context = &watch};
    for (int is_timeout = 0; is_timeout < 2; is_timeout++) {
        watch.line[0] = '\0';
        watch.others = 0;
        watch.expected = is_timeout ? "waiting " : "never said";
        options.stall_report_ns = is_timeout ? 1000000 : UINT64_MAX;
        options.timeout_ns = is_timeout ? UINT64_MAX : 20000000;
        struct loader *loader = open_held(&fixture, &watch, &log, &options);
        assert_int_equal(loader_next(loader, &batch, &err), is_timeout ? LOADER_BATCH : -ETIMEDOUT);
        assert_int_equal(watch.others, is_timeout ? 0 : 1); /* the line about the timeout */
        loader_close(loader);
        if (is_timeout)
            loader_release(loader, batch);
        io_close(watch.io);
    }
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stuck_read_is_named_and_the_run_continues_after_it),
        cmocka_unit_test(a_stuck_index_is_named),
        cmocka_unit_test(a_stuck_worker_is_distinguished_from_a_stuck_read),
        cmocka_unit_test(a_wait_goes_on_after_a_stop),
        cmocka_unit_test(a_read_that_never_completes_ends_the_run_in_time),
        cmocka_unit_test(a_wait_ends_only_on_a_stop_request),
        cmocka_unit_test(a_timeout_can_be_disabled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
