/*
 * batching — tests that global batches are the same for any number of ranks, and that epochs are
 * complete.
 */
#include "sampler/sampler.h"

#include "tests/support/test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 1003 };

static struct sampler *open_sampler(void)
{
    struct order_params params = {
        .samples = SAMPLES, .seed = 11, .lanes = 8, .window = 16, .run = 3};
    order_params_resolve(&params, 1, 96);
    struct sampler *sampler;
    struct err err;
    assert_ok(sampler_open(&params, &sampler, &err), &err);
    return sampler;
}

/* Collects the samples of step t from all ranks, by micro-batch, and returns their number. Checks
 * that no micro-batch has two owners. */
static size_t collect_step(struct sampler *sampler, enum order_kind kind, struct batching batching,
                           uint64_t step, uint64_t *ret_samples)
{
    uint64_t micros = batching_micros(&batching);
    uint8_t owned[64] = {0};
    memset(ret_samples, 0xff, batching.global * sizeof *ret_samples);
    size_t count = 0;
    for (batching.rank = 0; batching.rank < batching.ranks; batching.rank++) {
        struct err err;
        assert_ok(batching_check(&batching, &err), &err);
        uint64_t mine = batching_owned_count(&batching);
        assert_true(mine >= micros / batching.ranks && mine <= micros / batching.ranks + 1);
        for (uint64_t micro = 0, n = 0; micro < micros; micro++) {
            bool is_mine = n < mine && batching_owned_micro(&batching, n) == micro;
            uint64_t index;
            assert_int_equal(batching_owned_index(&batching, micro, &index), is_mine);
            if (is_mine)
                assert_int_equal(index, n++);
        }
        for (uint64_t n = 0; n < mine; n++) {
            uint64_t micro = batching_owned_micro(&batching, n);
            assert_true(micro < micros);
            assert_false(owned[micro]);
            owned[micro] = 1;
            struct batching_positions positions =
                batching_positions(&batching, kind, SAMPLES, step, micro);
            assert_true(positions.count <= batching.micro);
            for (uint64_t item = 0; item < positions.count; item++) {
                uint64_t position = positions.first + item * positions.stride;
                assert_true(position < SAMPLES);
                assert_int_equal(batching_micro_of(&batching, kind, SAMPLES, position), micro);
                ret_samples[micro * batching.micro + item] =
                    sampler_at(sampler, 4, position).sample;
                count++;
            }
        }
    }
    return count;
}

static void any_number_of_ranks_gets_the_same_batches_and_the_whole_epoch(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {1, 2, 3, 4, 8};
    struct sampler *sampler = open_sampler();
    uint64_t alone[96], together[96];
    for (int n = 0; n < 4; n++) {
        bool interleaved = n % 2;
        enum order_kind kind = n < 2 ? ORDER_SHUFFLE : ORDER_SEQUENTIAL; /* of the positions */
        for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
            struct batching batching = {.global = 96, .micro = 8, .ranks = 1};
            uint8_t seen[SAMPLES] = {0};
            size_t total = 0;
            for (uint64_t step = 0; step * 96 < SAMPLES; step++) {
                batching.ranks = 1;
                batching.interleaved = false;
                collect_step(sampler, kind, batching, step, alone);
                batching.ranks = ranks[i];
                batching.interleaved = interleaved;
                total += collect_step(sampler, kind, batching, step, together);
                assert_memory_equal(alone, together, sizeof alone);
                for (size_t k = 0; k < 96; k++)
                    if (together[k] != UINT64_MAX)
                        assert_false(seen[together[k]]++);
            }
            assert_int_equal(total, SAMPLES);
        }
    }
    sampler_close(sampler);
}

static void assert_positions(struct batching_positions positions, uint64_t first, uint64_t stride,
                             uint64_t count)
{
    assert_int_equal(positions.first, first);
    assert_int_equal(positions.stride, stride);
    assert_int_equal(positions.count, count);
}

/* Shuffled micro-batches take every M-th position, sequential ones are contiguous; a tail is
 * divided. */
