/*
 * failing_disk — tests truncated or missing shards, and disks that fail, return wrong data, or are
 * slow.
 */
#include "io/faults/io_fault.h"
#include "tests/loader/fixture.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 200 };

struct line_counter {
    const char *path;
    int count;
};

/* Counts the lines that name the file. */
static void count_line(void *context, enum log_level level, const char *line)
{
    struct line_counter *counter = context;
    counter->count += level == LOG_WARN && strstr(line, counter->path);
}

static void a_truncated_shard_spoils_only_its_samples(void **state)
{
    (void)state;
    struct fixture fixture;
    char path[TEST_PATH_BYTES_MAX + 32];
    fixture_make_default_images(&fixture, SAMPLES);
    snprintf(path, sizeof path, "%s/shard-000003.tar", fixture.folder);
    assert_int_equal(test_run("chmod u+w '%s' && truncate -s 50000 '%s'", path, path), 0);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    struct delivery delivered;
    struct loader_stats stats;
    options.bad_fraction_max = 0.9;
    struct line_counter counter = {.path = path};
    struct log log = {.write = count_line, .context = &counter};
    options.log = &log;
    consume_all(&options, &delivered, &stats, NULL);
    assert_int_equal(delivered.items, SAMPLES);
    assert_int_equal(stats.bad_samples_count, 37);
    assert_int_equal(counter.count, 37); /* although the keys are lost with the index */
    options.log = NULL;
    delivery_free(&delivered);
    struct err err;
    options.bad_policy = LOADER_BAD_STOP;
    assert_int_equal(consume_until_error(&options, &err), -EBADMSG);
    assert_string_equal(err.path, path);
    fixture_remove(&fixture);
}

/* Loader options for the fixture's folder, with read faults. */
static struct loader_options options_with_faults(const struct fixture *fixture,
                                                 enum loader_decode decode, const char *rules)
{
    struct loader_options options = fixture_loader_options(fixture, decode);
    struct err err = {0};
    assert_ok(io_fault_open(fixture->folder, NULL, rules, &options.io, &err), &err);
    options.bad_fraction_max = 1;
    return options;
}

/* Finding the samples reads the whole shard, but only once. */
static void a_damaged_shard_is_read_once(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options fixture_options = fixture_options_default(SAMPLES);
    fixture_options.pad_bytes = 100000;
    fixture_make_images(&fixture, &fixture_options);
    assert_int_equal(
        test_run("chmod u+w '%s/shard-000003.tar' && truncate -s 3000000 '%s/shard-000003.tar'",
                 fixture.folder, fixture.folder),
        0);
    struct loader_options options = options_with_faults(&fixture, LOADER_IMAGE, "seed=0");
    struct delivery delivered;
    struct loader_stats stats;
    options.epochs_max = 3;
    consume_all(&options, &delivered, &stats, NULL);
    assert_int_equal(stats.bad_samples_count, 3 * 37);
    /* bytes of indexes, and of the shard without an index */
    uint64_t others = io_fault_counts(options.io).read_bytes - stats.read_bytes;
    assert_in_range(others, 1, 8 << 20);
    delivery_free(&delivered);
    io_close(options.io);
    fixture_remove(&fixture);
}

static void a_missing_shard_ends_the_run_instead_of_substituting(void **state)
{
    (void)state;
    struct fixture fixture;
    char path[TEST_PATH_BYTES_MAX + 32];
    fixture_make_default_images(&fixture, SAMPLES);
    snprintf(path, sizeof path, "%s/shard-000003.tar", fixture.folder);
    assert_int_equal(unlink(path), 0);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    struct err err;
    options.bad_fraction_max = 1;
    assert_int_equal(consume_until_error(&options, &err), -ENOENT);
    assert_string_equal(err.path, path);
    fixture_remove(&fixture);
}

/* The second rule fails the first read of a shard, that of its index. */
static void a_disk_error_ends_the_run_instead_of_substituting(void **state)
{
    (void)state;
    static const char *const rules[] = {"read:eio@20+", "read:eio@1:shard-000003"};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        struct fixture fixture;
        struct err err = {0};
        fixture_make_default_images(&fixture, SAMPLES);
        struct loader_options options = options_with_faults(&fixture, LOADER_IMAGE, rules[i]);
        assert_int_equal(consume_until_error(&options, &err), -EIO);
        assert_non_null(strstr(err.path, i == 0 ? "shard-" : "shard-000003"));
        assert_true(err.offset >= 0);
        io_close(options.io);
        fixture_remove(&fixture);
    }
}

