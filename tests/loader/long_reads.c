/*
 * long_reads — tests which reads the loader requests for the runs of an order, and what errors in
 * them and consumers that hold their bytes cause.
 */
#include "loader/state.h"
#include "tests/loader/altered_reads.h"
#include "tests/loader/fixture.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "base/philox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    MICRO = 4,
    GLOBAL = 32,
    LANES = 16,
    SHARD_SAMPLES = 400,
    PAD_BYTES = 28000,
    JPEG_BYTES_MAX = 4096,
    MIB = 1 << 20,
    RUN_MAX = 1024,
};

static uint64_t samples_count(void)
{
    return 2304;
}

static int make_images(void **state)
{
    struct fixture_options options = fixture_options_default(samples_count());
    options.samples_per_shard = SHARD_SAMPLES;
    options.pad_bytes = PAD_BYTES;
    return fixture_set_up_with_options(state, &options);
}

/* With the default order and ample memory. */
static struct loader_options make_options(const struct fixture *fixture, enum loader_decode decode)
{
    struct loader_options options = fixture_loader_options(fixture, decode);
    options.lanes = LANES;
    options.window = options.run = 0;
    options.batching = (struct batching){.global = GLOBAL, .micro = MICRO, .ranks = 1};
    options.memory_bytes = 100 << 20; /* less than twice the dataset: it is not resident */
    return options;
}

/* Layout of a dataset's samples in its shards. */
struct layout {
    uint64_t shard_samples;
    uint64_t sample_bytes; /* from one sample's begin to the next one's, on average */
};

static struct layout layout_of(const struct fixture *fixture)
{
    char path[TEST_PATH_BYTES_MAX];
    struct shard_field first, last;
    fixture_find_field(fixture, 0, "bin", path, &first);
    fixture_find_field(fixture, SHARD_SAMPLES - 1, "bin", path, &last);
    return (struct layout){SHARD_SAMPLES,
                           (last.data_offset - first.data_offset) / (SHARD_SAMPLES - 1)};
}

/* ---- Reads that the order implies. ---- */

static int compare_samples(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

/* Returns how many reads fetch the samples, which it sorts. */
static uint64_t count_groups(const struct layout *layout, uint64_t *samples, uint64_t count)
{
    uint64_t groups = count > 0;
    qsort(samples, count, sizeof *samples, compare_samples);
    for (uint64_t i = 1; i < count; i++) {
        bool same_shard =
            samples[i] / layout->shard_samples == samples[i - 1] / layout->shard_samples;
        uint64_t gap_bytes = (samples[i] - samples[i - 1] - 1) * layout->sample_bytes;
        groups += !same_shard || gap_bytes > IO_GAP_BYTES_DEFAULT;
    }
    return groups;
}

/* Returns the reads of a rank in a shuffled epoch if one read per shard fetches all that the rank
 * delivers of a run. */
static uint64_t count_implied_reads(const struct order_params *params, const struct layout *layout,
                                    const struct batching *batching)
{
    struct order order;
    uint64_t samples[RUN_MAX], reads = 0;
    order_init(&order, params, 0);
    for (uint64_t lane = 0; lane < params->lanes; lane++) {
        uint64_t run = UINT64_MAX, count = 0, n;
        for (uint64_t at = lane; at < params->samples; at += params->lanes) {
            uint64_t sample = order_sample(&order, NULL, at);
            uint64_t micro = batching_micro_of(batching, params->kind, params->samples, at);
            if (sample / params->run != run) {
                reads += count_groups(layout, samples, count);
                run = sample / params->run;
                count = 0;
            }
            assert_true(count < RUN_MAX);
            if (batching_owned_index(batching, micro, &n))
                samples[count++] = sample;
        }
        reads += count_groups(layout, samples, count);
    }
    return reads;
}

/* ---- Measuring. ---- */

/* Over all ranks. */
struct sums {
    uint64_t reads, read_bytes, wanted_bytes, items;
    uint64_t implied_reads;
    uint64_t tar_bytes; /* of the samples, with their headers */
};

/* Reads all that the options select with reads that arrive later. layouts: of each dataset. */
static struct sums read_as_ranks(struct io *io, struct loader_options options, uint32_t ranks,
                                 const struct layout *layouts)
{
    struct sums sums = {0};
    altered_reads_begin(io, READS_LATER);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct loader *loader;
        struct delivery delivered = {0};
        const struct loader_dataset *datasets;
        struct err err;
        options.batching.rank = rank;
        options.batching.ranks = ranks;
        assert_ok(loader_open(&options, &loader, &err), &err);
        consume(loader, &delivered, UINT64_MAX);
        struct loader_stats stats = loader_stats(loader);
        uint32_t count = loader_datasets(loader, &datasets);
        for (uint32_t i = 0; i < count; i++) {
            const struct order_params *order = &datasets[i].order;
            if (order->kind == ORDER_SHUFFLE)
                sums.implied_reads += count_implied_reads(order, &layouts[i], &options.batching);
            sums.tar_bytes += datasets[i].delivered_count * layouts[i].sample_bytes;
        }
        loader_close(loader);
        sums.reads += stats.reads_count;
        sums.read_bytes += stats.read_bytes;
        sums.wanted_bytes += stats.wanted_bytes;
        sums.items += delivered.items;
        delivery_free(&delivered);
    }
    altered_reads_end();
    return sums;
}