static void micro_batches_have_the_documented_positions(void **state)
{
    (void)state;
    struct batching batching = {.global = 96, .micro = 32, .ranks = 1};
    assert_positions(batching_positions(&batching, ORDER_SHUFFLE, 1003, 2, 1), 193, 3, 32);
    assert_positions(batching_positions(&batching, ORDER_FULL, 1003, 2, 1), 193, 3, 32);
    assert_positions(batching_positions(&batching, ORDER_SEQUENTIAL, 1003, 2, 1), 224, 1, 32);
    /* 43 positions, from 960 on */
    assert_positions(batching_positions(&batching, ORDER_SHUFFLE, 1003, 10, 0), 960, 3, 15);
    assert_positions(batching_positions(&batching, ORDER_SHUFFLE, 1003, 10, 2), 962, 3, 14);
    assert_positions(batching_positions(&batching, ORDER_SEQUENTIAL, 1003, 10, 0), 960, 1, 14);
    assert_positions(batching_positions(&batching, ORDER_SEQUENTIAL, 1003, 10, 2), 988, 1, 15);
    /* one position, for the last or the first micro-batch */
    assert_positions(batching_positions(&batching, ORDER_SEQUENTIAL, 961, 10, 1), 960, 1, 0);
    assert_positions(batching_positions(&batching, ORDER_SEQUENTIAL, 961, 10, 2), 960, 1, 1);
    assert_positions(batching_positions(&batching, ORDER_SHUFFLE, 961, 10, 1), 961, 3, 0);
}

static void uneven_ranks_own_counts_that_differ_by_at_most_one(void **state)
{
    (void)state;
    struct batching batching = {.global = 32, .micro = 4, .ranks = 3};
    assert_int_equal(batching_owned_count(&batching), 2); /* [0, 2) */
    batching.rank = 1;
    assert_int_equal(batching_owned_micro(&batching, 0), 2); /* [2, 5) */
    assert_int_equal(batching_owned_count(&batching), 3);
    batching.rank = 2;
    batching.interleaved = true;
    assert_int_equal(batching_owned_micro(&batching, 1), 5); /* 2, 5 */
    assert_int_equal(batching_owned_count(&batching), 2);
}

/* A newly opened sampler gives the same results as one that was moved across epochs and back. */
static void resuming_anywhere_needs_only_the_position(void **state)
{
    (void)state;
    struct sampler *walker = open_sampler();
    uint64_t *walked = malloc(3 * SAMPLES * sizeof *walked);
    assert_non_null(walked);
    for (uint32_t epoch = 0; epoch < 3; epoch++)
        for (uint64_t p = 0; p < SAMPLES; p++)
            walked[epoch * SAMPLES + p] = sampler_at(walker, epoch, p).sample;
    for (uint64_t at = 0; at < 3 * SAMPLES; at += 97) {
        struct sampler *fresh = open_sampler();
        for (uint64_t k = at; k < 3 * SAMPLES && k < at + 50; k++) {
            struct sample_ref ref = sampler_at(fresh, (uint32_t)(k / SAMPLES), k % SAMPLES);
            assert_int_equal(ref.sample, walked[k]);
            assert_int_equal(ref.epoch, k / SAMPLES);
            assert_int_equal(ref.dataset, 0);
        }
        sampler_close(fresh);
    }
    assert_int_equal(sampler_at(walker, 0, 5).sample, walked[5]);
    free(walked);
    sampler_close(walker);
}

static void assert_refused(struct batching batching, const char *found)
{
    struct err err;
    assert_int_equal(batching_check(&batching, &err), -EINVAL);
    assert_string_equal(err.found, found);
    assert_true(err.advice[0] != '\0');
}

static void wrong_batches_are_refused_with_the_values_found(void **state)
{
    (void)state;
    assert_refused((struct batching){.global = 100, .micro = 32, .ranks = 1},
                   "global 100, micro 32");
    assert_refused((struct batching){.global = 16, .micro = 32, .ranks = 1}, "global 16, micro 32");
    assert_refused((struct batching){.global = 16, .micro = 0, .ranks = 1}, "global 16, micro 0");
    assert_refused((struct batching){.global = 64, .micro = 32, .ranks = 3}, "3");
    assert_refused((struct batching){.global = 64, .micro = 32, .ranks = 0}, "0");
    assert_refused((struct batching){.global = 64, .micro = 32, .ranks = 2, .rank = 2}, "2");
}

static void impossible_orders_are_refused(void **state)
{
    (void)state;
    struct sampler *sampler;
    struct err err;
    struct order_params params = {.lanes = 1, .window = 1, .run = 1};
    assert_int_equal(sampler_open(&params, &sampler, &err), -EINVAL);
    params.samples = UINT64_C(1) << 48;
    assert_int_equal(sampler_open(&params, &sampler, &err), -EINVAL);
    params.samples = 10;
    params.lanes = 11;
    assert_int_equal(sampler_open(&params, &sampler, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_gets_the_same_batches_and_the_whole_epoch),
        cmocka_unit_test(micro_batches_have_the_documented_positions),
        cmocka_unit_test(uneven_ranks_own_counts_that_differ_by_at_most_one),
        cmocka_unit_test(resuming_anywhere_needs_only_the_position),
        cmocka_unit_test(wrong_batches_are_refused_with_the_values_found),
        cmocka_unit_test(impossible_orders_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
