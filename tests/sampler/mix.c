/*
 * mix — tests that each dataset gets its share and passes through its epochs, that positions equal
 * those of the Python oracle, and that any position can be looked up directly.
 */
#include "sampler/mix.h"

#include "sampler/sampler.h"
#include "tests/support/allocations.h"
#include "tests/support/test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Sample count and weight of each dataset; an entry with 0 samples ends the list. */
static const struct mix_source mixes[][5] = {
    {{7, 1}},
    {{100, 1}, {100, 1}},
    {{100, 3}, {40, 1}},
    {{1, 5}, {1000, 1}},
    {{97, 2}, {31, 3}, {64, 5}, {11, 1}, {5, 7}},
    {{3, 1000}, {5, 1}},
    {{4000, 3}, {1500, 2}},
};
enum { MIXES = sizeof mixes / sizeof mixes[0] };

static uint32_t count_sources(const struct mix_source *sources)
{
    uint32_t count = 0;
    while (count < 5 && sources[count].samples)
        count++;
    return count;
}

static const uint64_t lane_counts[] = {1, 2, 5, 64, 1000};
enum { LANE_COUNTS = sizeof lane_counts / sizeof lane_counts[0] };

static struct mix *open_mix(const struct mix_source *sources, uint32_t count, uint64_t lanes)
{
    struct mix *mix;
    struct err err;
    assert_ok(mix_open(sources, count, lanes, &mix, &err), &err);
    return mix;
}

/* With one lane, draws from a dataset are in order and without gaps, across the mix's epochs. */
static void each_dataset_is_drawn_in_order_without_gaps(void **state)
{
    (void)state;
    for (size_t m = 0; m < MIXES; m++) {
        struct mix *mix = open_mix(mixes[m], count_sources(mixes[m]), 1);
        uint64_t drawn[5] = {0}, samples = mix_samples(mix);
        for (uint32_t epoch = 0; epoch < 3; epoch++) {
            for (uint64_t p = 0; p < samples; p++) {
                struct mix_location place = mix_at(mix, epoch, p);
                uint64_t own = mixes[m][place.dataset].samples;
                assert_int_equal(place.epoch * own + place.position, drawn[place.dataset]++);
            }
        }
        mix_close(mix);
    }
}

/* With any number of lanes, each lane makes its own draws in order, none is made twice, and the
 * position of each can be recovered. */
static void lanes_draw_without_gaps_or_repetitions(void **state)
{
    (void)state;
    for (size_t m = 0; m < MIXES * LANE_COUNTS; m++) {
        const struct mix_source *sources = mixes[m / LANE_COUNTS];
        uint64_t lanes = lane_counts[m % LANE_COUNTS];
        struct mix *mix = open_mix(sources, count_sources(sources), lanes);
        uint64_t samples = mix_samples(mix), (*drawn)[5] = calloc(lanes, sizeof *drawn);
        assert_non_null(drawn);
        for (uint64_t g = 0; g < 3 * samples; g++) {
            uint32_t epoch = (uint32_t)(g / samples), found_epoch;
            struct mix_location place = mix_at(mix, epoch, g % samples);
            uint64_t own = sources[place.dataset].samples, *own_drawn = drawn[g % lanes];
            assert_int_equal(place.epoch * own + place.position,
                             own_drawn[place.dataset]++ * lanes + g % lanes);
            assert_int_equal(mix_position(mix, place, &found_epoch), g % samples);
            assert_int_equal(found_epoch, epoch);
        }
        free(drawn);
        mix_close(mix);
    }
}

static uint64_t sum_weights(const struct mix_source *sources)
{
    uint64_t period = 0;
    for (uint32_t d = 0; d < count_sources(sources); d++)
        period += sources[d].weight;
    return period;
}

/* In every prefix, each dataset's count deviates from its share by less than the number of
 * datasets. */
static void every_prefix_of_a_mix_follows_the_weights(void **state)
{
    (void)state;
    for (size_t m = 0; m < MIXES; m++) {
        uint32_t count = count_sources(mixes[m]);
        struct mix *mix = open_mix(mixes[m], count, 1);
        uint64_t drawn[5] = {0}, period = sum_weights(mixes[m]);
        for (uint64_t p = 0; p < mix_samples(mix); p++) {
            drawn[mix_at(mix, 0, p).dataset]++;
            for (uint32_t d = 0; d < count; d++) {
                double share = (double)(p + 1) * (double)mixes[m][d].weight / (double)period;
                assert_true((double)drawn[d] > share - count && (double)drawn[d] < share + count);
            }
        }
        mix_close(mix);
    }
}