static double amplification(const struct sums *sums)
{
    return (double)sums->read_bytes / (double)sums->wanted_bytes;
}

static double reads_per_mib(const struct sums *sums)
{
    return (double)sums->reads * MIB / (double)sums->read_bytes;
}

static void print_sums(const struct sums *sums, uint32_t ranks)
{
    print_message(
        "%u ranks: %" PRIu64 " reads, %" PRIu64 " implied; %.2f per MiB; amplification %.3f\n",
        ranks, sums->reads, sums->implied_reads, reads_per_mib(sums), amplification(sums));
}

static const uint32_t ranks_tested[] = {1, 2, 3, 8};
enum { RANKS_TESTED = sizeof ranks_tested / sizeof ranks_tested[0] };

/* ---- Number and size of the reads. ---- */

static void a_shuffled_run_takes_one_read(void **state)
{
    const struct fixture *fixture = *state;
    const struct layout layout = layout_of(fixture);
    for (uint32_t i = 0; i < 2 * RANKS_TESTED; i++) {
        struct loader_options options = make_options(fixture, LOADER_BYTES);
        uint32_t ranks = ranks_tested[i / 2];
        options.batching.interleaved = i % 2;
        struct sums sums = read_as_ranks(fixture->io, options, ranks, &layout);
        print_sums(&sums, ranks);
        assert_int_equal(sums.items, samples_count());
        /* a rank reads its first micro-batch sample by sample, and then the rest of its runs */
        assert_in_range(sums.reads, sums.implied_reads, sums.implied_reads + ranks * MICRO);
        /* gaps where a run is divided between two lanes */
        assert_true((double)sums.read_bytes <= 1.04 * (double)sums.tar_bytes);
        assert_true(amplification(&sums) <= 1.11);
        assert_true(reads_per_mib(&sums) <= (ranks < 8 ? 1.7 : 1.9));
    }
}

