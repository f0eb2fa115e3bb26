/*
 * long_reads_memory — tests that long reads never change what is delivered, in any memory budget,
 * and that their memory is reused.
 */
#include "loader/state.h"
#include "tests/loader/altered_reads.h"
#include "tests/loader/fixture.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "base/philox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES = 300,
    PAD_BYTES = 6000,
    GLOBAL = 16,
    MICRO = 4,
    LANES = 8,
    RUN = 17,
    QUARTERS_COUNT = 4, /* memory for 0, 1, 2, 4 quarters of a run at once */
    BLOCK = 512,
    TOKENS = 200 * BLOCK + 300,
    MEMBER_TOKENS = 23 * BLOCK + 1,
};

static const uint32_t quarters_tested[QUARTERS_COUNT] = {0, 1, 2, 4};

struct fixtures {
    struct fixture images, other, text;
};

static int make_fixtures(void **state)
{
    struct fixtures *fixtures = malloc(sizeof *fixtures);
    struct fixture_options options = fixture_options_default(SAMPLES);
    assert_non_null(fixtures);
    options.pad_bytes = PAD_BYTES;
    options.samples_per_shard = 67;
    fixture_make_images(&fixtures->images, &options);
    options = fixture_options_default(SAMPLES / 2);
    options.pad_bytes = 3000;
    fixture_make_images(&fixtures->other, &options);
    fixture_make_text(&fixtures->text, TOKENS, MEMBER_TOKENS, 3);
    *state = fixtures;
    return 0;
}

static int remove_fixtures(void **state)
{
    struct fixtures *fixtures = *state;
    fixture_remove(&fixtures->images);
    fixture_remove(&fixtures->other);
    fixture_remove(&fixtures->text);
    free(fixtures);
    return 0;
}

static struct loader_options make_options(const struct fixture *fixture, enum loader_decode decode)
{
    struct loader_options options = fixture_loader_options(fixture, decode);
    options.batching = (struct batching){.global = GLOBAL, .micro = MICRO, .ranks = 1};
    options.lanes = LANES;
    options.window = 1;
    options.run = RUN;
    options.text.block = BLOCK;
    return options;
}

/* ---- The same batches. ---- */

static uint64_t random_below(uint64_t seed, uint64_t *counter, uint64_t limit)
{
    return philox(seed, 0, (*counter)++).word[0] % limit;
}

/* What a rank delivered, and how. */
struct rank_run {
    struct delivery delivered;
    struct cursor cursor;
    uint64_t reads;
};

static struct rank_run run_rank(const struct loader_options *options)
{
    struct rank_run run;
    struct loader_stats stats;
    consume_all(options, &run.delivered, &stats, &run.cursor);
    run.reads = stats.reads_count;
    return run;
}

static struct loader_options random_options(const struct fixtures *fixtures, uint64_t seed,
                                            uint64_t *counter, const struct loader_source mix[2])
{
    enum loader_decode decode = (enum loader_decode)random_below(seed, counter, 3);
    const struct fixture *fixture = decode == LOADER_TOKENS ? &fixtures->text : &fixtures->images;
    struct loader_options options = make_options(fixture, decode);
    if (decode != LOADER_TOKENS && random_below(seed, counter, 4) == 0) {
        options.dataset = NULL;
        options.mix = mix;
        options.mix_count = 2;
    }
    static const uint64_t lanes[] = {4, 5, LANES, GLOBAL};
    options.io = fixtures->images.io;
    options.lanes = lanes[random_below(seed, counter, 4)];
    options.order = random_below(seed, counter, 4) ? ORDER_SHUFFLE : ORDER_SEQUENTIAL;
    options.window = random_below(seed, counter, 4) ? 1 : 5;
    options.seed = random_below(seed, counter, 1000);
    options.epochs_max = 1 + random_below(seed, counter, 3);
    options.epoch = (uint32_t)random_below(seed, counter, 2);
    options.workers = 1 + (unsigned)random_below(seed, counter, 3);
    switch (random_below(seed, counter, 3)) {
    case 0:
        options.drop_last = true;
        break;
    case 1:
        options.pad_last = true;
        break;
    default:
        break;
    }
    if (random_below(seed, counter, 3) == 0)
        options.positions_max = 1 + random_below(seed, counter, 2 * SAMPLES);
    if (random_below(seed, counter, 2) == 0) {
        options.position = GLOBAL * random_below(seed, counter, 12);
        options.micros_done = random_below(seed, counter, GLOBAL / MICRO);
    }
    options.batching.ranks = 1 + (uint32_t)random_below(seed, counter, 3);
    options.batching.interleaved = random_below(seed, counter, 2);
    return options;
}