/* Lanes begin at different places of the table: each turn of all lanes follows the weights, and any
 * P turns do so exactly. */
static void every_turn_of_a_mix_follows_the_weights(void **state)
{
    (void)state;
    static const struct mix_source sources[] = {{5000, 2}, {3000, 3}, {9000, 1}, {2000, 7}};
    enum { LANES = 32, PERIOD = 13, TURNS = 19000 / LANES };
    struct mix *mix = open_mix(sources, 4, LANES);
    static uint64_t drawn[TURNS][4];
    for (uint64_t p = 0; p < TURNS * LANES; p++)
        drawn[p / LANES][mix_at(mix, 0, p).dataset]++;
    for (uint32_t t = 0; t + PERIOD <= TURNS; t++) {
        for (uint32_t d = 0; d < 4; d++) {
            uint64_t sum = 0;
            for (uint32_t k = 0; k < PERIOD; k++)
                sum += drawn[t + k][d];
            assert_int_equal(sum, sources[d].weight * LANES);
            double share = (double)sources[d].weight * LANES / PERIOD;
            assert_true((double)drawn[t][d] > share - 4 && (double)drawn[t][d] < share + 4);
        }
    }
    mix_close(mix);
}

static void ties_go_to_the_lower_index(void **state)
{
    (void)state;
    static const struct mix_source sources[] = {{10, 1}, {10, 3}, {10, 1}};
    static const uint32_t expected[] = {1, 0, 1, 2, 1}; /* events at 5/6; 5/2, 5/2, 5/2; 25/6 */
    struct mix *mix = open_mix(sources, 3, 1);
    for (uint64_t p = 0; p < 30; p++)
        assert_int_equal(mix_at(mix, 0, p).dataset, expected[p % 5]);
    mix_close(mix);
}

static void a_common_divisor_of_weights_changes_no_position(void **state)
{
    (void)state;
    static const struct mix_source plain[] = {{97, 2}, {31, 3}, {64, 5}};
    static const struct mix_source scaled[] = {{97, 2000000}, {31, 3000000}, {64, 5000000}};
    struct mix *a = open_mix(plain, 3, 7), *b = open_mix(scaled, 3, 7);
    assert_int_equal(mix_weight(b, 1), 3);
    for (uint64_t p = 0; p < mix_samples(a); p++) {
        struct mix_location x = mix_at(a, 7, p), y = mix_at(b, 7, p);
        assert_memory_equal(&x, &y, sizeof x);
    }
    mix_close(a);
    mix_close(b);
}

/* 2^47 samples, in the last possible epochs: no product overflows. */
static void positions_of_the_largest_mix_are_invertible(void **state)
{
    (void)state;
    static const struct mix_source sources[] = {{(UINT64_C(1) << 47) - 5, 65535},
                                                {(UINT64_C(1) << 46) + 1, 1}};
    static const uint64_t lanes[] = {1, 1 << 20, (UINT64_C(1) << 48) - 1};
    for (size_t l = 0; l < sizeof lanes / sizeof lanes[0]; l++) {
        struct mix *mix = open_mix(sources, 2, lanes[l]);
        uint64_t position = 1;
        for (uint32_t i = 0; i < 20000; i++) {
            position = (position * 0x9E3779B97F4A7C15u + 1) % mix_samples(mix);
            uint32_t epoch = i % 3 == 0 ? UINT32_MAX / 2 : i, found;
            struct mix_location place = mix_at(mix, epoch, position);
            assert_true(place.position < sources[place.dataset].samples);
            assert_int_equal(mix_position(mix, place, &found), position);
            assert_int_equal(found, epoch);
        }
        mix_close(mix);
    }
}

/* ---- Weights. ---- */