/* Each rank reads its part of every step, because the gaps between them are large. */
static void sequential_samples_take_long_reads(void **state)
{
    const struct fixture *fixture = *state;
    const struct layout layout = layout_of(fixture);
    for (uint32_t i = 0; i < 2 * RANKS_TESTED; i++) {
        struct loader_options options = make_options(fixture, LOADER_BYTES);
        uint32_t ranks = ranks_tested[i / 2];
        options.order = ORDER_SEQUENTIAL;
        options.batching.interleaved = i % 2;
        struct sums sums = read_as_ranks(fixture->io, options, ranks, &layout);
        print_sums(&sums, ranks);
        assert_int_equal(sums.items, samples_count());
        assert_true((double)sums.read_bytes <= 1.01 * (double)sums.tar_bytes);
        uint64_t shards = samples_count() / SHARD_SAMPLES, steps = samples_count() / GLOBAL;
        if (ranks == 1)
            assert_true(sums.reads <= sums.read_bytes / MIB + shards + 4);
        else if (!options.batching.interleaved)
            assert_true(sums.reads <= ranks * (steps + MICRO) + shards);
        else
            assert_true(sums.reads <= samples_count() / MICRO + shards);
    }
}

static void a_mix_takes_long_reads_of_each_dataset(void **state)
{
    const struct fixture *fixture = *state;
    struct fixture other;
    struct fixture_options other_options = fixture_options_default(samples_count());
    other_options.samples_per_shard = SHARD_SAMPLES;
    other_options.pad_bytes = 24000; /* neither dataset is resident */
    fixture_make_images(&other, &other_options);
    const struct loader_source mix[2] = {{fixture->folder, 1}, {other.folder, 1}};
    const struct layout layouts[2] = {layout_of(fixture), layout_of(&other)};
    for (uint32_t i = 0; i < 2 * RANKS_TESTED; i++) {
        struct loader_options options = make_options(fixture, LOADER_BYTES);
        uint32_t ranks = ranks_tested[i / 2];
        options.dataset = NULL;
        options.mix = mix;
        options.mix_count = 2;
        options.batching.interleaved = i % 2;
        struct sums sums = read_as_ranks(fixture->io, options, ranks, layouts);
        print_sums(&sums, ranks);
        assert_int_equal(sums.items, 2 * samples_count());
        assert_in_range(sums.reads, sums.implied_reads, sums.implied_reads + 2 * ranks * MICRO);
        assert_true((double)sums.read_bytes <= 1.04 * (double)sums.tar_bytes);
    }
    fixture_remove(&other);
}

static void text_takes_long_reads(void **state)
{
    (void)state;
    enum { BLOCK = 512, MEMBER_WINDOWS = 390, MEMBERS = 4 };
    struct fixture fixture;
    fixture_make_text(&fixture, test_is_sanitized() ? 1000000 : 3000000, MEMBER_WINDOWS * BLOCK + 1,
                      MEMBERS);
    const struct layout layout = {MEMBER_WINDOWS * MEMBERS, 2 * BLOCK};
    for (uint32_t i = 0; i < 2 * RANKS_TESTED; i++) {
        struct loader_options options = make_options(&fixture, LOADER_TOKENS);
        uint32_t ranks = ranks_tested[i / 2];
        options.batching.interleaved = true;
        options.verify = i % 2;
        options.text.block = BLOCK;
        struct sums sums = read_as_ranks(fixture.io, options, ranks, &layout);
        print_sums(&sums, ranks);
        assert_true(sums.items > 1000);
        assert_in_range(sums.reads, 1, sums.implied_reads + ranks * MICRO);
        /* alone, a rank keeps all of the text; to verify less than its 128 KiB block takes the
         * whole block */
        if (ranks > 1 && options.verify)
            assert_true(sums.reads * 2 * 131072 >= sums.read_bytes);
        else if (!options.verify)
            assert_true(amplification(&sums) <= (test_is_sanitized() ? 1.2 : 1.1));
    }
    fixture_remove(&fixture);
}

/* Stores the first micro-batch's reads, which must be the first ones, and returns their number. */
static uint64_t find_first_reads(struct seen_read first[MICRO * 3])
{
    const struct seen_read *seen;
    uint64_t count = altered_reads_seen(&seen), i = 0;
    for (; i < count && seen[i].step == 0 && seen[i].micro == 0; i++) {
        assert_true(i < MICRO * 3);
        first[i] = seen[i];
    }
    for (uint64_t k = i; k < count; k++)
        assert_true(seen[k].step > 0 || seen[k].micro > 0);
    return i;
}