/* Compares all budgets with one that is too small for long reads. */
static void long_reads_do_not_change_batches(void **state)
{
    const struct fixtures *fixtures = *state;
    const struct loader_source mix[2] = {{fixtures->images.folder, 2}, {fixtures->other.folder, 1}};
    const uint64_t cases = test_is_sanitized() ? 25 : 100;
    const uint64_t first_seed = 1;
    uint64_t reads[QUARTERS_COUNT] = {0};
    for (uint64_t seed = first_seed; seed < first_seed + cases; seed++) {
        uint64_t counter = 0;
        struct loader_options options = random_options(fixtures, seed, &counter, mix);
        enum reads_arrival arrival = random_below(seed, &counter, 3);
        print_message("seed %" PRIu64 "\n", seed);
        bool has_neighbors = options.window == 1 || options.order == ORDER_SEQUENTIAL;
        uint64_t memory_bytes[QUARTERS_COUNT];
        for (uint32_t i = 0; i < QUARTERS_COUNT; i++)
            memory_bytes[i] =
                fixture_memory_for_long_reads(&options, has_neighbors ? quarters_tested[i] : 0);
        for (uint32_t rank = 0; rank < options.batching.ranks; rank++) {
            struct rank_run runs[QUARTERS_COUNT];
            options.batching.rank = rank;
            for (uint32_t i = 0; i < QUARTERS_COUNT; i++) {
                options.memory_bytes = memory_bytes[i];
                altered_reads_begin(options.io, i == 0 ? READS_AT_ONCE : arrival);
                runs[i] = run_rank(&options);
                altered_reads_end();
                reads[i] += arrival == READS_LATER ? runs[i].reads : 0;
            }
            for (uint32_t i = 1; i < QUARTERS_COUNT; i++) {
                assert_true(runs[i].delivered.hash == runs[0].delivered.hash);
                assert_int_equal(runs[i].delivered.batches, runs[0].delivered.batches);
                if (runs[0].delivered.text)
                    assert_string_equal(runs[i].delivered.text, runs[0].delivered.text);
                assert_memory_equal(&runs[i].cursor, &runs[0].cursor, sizeof runs[0].cursor);
            }
            for (uint32_t i = 0; i < QUARTERS_COUNT; i++)
                delivery_free(&runs[i].delivered);
        }
    }
    print_message("reads: %" PRIu64 " single, %" PRIu64 " by quarters, %" PRIu64
                  " by halves, %" PRIu64 " by runs\n",
                  reads[0], reads[1], reads[2], reads[3]);
    if (!test_is_sanitized()) /* which tries too few budgets that differ */
        assert_true(reads[1] < reads[0] && reads[2] < reads[1] && reads[3] < reads[2]);
}

/* ---- Memory. ---- */

static void every_memory_budget_delivers_the_same_batches(void **state)
{
    const struct fixtures *fixtures = *state;
    const uint32_t steps = test_is_sanitized() ? 8 : 25;
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_TOKENS; decode++) {
        struct loader_options options =
            make_options(decode == LOADER_TOKENS ? &fixtures->text : &fixtures->images, decode);
        struct delivery expected, delivered;
        options.workers = 1;
        uint64_t least = fixture_memory_for_long_reads(&options, 0);
        uint64_t most = 5 * fixture_memory_for_long_reads(&options, ORDER_QUARTERS) / 4;
        consume_all(&options, &expected, NULL, NULL);
        for (enum reads_arrival arrival = READS_AT_ONCE; arrival <= READS_SOMETIMES_LATER;
             arrival++) {
            for (uint32_t i = 0; i <= steps; i++) {
                options.memory_bytes = least + (most - least) * i / steps;
                altered_reads_begin(options.io, arrival);
                consume_all(&options, &delivered, NULL, NULL);
                altered_reads_end();
                assert_true(delivered.hash == expected.hash);
                assert_string_equal(delivered.text, expected.text);
                delivery_free(&delivered);
            }
        }
        delivery_free(&expected);
    }
}