static void weights_are_decimal_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t weight;
    } good[] = {{"1", 1000000},
                {"3.5", 3500000},
                {"0.000001", 1},
                {"007.250", 7250000},
                {"999999999", UINT64_C(999999999000000)}};
    static const char *const bad[] = {"",   "0",  "0.0", "-1",  "1e3",       "1.",         ".5",
                                      "1 ", " 1", "nan", "1,5", "0.0000001", "1000000000", "1.2.3"};
    uint64_t weight;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(mix_weight_parse(good[i].text, &weight), 0);
        assert_int_equal(weight, good[i].weight);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(mix_weight_parse(bad[i], &weight), -EINVAL);
}

static void too_fine_weights_are_refused_with_the_nearest_allowed(void **state)
{
    (void)state;
    struct err err = {0};
    uint64_t fits[] = {65535, 1}, fine[] = {65536, 1}, none[] = {1, 0}, nearest[2];
    uint64_t huge[] = {UINT64_MAX, UINT64_MAX - 1};
    assert_int_equal(mix_weights_reduce(fits, 2, &err), 0);
    assert_int_equal(mix_weights_reduce(fine, 2, &err), -EINVAL);
    assert_string_equal(err.found, "65537");
    assert_int_equal(sscanf(strstr(err.advice, "nearest are ") + 12, "%" SCNu64 ", %" SCNu64,
                            &nearest[0], &nearest[1]),
                     2);
    assert_int_equal(mix_weights_reduce(nearest, 2, &err), 0);
    assert_int_equal(mix_weights_reduce(huge, 2, &err), -EINVAL);
    assert_int_equal(mix_weights_reduce(none, 2, &err), -EINVAL);
    assert_int_equal(mix_weights_reduce(none, 0, &err), -EINVAL);
    assert_int_equal(mix_weights_reduce(none, MIX_DATASETS_MAX + 1, &err), -EINVAL);
}

/* ---- Samples. ---- */

static struct sampler *open_sampler(const struct mix_source *mix, uint32_t count, uint64_t lanes,
                                    struct sampler_source *ret_sources)
{
    for (uint32_t i = 0; i < count; i++) {
        ret_sources[i] = (struct sampler_source){
            .order = {.kind = (enum order_kind)(i % 4 == 3 ? ORDER_FULL : ORDER_SHUFFLE),
                      .samples = mix[i].samples,
                      .seed = 9,
                      .lanes = 4,
                      .window = 5,
                      .run = 3},
            .weight = mix[i].weight};
        order_params_resolve(&ret_sources[i].order, 1000, 64);
    }
    struct sampler *sampler;
    struct err err;
    assert_ok(sampler_open_mix(ret_sources, count, lanes, &sampler, &err), &err);
    return sampler;
}

static void oracle_written_from_the_docs_gives_the_same_mix(void **state)
{
    (void)state;
    const char *python = test_need_python("struct");
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 16], expected[4096] = "",
                                                                      text[4096];
    test_make_folder(folder);
    snprintf(path, sizeof path, "%s/questions", folder);
    FILE *questions = fopen(path, "w");
    assert_non_null(questions);
    size_t used = 0;
    for (size_t m = 0; m < MIXES; m++) {
        uint32_t count = count_sources(mixes[m]), epoch = (uint32_t)m;
        struct sampler_source sources[5];
        uint64_t lanes = lane_counts[(2 * m + 1) % LANE_COUNTS]; /* 64 for the largest mix */
        struct sampler *sampler = open_sampler(mixes[m], count, lanes, sources);
        uint64_t first = m % 2 ? 3 : 0, samples = sampler_samples(sampler) - first;
        fprintf(questions, "mix %" PRIu32 " 9 %" PRIu64 " %" PRIu64 " %" PRIu64, epoch, first,
                samples, lanes);
        for (uint32_t i = 0; i < count; i++) {
            const struct order_params *o = &sources[i].order;
            fprintf(questions, " %" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%s:%" PRIu64,
                    o->samples, o->lanes, o->window, o->run, order_kind_name(o->kind),
                    sources[i].weight);
        }
        fprintf(questions, "\n");
        uint64_t once = 0, placed = 0, plain = 0;
        for (uint64_t p = first; p < first + samples; p++) {
            struct sample_ref ref = sampler_at(sampler, epoch, p);
            once += digest_set_term(ref);
            placed += digest_sequence_term(epoch, p, ref);
            plain += p * (ref.sample + 1);
        }
        used +=
            (size_t)snprintf(expected + used, sizeof expected - used,
                             "%016" PRIx64 " %016" PRIx64 " %016" PRIx64 "\n", once, placed, plain);
        sampler_close(sampler);
    }
    fclose(questions);
    assert_int_equal(test_run_output(text, sizeof text,
                                     "'%s' '" TEST_SOURCE_DIR "/tests/oracle/order.py' <'%s'",
                                     python, path),
                     0);
    assert_string_equal(text, expected);
    test_remove_folder(folder);
}