/* They arrive without the reads of later ones, and are those of a loader without long reads. */
static void the_first_micro_batch_reads_only_its_samples(void **state)
{
    const struct fixture *fixture = *state;
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        for (enum order_kind kind = ORDER_SHUFFLE; kind <= ORDER_SEQUENTIAL; kind++) {
            struct loader_options options = make_options(fixture, decode);
            struct seen_read first[2][MICRO * 3];
            uint64_t counts[2];
            options.order = kind;
            for (int is_single = 0; is_single <= 1; is_single++) {
                const struct batch *batch;
                struct loader *loader;
                struct err err;
                if (is_single)
                    options.memory_bytes = fixture_memory_for_long_reads(&options, 0);
                altered_reads_begin(fixture->io, READS_LATER);
                altered_reads_hold_all_but_first();
                assert_ok(loader_open(&options, &loader, &err), &err);
                assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
                assert_int_equal(batch->items_count, MICRO);
                loader_release(loader, batch);
                altered_reads_release();
                assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
                loader_close(loader);
                loader_release(loader, batch);
                counts[is_single] = find_first_reads(first[is_single]);
                altered_reads_end();
            }
            assert_int_equal(counts[0], counts[1]);
            for (uint64_t i = 0; i < counts[0]; i++) {
                assert_false(first[0][i].is_long);
                assert_int_equal(first[0][i].shard, first[1][i].shard);
                assert_int_equal(first[0][i].begin, first[1][i].begin);
                assert_int_equal(first[0][i].end, first[1][i].end);
            }
        }
    }
}

static void reads_from_the_page_cache_become_short(void **state)
{
    const struct fixture *fixture = *state;
    const struct layout layout = layout_of(fixture);
    enum { CACHED_BYTES = 8 << 20 };
    for (enum loader_decode decode = LOADER_BYTES; decode <= LOADER_IMAGE; decode++) {
        struct loader_options options = make_options(fixture, decode);
        const struct seen_read *seen;
        struct delivery delivered;
        uint64_t bytes = 0, longs = 0, shorts = 0, i = 0;
        options.epochs_max = 2;
        altered_reads_begin(fixture->io, READS_AT_ONCE);
        consume_all(&options, &delivered, NULL, NULL);
        uint64_t count = altered_reads_seen(&seen);
        for (; i < count && bytes < CACHED_BYTES; i++) {
            bytes += seen[i].end - seen[i].begin;
            longs += seen[i].is_long;
        }
        assert_true(longs > 0);
        assert_true(i < count);
        const struct seen_read last = seen[i - 1];
        while (i < count && seen[i].step == last.step && seen[i].micro == last.micro)
            i++;
        for (; i < count; i++, shorts++) {
            assert_false(seen[i].is_long);
            assert_true(seen[i].end - seen[i].begin <=
                        MICRO * (layout.sample_bytes + JPEG_BYTES_MAX));
        }
        /* most samples of the second epoch have a read of their own */
        assert_true(shorts > samples_count() * 9 / 10);
        altered_reads_end();
        delivery_free(&delivered);
    }
}

static void reads_become_long_again_when_one_does_not_arrive_at_once(void **state)
{
    const struct fixture *fixture = *state;
    struct loader_options options = make_options(fixture, LOADER_BYTES);
    const struct seen_read *seen;
    struct delivery delivered;
    uint64_t longs = 0;
    altered_reads_begin(fixture->io, READS_SOMETIMES_LATER);
    consume_all(&options, &delivered, NULL, NULL);
    uint64_t count = altered_reads_seen(&seen);
    for (uint64_t i = 0; i < count; i++)
        longs += seen[i].is_long && seen[i].step > samples_count() / GLOBAL / 2;
    assert_true(longs > 0);
    altered_reads_end();
    delivery_free(&delivered);
}

