/*
 * gaps — tests that reads merge across the gaps that the medium of each dataset is worth.
 *
 * Each sample has an unwanted field "bin" of PAD_BYTES, which separates its image from the next
 * one. The rules SLOW and FAST delay the same reads, except for the first one. Only SLOW delays
 * every read, so only its backend reports a slow medium.
 */
#include "io/faults/io_fault.h"
#include "loader/state.h"
#include "tests/loader/fixture.h"

#include <inttypes.h>
#include <string.h>

/* The default order of so many samples has runs of five. */
enum { SAMPLES = 116, PAD_BYTES = 200000, MIB = 1 << 20 };

#define SLOW "read:delay=5ms" /* a gap of 640 KB */
#define FAST "read:delay=5ms@2+"

static void make(struct fixture *fixture)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.pad_bytes = PAD_BYTES;
    fixture_make_images(fixture, &options);
}

static int make_images(void **state)
{
    struct fixture_options options = fixture_options_default(SAMPLES);
    options.pad_bytes = PAD_BYTES;
    return fixture_set_up_with_options(state, &options);
}

/* With the default order, and too little memory to keep the dataset. */
static struct loader_options make_options(const struct fixture *fixture, enum loader_decode decode)
{
    struct loader_options options = fixture_loader_options(fixture, decode);
    options.window = options.run = 0;
    options.memory_bytes = 44 << 20;
    return options;
}

struct outcome {
    struct delivery delivered;
    struct loader_stats stats;
    struct cursor cursor;
};

static struct outcome read_with_rules(struct loader_options options, const char *rules)
{
    struct outcome outcome;
    struct err err;
    assert_ok(io_fault_open("file:", NULL, rules, &options.io, &err), &err);
    consume_all(&options, &outcome.delivered, &outcome.stats, &outcome.cursor);
    io_close(options.io);
    print_message("%s: %" PRIu64 " reads of %" PRIu64 " KiB\n", rules, outcome.stats.reads_count,
                  outcome.stats.read_bytes >> 10);
    return outcome;
}

static void assert_same_samples(const struct outcome *a, const struct outcome *b)
{
    assert_string_equal(a->delivered.text, b->delivered.text);
    assert_true(a->delivered.hash == b->delivered.hash);
    assert_true(a->cursor.set_digest == b->cursor.set_digest);
    assert_true(a->cursor.sequence_digest == b->cursor.sequence_digest);
    assert_int_equal(a->stats.wanted_bytes, b->stats.wanted_bytes);
}

static void free_outcome(struct outcome *outcome)
{
    delivery_free(&outcome->delivered);
}

static void a_slow_medium_gets_fewer_and_longer_reads(void **state)
{
    static const enum order_kind orders[] = {ORDER_SHUFFLE, ORDER_SEQUENTIAL};
    for (size_t i = 0; i < 2; i++) {
        struct loader_options options = make_options(*state, LOADER_IMAGE);
        options.order = orders[i];
        struct outcome fast = read_with_rules(options, FAST), slow = read_with_rules(options, SLOW);
        assert_same_samples(&fast, &slow);
        assert_int_equal(fast.delivered.items, SAMPLES);
        assert_in_range(fast.stats.reads_count, SAMPLES, 2 * SAMPLES);
        assert_in_range(slow.stats.reads_count, SAMPLES * PAD_BYTES / (2 * MIB), SAMPLES * 2 / 3);
        assert_true(fast.stats.read_bytes < SAMPLES * PAD_BYTES / 2);
        assert_in_range(slow.stats.read_bytes, SAMPLES * PAD_BYTES / 2, SAMPLES * PAD_BYTES * 2);
        free_outcome(&fast);
        free_outcome(&slow);
    }
}

/* Of two datasets, only the files of one are slow. */
static void each_dataset_of_a_mix_has_its_own_gap(void **state)
{
    const struct fixture *fixture = *state;
    struct fixture other;
    make(&other);
    const struct loader_source mix[2] = {{fixture->folder, 1}, {other.folder, 1}};
    struct loader_options options = make_options(fixture, LOADER_IMAGE);
    options.dataset = NULL;
    options.mix = mix;
    options.mix_count = 2;
    char rules[2 * TEST_PATH_BYTES_MAX];
    snprintf(rules, sizeof rules, "%s,%s:%s/", FAST, SLOW, strrchr(other.folder, '/'));
    struct outcome fast = read_with_rules(options, FAST), slow = read_with_rules(options, SLOW),
                   both = read_with_rules(options, rules);
    assert_same_samples(&fast, &slow);
    assert_same_samples(&fast, &both);
    uint64_t half_reads = (fast.stats.reads_count + slow.stats.reads_count) / 2;
    assert_in_range(both.stats.reads_count, half_reads * 8 / 10, half_reads * 12 / 10);
    free_outcome(&fast);
    free_outcome(&slow);
    free_outcome(&both);
    fixture_remove(&other);
}

/* If the memory cannot hold the gaps, they are skipped. */
static void any_memory_suffices_for_the_gaps(void **state)
{
    static const enum loader_decode decodes[] = {LOADER_IMAGE, LOADER_BYTES};
    for (size_t i = 0; i < 2; i++) {
        struct loader_options options = make_options(*state, decodes[i]);
        options.batching.ranks = 2; /* the other rank's samples are gaps */
        uint64_t least_bytes = fixture_memory_for_long_reads(&options, 0);
        options.memory_bytes = least_bytes + (64 << 20);
        struct outcome expected = read_with_rules(options, FAST);
        for (uint64_t more_bytes = 4096; more_bytes < 64 << 20; more_bytes *= 4) {
            options.memory_bytes = least_bytes + more_bytes;
            struct outcome outcome = read_with_rules(options, SLOW);
            assert_same_samples(&expected, &outcome);
            free_outcome(&outcome);
        }
        free_outcome(&expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_medium_gets_fewer_and_longer_reads),
        cmocka_unit_test(each_dataset_of_a_mix_has_its_own_gap),
        cmocka_unit_test(any_memory_suffices_for_the_gaps),
    };
    return cmocka_run_group_tests(tests, make_images, fixture_tear_down);
}