/* Datasets of equal size have different orders; the first has the order that it would have on its
 * own. */
static void datasets_of_a_mix_are_shuffled_independently(void **state)
{
    (void)state;
    static const struct mix_source twins[] = {{1000, 1}, {1000, 1}};
    struct sampler_source sources[5];
    struct sampler *mix = open_sampler(twins, 2, 1, sources), *alone;
    struct err err;
    assert_ok(sampler_open(&sources[0].order, &alone, &err), &err);
    int same = 0;
    for (uint64_t p = 0; p < 1000; p++) {
        struct sample_ref first = sampler_at(mix, 0, 2 * p), second = sampler_at(mix, 0, 2 * p + 1);
        assert_true(first.dataset == 0 && second.dataset == 1);
        assert_int_equal(first.sample, sampler_at(alone, 0, p).sample);
        same += first.sample == second.sample;
    }
    assert_true(same < 20);
    sampler_close(alone);
    sampler_close(mix);
}

static void resuming_a_mix_anywhere_needs_only_the_position(void **state)
{
    (void)state;
    struct sampler_source sources[5];
    struct sampler *walker = open_sampler(mixes[4], 5, 64, sources);
    uint64_t samples = sampler_samples(walker);
    struct sample_ref *walked = malloc(3 * samples * sizeof *walked);
    assert_non_null(walked);
    for (uint64_t k = 0; k < 3 * samples; k++)
        walked[k] = sampler_at(walker, (uint32_t)(k / samples), k % samples);
    for (uint64_t at = 0; at < 3 * samples; at += 41) {
        struct sampler *fresh = open_sampler(mixes[4], 5, 64, sources);
        for (uint64_t k = at; k < 3 * samples && k < at + 30; k++) {
            struct sample_ref ref = sampler_at(fresh, (uint32_t)(k / samples), k % samples);
            assert_memory_equal(&ref, &walked[k], sizeof ref);
        }
        sampler_close(fresh);
    }
    free(walked);
    sampler_close(walker);
}

/* With more than 10^10 samples, opening allocates some memory and looking up positions allocates
 * none. */
static void positions_of_a_huge_mix_need_no_memory(void **state)
{
    (void)state;
    static const struct mix_source enormous[] = {
        {UINT64_C(10000000000), 60000}, {UINT64_C(1) << 46, 5535}, {1000, 1}};
    struct sampler_source sources[5];
    /* skips the test before anything is open */
    (void)allocations_own_count();
    struct sampler *sampler = open_sampler(enormous, 3, 64, sources);
    size_t before = allocations_own_count() + allocations_others();
    uint64_t samples = sampler_samples(sampler), position = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        position = (position * 0x9E3779B97F4A7C15u + i) % samples;
        struct sample_ref ref = sampler_at(sampler, i % 5, position);
        assert_true(ref.sample < enormous[ref.dataset].samples);
    }
    assert_int_equal(allocations_own_count() + allocations_others() - before, 0);
    sampler_close(sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_dataset_is_drawn_in_order_without_gaps),
        cmocka_unit_test(lanes_draw_without_gaps_or_repetitions),
        cmocka_unit_test(every_prefix_of_a_mix_follows_the_weights),
        cmocka_unit_test(every_turn_of_a_mix_follows_the_weights),
        cmocka_unit_test(ties_go_to_the_lower_index),
        cmocka_unit_test(a_common_divisor_of_weights_changes_no_position),
        cmocka_unit_test(positions_of_the_largest_mix_are_invertible),
        cmocka_unit_test(weights_are_decimal_numbers),
        cmocka_unit_test(too_fine_weights_are_refused_with_the_nearest_allowed),
        cmocka_unit_test(oracle_written_from_the_docs_gives_the_same_mix),
        cmocka_unit_test(datasets_of_a_mix_are_shuffled_independently),
        cmocka_unit_test(resuming_a_mix_anywhere_needs_only_the_position),
        cmocka_unit_test(positions_of_a_huge_mix_need_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