static void a_limit_of_positions_also_limits_long_reads(void **state)
{
    const struct fixture *fixture = *state;
    const struct layout layout = layout_of(fixture);
    for (uint32_t ranks = 1; ranks <= 3; ranks++) {
        for (uint32_t i = 0; i < 4; i++) {
            struct loader_options options = make_options(fixture, LOADER_BYTES);
            options.order = i % 2 ? ORDER_SEQUENTIAL : ORDER_SHUFFLE;
            options.position = i < 2 ? 0 : 5 * GLOBAL;
            options.positions_max = 6 * GLOBAL; /* 12 turns of a lane: a third of a run */
            struct sums sums = read_as_ranks(fixture->io, options, ranks, &layout);
            print_sums(&sums, ranks);
            assert_int_equal(sums.items, options.positions_max);
            /* the gaps between them, which are smaller than a read is worth */
            assert_true((double)sums.read_bytes <= 1.5 * (double)sums.tar_bytes);
            assert_true(sums.reads < sums.items / 3);
        }
    }
}

/* ---- Errors. ---- */

/* What a loader delivered before an error. */
struct failed_run {
    uint64_t batches, items;
    int status;
    struct err err;
};

static struct failed_run run_until_error(const struct loader_options *options)
{
    struct failed_run run = {0};
    const struct batch *batch;
    struct loader *loader;
    assert_ok(loader_open(options, &loader, &run.err), &run.err);
    while ((run.status = loader_next(loader, &batch, &run.err)) == LOADER_BATCH) {
        run.batches++;
        run.items += batch->items_count;
        loader_release(loader, batch);
    }
    loader_close(loader);
    return run;
}

/* The number of the micro-batch with the sample, in the order that one rank delivers. */
static uint64_t find_batch(const struct loader_options *options, uint64_t sample)
{
    const struct batch *batch;
    struct loader *loader;
    struct err err;
    uint64_t found = UINT64_MAX;
    assert_ok(loader_open(options, &loader, &err), &err);
    for (uint64_t n = 0; found == UINT64_MAX; n++) {
        assert_int_equal(loader_next(loader, &batch, &err), LOADER_BATCH);
        for (uint32_t i = 0; i < batch->items_count; i++)
            if (batch->items[i].ref.sample == sample)
                found = n;
        loader_release(loader, batch);
    }
    loader_close(loader);
    return found;
}

/* True if a long read has these bytes. */
static bool is_read_ahead(uint64_t shard, uint64_t begin, uint64_t end)
{
    const struct seen_read *seen;
    uint64_t count = altered_reads_seen(&seen);
    for (uint64_t i = 0; i < count; i++)
        if (seen[i].is_long && seen[i].shard == shard && seen[i].begin < begin && seen[i].end > end)
            return true;
    return false;
}

static void a_read_error_affects_only_its_sample(void **state)
{
    const struct fixture *fixture = *state;
    static const uint64_t bad_samples[] = {37, 205, 399, 400, 611, 702};
    uint64_t tested = 0;
    for (size_t i = 0; i < 2 * sizeof bad_samples / sizeof bad_samples[0]; i++) {
        struct loader_options options = make_options(fixture, i % 2 ? LOADER_IMAGE : LOADER_BYTES);
        uint64_t sample = bad_samples[i / 2], shard = sample / SHARD_SAMPLES;
        char path[TEST_PATH_BYTES_MAX];
        struct shard_field field;
        fixture_find_field(fixture, sample, "jpg", path, &field);
        uint64_t begin = field.data_offset + 10, end = begin + 1;
        uint64_t batch = find_batch(&options, sample);
        altered_reads_begin(fixture->io, READS_LATER);
        altered_reads_fail(shard, begin, end);
        struct failed_run run = run_until_error(&options);
        tested += is_read_ahead(shard, begin, end);
        assert_int_equal(run.status, -EIO);
        assert_int_equal(run.batches, batch);
        assert_int_equal(run.items, batch * MICRO);
        assert_string_equal(run.err.path, path);
        assert_true(run.err.offset >= 0 && (uint64_t)run.err.offset <= field.data_offset);
        assert_true((uint64_t)run.err.offset + PAD_BYTES + 4096 > field.data_offset);
        altered_reads_end();
    }
    assert_true(tested >= 4);
}