/* Although their tar headers are larger than they are. */
static void small_samples_are_read_at_once_within_the_budget(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options fixture_options =
        fixture_options_default(test_is_sanitized() ? 6000 : 22400);
    fixture_options.samples_per_shard = fixture_options.samples;
    fixture_make_images(&fixture, &fixture_options);
    static const struct batching batchings[] = {{.global = 16, .micro = 4, .ranks = 1},
                                                {.global = 8, .micro = 8, .ranks = 1}};
    for (size_t k = 0; k < sizeof batchings / sizeof batchings[0]; k++) {
        struct loader_options options = make_options(&fixture, LOADER_BYTES);
        uint64_t single_reads = 0;
        options.batching = batchings[k];
        options.lanes = options.batching.global;
        options.run = 0;
        for (uint32_t i = 0; i < QUARTERS_COUNT; i++) {
            struct delivery delivered;
            struct loader_stats stats;
            options.memory_bytes = fixture_memory_for_long_reads(&options, quarters_tested[i]);
            print_message("micro-batches of %" PRIu64 ", %u quarters, %" PRIu64 " bytes\n",
                          options.batching.micro, quarters_tested[i], options.memory_bytes);
            altered_reads_begin(options.io, READS_LATER);
            consume_all(&options, &delivered, &stats, NULL);
            altered_reads_end();
            print_message("%" PRIu64 " reads of %" PRIu64 " bytes\n", stats.reads_count,
                          stats.read_bytes);
            assert_int_equal(delivered.items, fixture.samples);
            if (quarters_tested[i] == 0)
                single_reads = stats.reads_count;
            else
                assert_true(stats.reads_count * (test_is_sanitized() ? 10 : 50) < single_reads);
            delivery_free(&delivered);
        }
    }
    fixture_remove(&fixture);
}

/* A micro-batch that fits the arena with single reads also fits with long reads. */
static void samples_larger_than_listed_are_delivered_by_every_budget(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_options fixture_options = fixture_options_default(2 * SAMPLES);
    fixture_options.samples_per_shard = 100;
    fixture_options.pad_bytes = 16000;
    fixture_make_images(&fixture, &fixture_options);
    fixture_set_listed_mean_bytes(&fixture, 200);
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        struct loader_options options = make_options(&fixture, decode);
        struct delivery expected, delivered;
        options.workers = 1;
        options.run = 37;
        options.lanes = options.batching.micro = GLOBAL;
        consume_all(&options, &expected, NULL, NULL);
        uint64_t least = fixture_memory_for_long_reads(&options, 0);
        uint64_t most = 2 * fixture_memory_for_long_reads(&options, ORDER_QUARTERS);
        for (uint32_t i = 0; i <= 10; i++) {
            options.memory_bytes = least + (most - least) * i / 10;
            print_message("%" PRIu64 " bytes of memory\n", options.memory_bytes);
            altered_reads_begin(options.io, READS_LATER);
            consume_all(&options, &delivered, NULL, NULL);
            altered_reads_end();
            assert_true(delivered.hash == expected.hash);
            delivery_free(&delivered);
        }
        delivery_free(&expected);
    }
    fixture_remove(&fixture);
}

/* ---- A consumer that holds batches. ---- */

enum { HELD_MAX = 6 };

/* Batches on their way to the thread that releases them. */
struct handover {
    struct loader *loader;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const struct batch *held[HELD_MAX]; /* G */
    uint64_t hashes[HELD_MAX];          /* G: of their bytes when they were delivered */
    uint32_t count, unreleased_count;   /* G */
    bool drains;                        /* G: release all that are held */
    bool has_ended;                     /* G */
    uint64_t changed_batches;           /* G: whose bytes were different at their release */
    uint64_t seed, draws;               /* of the releasing thread */
};

static uint64_t hash_batch(const struct batch *batch)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < batch->items_count; i++) {
        const struct batch_item *item = &batch->items[i];
        for (uint32_t k = 0; k < item->fields_count; k++)
            sum = sum * 31 + hash_64(item->fields[k].data, item->fields[k].bytes);
    }
    return sum;
}

/* Releases held batches in a random order. */
static void *release_main(void *argument)
{
    struct handover *handover = argument;
    pthread_mutex_lock(&handover->mutex);
    while (!handover->has_ended || handover->count > 0) {
        bool releases = handover->count == HELD_MAX || handover->drains || handover->has_ended;
        if (handover->count == 0 || !releases) {
            pthread_cond_wait(&handover->changed, &handover->mutex);
            continue;
        }
        uint64_t i = random_below(handover->seed, &handover->draws, handover->count);
        const struct batch *batch = handover->held[i];
        uint64_t hash = handover->hashes[i];
        handover->count--;
        handover->held[i] = handover->held[handover->count];
        handover->hashes[i] = handover->hashes[handover->count];
        pthread_mutex_unlock(&handover->mutex);
        bool is_changed = hash_batch(batch) != hash;
        loader_release(handover->loader, batch);
        pthread_mutex_lock(&handover->mutex);
        handover->unreleased_count--;
        handover->changed_batches += is_changed;
        pthread_cond_signal(&handover->changed);
    }
    pthread_mutex_unlock(&handover->mutex);
    return NULL;
}