static void a_failure_to_reap_reads_ends_the_run(void **state)
{
    (void)state;
    for (int calls = 0; calls < 4; calls++) {
        struct fixture fixture;
        struct err err = {0};
        char rules[64];
        fixture_make_default_images(&fixture, SAMPLES);
        snprintf(rules, sizeof rules, "wait:eio@%d", 13 + calls); /* opening needs some waits */
        struct loader_options options = options_with_faults(&fixture, LOADER_IMAGE, rules);
        assert_int_equal(consume_until_error(&options, &err), -EIO);
        assert_int_equal(io_fault_counts(options.io).in_flight_requests, 0);
        io_close(options.io);
        fixture_remove(&fixture);
    }
}

static void a_shrinking_file_spoils_only_its_samples(void **state)
{
    (void)state;
    struct fixture fixture;
    struct delivery first, other;
    struct loader_stats stats;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options =
        options_with_faults(&fixture, LOADER_IMAGE, "read:short@40:shard-,read:short@50:shard-");
    consume_all(&options, &first, &stats, NULL);
    assert_int_equal(first.items, SAMPLES);
    assert_in_range(stats.bad_samples_count, 1, SAMPLES / 2);
    struct err err = {0};
    assert_ok(io_fault_set(options.io, "read:short@40:shard-,read:short@50:shard-", &err), &err);
    options.bad_policy = LOADER_BAD_SKIP;
    consume_all(&options, &other, &stats, NULL);
    assert_in_range(stats.bad_samples_count, 1, SAMPLES / 2);
    delivery_free(&first);
    delivery_free(&other);
    io_close(options.io);
    fixture_remove(&fixture);
}

/* A tenth of the reads are slow and complete out of order. */
static void a_slow_disk_changes_neither_order_nor_bytes(void **state)
{
    (void)state;
    struct fixture fixture;
    struct delivery quick, slow;
    struct loader_stats stats;
    fixture_make_default_images(&fixture, SAMPLES);
    struct loader_options options = fixture_loader_options(&fixture, LOADER_IMAGE);
    consume_all(&options, &quick, NULL, NULL);
    for (unsigned workers = 1; workers <= 3; workers++) {
        options = options_with_faults(&fixture, LOADER_IMAGE,
                                      "read:delay=30ms%10:shard-,read:delay=1ms,seed=4");
        options.workers = workers;
        consume_all(&options, &slow, &stats, NULL);
        assert_true(slow.hash == quick.hash);
        assert_string_equal(slow.text, quick.text);
        assert_int_equal(stats.bad_samples_count, 0);
        delivery_free(&slow);
        io_close(options.io);
    }
    delivery_free(&quick);
    fixture_remove(&fixture);
}

/* The seed determines which bits flip, so the same samples are bad in every run. */
static void samples_with_flipped_bits_get_the_same_substitutes_every_time(void **state)
{
    (void)state;
    struct fixture fixture;
    struct delivery first, other;
    struct loader_stats stats;
    fixture_make_default_images(&fixture, SAMPLES);
    for (unsigned workers = 1; workers <= 3; workers++) {
        struct loader_options options =
            options_with_faults(&fixture, LOADER_BYTES, "read:flip%30:shard-000001,seed=2");
        options.workers = workers;
        consume_all(&options, workers == 1 ? &first : &other, &stats, NULL);
        assert_in_range(stats.bad_samples_count, 1, SAMPLES / 2);
        io_close(options.io);
        if (workers == 1)
            continue;
        assert_true(other.hash == first.hash);
        assert_string_equal(other.text, first.text);
        delivery_free(&other);
    }
    delivery_free(&first);
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_truncated_shard_spoils_only_its_samples),
        cmocka_unit_test(a_damaged_shard_is_read_once),
        cmocka_unit_test(a_missing_shard_ends_the_run_instead_of_substituting),
        cmocka_unit_test(a_disk_error_ends_the_run_instead_of_substituting),
        cmocka_unit_test(a_failure_to_reap_reads_ends_the_run),
        cmocka_unit_test(a_shrinking_file_spoils_only_its_samples),
        cmocka_unit_test(a_slow_disk_changes_neither_order_nor_bytes),
        cmocka_unit_test(samples_with_flipped_bits_get_the_same_substitutes_every_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