/* The first in the order ends the run, wherever it is in the long read. */
static void of_two_read_errors_the_first_in_the_order_ends_the_run(void **state)
{
    const struct fixture *fixture = *state;
    for (uint64_t sample = 100; sample < 700; sample += 97) {
        struct loader_options options = make_options(fixture, LOADER_BYTES);
        char path[TEST_PATH_BYTES_MAX];
        struct shard_field first, second;
        fixture_find_field(fixture, sample, "jpg", path, &first);
        fixture_find_field(fixture, sample + 1, "bin", path, &second);
        uint64_t batches[2] = {find_batch(&options, sample), find_batch(&options, sample + 1)};
        altered_reads_begin(fixture->io, READS_LATER);
        altered_reads_fail(sample / SHARD_SAMPLES, first.data_offset, second.data_offset + 1);
        struct failed_run run = run_until_error(&options);
        assert_int_equal(run.status, -EIO);
        assert_int_equal(run.batches, bytes_min(batches[0], batches[1]));
        altered_reads_end();
    }
}

static void a_shrinking_shard_spoils_the_same_samples_as_with_single_reads(void **state)
{
    const struct fixture *fixture = *state;
    for (uint32_t i = 0; i < 4; i++) {
        struct loader_options options = make_options(fixture, i % 2 ? LOADER_IMAGE : LOADER_BYTES);
        char path[TEST_PATH_BYTES_MAX];
        struct shard_field field;
        struct delivery delivered, single;
        struct loader_stats stats;
        options.bad_fraction_max = 1;
        options.bad_policy = i < 2 ? LOADER_BAD_SKIP : LOADER_BAD_SUBSTITUTE;
        fixture_find_field(fixture, SHARD_SAMPLES + 123, "jpg", path, &field);
        for (int is_single = 0; is_single <= 1; is_single++) {
            if (is_single)
                options.memory_bytes = fixture_memory_for_long_reads(&options, 0);
            altered_reads_begin(fixture->io, READS_LATER);
            altered_reads_cut(1, field.data_offset + 100);
            consume_all(&options, is_single ? &single : &delivered, &stats, NULL);
            assert_int_equal(is_read_ahead(1, field.data_offset, field.data_offset), !is_single);
            uint64_t last = bytes_min(samples_count(), 2 * SHARD_SAMPLES);
            assert_int_equal(stats.bad_samples_count, last - SHARD_SAMPLES - 123);
            altered_reads_end();
        }
        /* the pixels of skipped samples are unspecified */
        if (options.decode == LOADER_BYTES || options.bad_policy == LOADER_BAD_SUBSTITUTE)
            assert_true(delivered.hash == single.hash);
        assert_string_equal(delivered.text, single.text);
        delivery_free(&delivered);
        delivery_free(&single);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shuffled_run_takes_one_read),
        cmocka_unit_test(sequential_samples_take_long_reads),
        cmocka_unit_test(a_mix_takes_long_reads_of_each_dataset),
        cmocka_unit_test(text_takes_long_reads),
        cmocka_unit_test(the_first_micro_batch_reads_only_its_samples),
        cmocka_unit_test(reads_from_the_page_cache_become_short),
        cmocka_unit_test(reads_become_long_again_when_one_does_not_arrive_at_once),
        cmocka_unit_test(a_limit_of_positions_also_limits_long_reads),
        cmocka_unit_test(a_read_error_affects_only_its_sample),
        cmocka_unit_test(of_two_read_errors_the_first_in_the_order_ends_the_run),
        cmocka_unit_test(a_shrinking_shard_spoils_the_same_samples_as_with_single_reads),
    };
    return cmocka_run_group_tests(tests, make_images, fixture_tear_down);
}