/* Takes all batches and hands them over. Returns how often the loader ran out of memory. */
static uint64_t hand_all_over(struct handover *handover, struct delivery *delivered)
{
    const struct batch *batch;
    struct err err;
    uint64_t shortages = 0;
    int status;
    while ((status = loader_next(handover->loader, &batch, &err)) != LOADER_END) {
        pthread_mutex_lock(&handover->mutex);
        if (status == LOADER_BATCH) {
            delivery_add(delivered, batch);
            while (handover->count == HELD_MAX)
                pthread_cond_wait(&handover->changed, &handover->mutex);
            handover->hashes[handover->count] = hash_batch(batch);
            handover->held[handover->count++] = batch;
            handover->unreleased_count++;
            pthread_cond_signal(&handover->changed);
        } else {
            assert_int_equal(status, -ENOBUFS);
            assert_true(handover->unreleased_count > 0);
            shortages++;
            handover->drains = true;
            pthread_cond_signal(&handover->changed);
            while (handover->unreleased_count > 0)
                pthread_cond_wait(&handover->changed, &handover->mutex);
            handover->drains = false;
        }
        pthread_mutex_unlock(&handover->mutex);
    }
    return shortages;
}

/* Fails unless the loader, which has delivered all, can use its whole budget again. */
static void assert_memory_is_free(struct loader *loader)
{
    struct memory_budget *memory = &loader->memory;
    pthread_mutex_lock(&memory->mutex);
    uint64_t bytes = memory->arena.capacity_bytes;
    const uint8_t *all = read_arena_alloc(&memory->arena, bytes, 0);
    assert_non_null(all);
    read_arena_free(&memory->arena, all, bytes);
    assert_int_equal(memory->spare_bytes, memory->limit_bytes - memory->allocated_bytes);
    pthread_mutex_unlock(&memory->mutex);
}

static void held_batches_keep_their_bytes_and_then_free_all_memory(void **state)
{
    const struct fixtures *fixtures = *state;
    uint64_t shortages = 0;
    for (uint32_t i = 0; i < 2 * QUARTERS_COUNT; i++) {
        struct loader_options options = make_options(&fixtures->images, LOADER_BYTES);
        struct handover handover = {
            .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .seed = i};
        struct delivery expected, delivered = {0};
        struct err err;
        pthread_t thread;
        options.order = i % 2 ? ORDER_SEQUENTIAL : ORDER_SHUFFLE;
        options.epochs_max = 5;
        consume_all(&options, &expected, NULL, NULL);
        options.memory_bytes = fixture_memory_for_long_reads(&options, quarters_tested[i / 2]);
        altered_reads_begin(options.io, READS_LATER);
        assert_ok(loader_open(&options, &handover.loader, &err), &err);
        assert_int_equal(pthread_create(&thread, NULL, release_main, &handover), 0);
        shortages += hand_all_over(&handover, &delivered);
        pthread_mutex_lock(&handover.mutex);
        handover.has_ended = true;
        pthread_cond_signal(&handover.changed);
        pthread_mutex_unlock(&handover.mutex);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(handover.changed_batches, 0);
        assert_memory_is_free(handover.loader);
        loader_close(handover.loader);
        altered_reads_end();
        assert_true(delivered.hash == expected.hash);
        assert_string_equal(delivered.text, expected.text);
        delivery_free(&delivered);
        delivery_free(&expected);
    }
    print_message("the consumer held all memory %" PRIu64 " times\n", shortages);
    assert_true(shortages > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_reads_do_not_change_batches),
        cmocka_unit_test(every_memory_budget_delivers_the_same_batches),
        cmocka_unit_test(small_samples_are_read_at_once_within_the_budget),
        cmocka_unit_test(samples_larger_than_listed_are_delivered_by_every_budget),
        cmocka_unit_test(held_batches_keep_their_bytes_and_then_free_all_memory),
    };
    return cmocka_run_group_tests(tests, make_fixtures, remove_fixtures);
}
