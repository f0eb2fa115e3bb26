/*
 * parts — tests the loader's pure parts: the plan of micro-batches, the arena, and the accounting
 * of waits.
 */
#include "loader/parts/extents.h"
#include "loader/parts/plan.h"
#include "loader/parts/read_arena.h"
#include "loader/state.h"
#include "tests/support/test.h"

#include "base/philox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 103, GLOBAL = 24, MICRO = 4 };

static struct plan_options make_options(void)
{
    return (struct plan_options){.batching = {.global = GLOBAL, .micro = MICRO, .ranks = 1},
                                 .samples = SAMPLES};
}

static uint32_t add_items(const struct plan *plan, const struct plan_micro *micro,
                          uint8_t counts[3][SAMPLES])
{
    uint64_t first, stride;
    uint32_t items = plan_item_positions(plan, micro, &first, &stride);
    for (uint32_t i = 0; i < items; i++)
        counts[micro->epoch][first + i * stride]++;
    return items;
}

/* Counts how often each position of the first epochs is delivered by all ranks; returns the
 * total. */
static size_t count_positions(struct plan_options options, uint32_t ranks,
                              uint8_t counts[3][SAMPLES])
{
    size_t total = 0;
    memset(counts, 0, 3 * SAMPLES);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct plan plan;
        struct plan_micro micro;
        struct err err;
        options.batching.rank = rank;
        options.batching.ranks = ranks;
        assert_ok(plan_init(&plan, &options, &err), &err);
        while (plan_next(&plan, &micro)) {
            uint32_t items = add_items(&plan, &micro, counts);
            assert_true(items <= MICRO);
            total += items;
        }
    }
    return total;
}

static void every_position_of_a_kept_tail_is_planned_once(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {1, 2, 3, 4, 6};
    static uint8_t counts[3][SAMPLES];
    struct plan_options options = make_options();
    options.epochs_max = 2;
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        assert_int_equal(count_positions(options, ranks[i], counts), 2 * SAMPLES);
        for (size_t p = 0; p < SAMPLES; p++)
            assert_true(counts[0][p] == 1 && counts[1][p] == 1 && counts[2][p] == 0);
    }
}

static void dropped_tail_is_never_planned(void **state)
{
    (void)state;
    static uint8_t counts[3][SAMPLES];
    struct plan_options options = make_options();
    options.epochs_max = 2;
    options.drop_last = true;
    assert_int_equal(count_positions(options, 3, counts), 2 * 96);
    for (size_t p = 0; p < SAMPLES; p++)
        assert_int_equal(counts[1][p], p < 96);
}

/* All ranks have the same number of full micro-batches; positions beyond the samples are padding.
 * */
static void a_padded_tail_gives_every_rank_full_micro_batches(void **state)
{
    (void)state;
    enum { STEPS = (SAMPLES + GLOBAL - 1) / GLOBAL };
    for (int sequential = 0; sequential < 2; sequential++) {
        uint8_t counts[STEPS * GLOBAL] = {0};
        struct plan_options options = make_options();
        options.order = sequential ? ORDER_SEQUENTIAL : ORDER_SHUFFLE;
        options.pad_last = true;
        options.epochs_max = 1;
        options.batching.ranks = 3;
        for (options.batching.rank = 0; options.batching.rank < 3; options.batching.rank++) {
            struct plan plan;
            struct plan_micro micro;
            struct err err;
            uint64_t first, stride, micros = 0;
            assert_ok(plan_init(&plan, &options, &err), &err);
            assert_int_equal(plan_steps(&plan), STEPS);
            for (; plan_next(&plan, &micro); micros++) {
                assert_int_equal(plan_item_positions(&plan, &micro, &first, &stride), MICRO);
                for (uint32_t i = 0; i < MICRO; i++)
                    counts[first + i * stride]++;
            }
            assert_int_equal(micros, STEPS * GLOBAL / MICRO / 3);
            assert_int_equal(micro.next_epoch, 1);
        }
        for (size_t p = 0; p < sizeof counts; p++)
            assert_int_equal(counts[p], 1);
    }
}

static void a_plan_starts_at_its_position_and_stops_at_its_limit(void **state)
{
    (void)state;
    static uint8_t counts[3][SAMPLES];
    struct plan_options options = make_options();
    for (uint64_t start = 0; start < SAMPLES; start += 7) {
        for (uint64_t limit = 1; limit < 150; limit += 11) {
            options.position = start;
            options.positions_max = limit;
            assert_int_equal(count_positions(options, 4, counts), limit);
            for (uint64_t p = 0; p < SAMPLES; p++) {
                assert_int_equal(counts[0][p], p >= start && p < start + limit);
                assert_int_equal(counts[1][p], SAMPLES + p >= start && SAMPLES + p < start + limit);
            }
        }
    }
}

/* Plans `batches` micro-batches on each rank, counts their positions, and returns the state to
 * resume from, the same on all ranks. */
static struct plan_options plan_some(struct plan_options options, uint32_t ranks, uint32_t batches,
                                     uint8_t counts[3][SAMPLES])
{
    struct plan_options after = options;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct plan plan;
        struct plan_micro micro = {0};
        struct err err;
        options.batching.rank = rank;
        options.batching.ranks = ranks;
        options.batching.interleaved = true;
        assert_ok(plan_init(&plan, &options, &err), &err);
        for (uint32_t n = 0; n < batches && plan_next(&plan, &micro); n++)
            add_items(&plan, &micro, counts);
        assert_true(micro.is_resumable);
        if (rank > 0) {
            assert_int_equal(after.epoch, micro.next_epoch);
            assert_int_equal(after.position, micro.next_position);
            assert_int_equal(after.micros_done, micro.next_micros_done);
        }
        after.epoch = micro.next_epoch;
        after.position = micro.next_position;
        after.micros_done = micro.next_micros_done;
    }
    return after;
}

/* Several times in a row, with other numbers of ranks, in shuffled and sequential orders. */
static void a_plan_resumes_in_the_middle_of_a_step_on_any_number_of_ranks(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {1, 2, 3, 6};
    static uint8_t counts[3][SAMPLES];
    for (uint32_t round = 0; round < 2 * 4 * 4 * 9; round++) {
        uint32_t first_ranks = ranks[round / 2 % 4], second_ranks = ranks[round / 8 % 4];
        struct plan_options options = make_options();
        options.order = round % 2 ? ORDER_SEQUENTIAL : ORDER_SHUFFLE;
        options.epochs_max = 2;
        memset(counts, 0, sizeof counts);
        struct plan_options state_1 = plan_some(options, first_ranks, 1 + round / 32, counts);
        /* one round: the remaining micro-batches need not divide among these ranks */
        uint64_t left = GLOBAL / MICRO - state_1.micros_done;
        struct plan_options state_2 = state_1;
        if (left % second_ranks == 0)
            state_2 = plan_some(state_1, second_ranks, 1, counts);
        state_2.epochs_max = 2 - state_2.epoch;
        if (state_2.epochs_max > 0)
            plan_some(state_2, 1, UINT32_MAX, counts);
        for (size_t p = 0; p < SAMPLES; p++)
            assert_true(counts[0][p] == 1 && counts[1][p] == 1 && counts[2][p] == 0);
    }
}

/* A run that positions_max ends within a step resumes from its last state, whichever micro-batch it
 * began with. */
static void a_plan_that_its_limit_ends_resumes_without_gaps(void **state)
{
    (void)state;
    static uint8_t counts[3][SAMPLES], before[3][SAMPLES];
    for (uint32_t round = 0; round < 2 * (GLOBAL / MICRO) * 2 * GLOBAL; round++) {
        struct plan_options options = make_options();
        options.order = round % 2 ? ORDER_SEQUENTIAL : ORDER_SHUFFLE;
        options.epochs_max = 1;
        options.micros_done = round / 2 % (GLOBAL / MICRO);
        struct plan_options after = options;
        count_positions(options, 1, before); /* all but the micro-batches that are done */
        for (size_t p = 0; p < SAMPLES; p++)
            counts[0][p] = !before[0][p];
        memcpy(before, counts, sizeof counts);
        options.positions_max = 1 + round / (2 * (GLOBAL / MICRO));
        struct plan plan;
        struct plan_micro micro;
        struct err err;
        assert_ok(plan_init(&plan, &options, &err), &err);
        while (plan_next(&plan, &micro)) {
            add_items(&plan, &micro, counts);
            if (!micro.is_resumable)
                continue;
            memcpy(before, counts, sizeof counts);
            after.position = micro.next_position;
            after.micros_done = micro.next_micros_done;
            assert_int_equal(micro.next_epoch, 0);
        }
        assert_ok(plan_init(&plan, &after, &err), &err);
        while (plan_next(&plan, &micro))
            add_items(&plan, &micro, before);
        for (size_t p = 0; p < SAMPLES; p++)
            assert_int_equal(before[0][p], 1);
    }
}

/* The tail may count as dropped after a state in the middle of it was saved. */
static void micro_batches_done_of_one_epoch_are_not_left_out_of_the_next(void **state)
{
    (void)state;
    struct plan_options options = make_options();
    options.position = SAMPLES / GLOBAL * GLOBAL;
    options.micros_done = 2;
    options.drop_last = true;
    struct plan plan;
    struct plan_micro micro;
    struct err err;
    assert_ok(plan_init(&plan, &options, &err), &err);
    assert_true(plan_next(&plan, &micro));
    assert_int_equal(micro.epoch, 1);
    assert_int_equal(micro.micro, 0);
}

/* Ranks without one of the remaining micro-batches get an empty one, so that all have each step. */
static void ranks_without_a_remaining_micro_batch_get_an_empty_one(void **state)
{
    (void)state;
    struct plan_options options = make_options();
    options.micros_done = 4; /* of 6 */
    uint32_t items_sum = 0;
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct plan plan;
        struct plan_micro micro;
        struct err err;
        uint64_t first, stride;
        options.batching.rank = rank;
        options.batching.ranks = 3;
        assert_ok(plan_init(&plan, &options, &err), &err);
        assert_true(plan_next(&plan, &micro));
        items_sum += plan_item_positions(&plan, &micro, &first, &stride);
        assert_true(micro.last_of_step);
        assert_int_equal(micro.next_position, GLOBAL);
        assert_true(plan_next(&plan, &micro));
        assert_int_equal(micro.step, 1);
    }
    assert_int_equal(items_sum, 2 * MICRO);
}

static void all_ranks_plan_the_same_number_of_steps(void **state)
{
    (void)state;
    struct plan_options options = make_options();
    options.epochs_max = 1;
    for (uint32_t rank = 0; rank < 6; rank++) {
        struct plan plan;
        struct plan_micro micro;
        struct err err;
        uint64_t steps = 0;
        options.batching.ranks = 6;
        options.batching.rank = rank;
        assert_ok(plan_init(&plan, &options, &err), &err);
        assert_int_equal(plan_steps(&plan), 5);
        while (plan_next(&plan, &micro))
            steps += micro.last_of_step;
        assert_int_equal(steps, 5);
        assert_int_equal(micro.next_epoch, 1);
        assert_int_equal(micro.next_position, 0);
    }
}

static void impossible_plans_are_refused(void **state)
{
    (void)state;
    struct plan plan;
    struct err err;
    struct plan_options options = make_options();
    options.position = SAMPLES + 1;
    assert_int_equal(plan_init(&plan, &options, &err), -EINVAL);
    options = make_options();
    options.micros_done = GLOBAL / MICRO;
    assert_int_equal(plan_init(&plan, &options, &err), -EINVAL);
    options = make_options();
    options.samples = GLOBAL - 1;
    options.drop_last = true;
    assert_int_equal(plan_init(&plan, &options, &err), -EINVAL);
    options.drop_last = false;
    assert_int_equal(plan_init(&plan, &options, &err), 0);
}

/* Random allocations and frees: ranges never overlap, keep their bytes, and have the requested
 * alignment offset. */
static void arena_ranges_never_overlap(void **state)
{
    (void)state;
    enum { CAPACITY = 77 * READ_ARENA_PAGE_BYTES, HELD_MAX = 40 };
    struct held {
        uint8_t *data;
        uint64_t bytes;
        uint8_t mark;
    } held[HELD_MAX];
    uint8_t *memory = aligned_alloc(READ_ARENA_PAGE_BYTES, CAPACITY);
    assert_non_null(memory);
    struct read_arena arena;
    assert_int_equal(read_arena_init(&arena, memory, CAPACITY), 0);
    uint32_t random = 1, count = 0;
    size_t taken = 0;
    for (int i = 0; i < (test_is_sanitized() ? 4000 : 20000); i++) {
        random = random * 1664525u + 1013904223u;
        uint64_t bytes = 1 + (random >> 8) % 90000, offset = random % 100000007u;
        uint8_t *data = count < HELD_MAX ? read_arena_alloc(&arena, bytes, offset) : NULL;
        if (data) {
            assert_true(data >= memory && data + bytes <= memory + CAPACITY);
            assert_int_equal((uintptr_t)data % READ_ARENA_PAGE_BYTES,
                             offset % READ_ARENA_PAGE_BYTES);
            held[count++] = (struct held){data, bytes, (uint8_t)i};
            memset(data, (uint8_t)i, bytes);
            taken++;
            continue;
        }
        assert_true(count > 0); /* an empty arena has room */
        uint32_t victim = (random >> 4) % count;
        for (uint64_t k = 0; k < held[victim].bytes; k++)
            assert_int_equal(held[victim].data[k], held[victim].mark);
        read_arena_free(&arena, held[victim].data, held[victim].bytes);
        memmove(&held[victim], &held[victim + 1], (count - victim - 1) * sizeof held[0]);
        count--;
    }
    assert_true(taken > 1000);
    read_arena_deinit(&arena);
    free(memory);
}

/* Compares with a page-by-page search, for runs of every length. */
static void arena_allocates_the_lowest_free_range(void **state)
{
    (void)state;
    enum { PAGES = 200 };
    uint8_t *memory = aligned_alloc(READ_ARENA_PAGE_BYTES, (size_t)PAGES * READ_ARENA_PAGE_BYTES),
            *runs[PAGES];
    uint64_t lengths[PAGES];
    bool is_taken[PAGES] = {false};
    assert_non_null(memory);
    struct read_arena arena;
    uint32_t random = 7, count = 0;
    assert_int_equal(read_arena_init(&arena, memory, (uint64_t)PAGES * READ_ARENA_PAGE_BYTES), 0);
    for (int i = 0; i < 5000; i++) {
        random = random * 1664525u + 1013904223u;
        uint64_t length = 1 + (random >> 8) % (i % 50 == 0 ? 140 : 9), first = 0, run = 0;
        for (uint64_t page = 0; page < PAGES && run < length; page++) {
            run = is_taken[page] ? 0 : run + 1;
            first = page + 1 - run;
        }
        uint8_t *data = read_arena_alloc(&arena, length * READ_ARENA_PAGE_BYTES, 0);
        assert_ptr_equal(data, run == length ? memory + first * READ_ARENA_PAGE_BYTES : NULL);
        for (uint64_t page = first; data && page < first + length; page++)
            is_taken[page] = true;
        if (data) {
            runs[count] = data;
            lengths[count++] = length;
        }
        while (count > 0 && (!data || count > 30 + random % 8)) {
            uint32_t victim = (random >> 4) % count--;
            data = runs[victim];
            for (uint64_t page = 0; page < lengths[victim]; page++)
                is_taken[(size_t)(data - memory) / READ_ARENA_PAGE_BYTES + page] = false;
            read_arena_free(&arena, data, lengths[victim] * READ_ARENA_PAGE_BYTES);
            runs[victim] = runs[count];
            lengths[victim] = lengths[count];
        }
    }
    read_arena_deinit(&arena);
    free(memory);
}

static void arena_allocates_exactly_its_capacity(void **state)
{
    (void)state;
    uint8_t *memory = aligned_alloc(READ_ARENA_PAGE_BYTES, 8192);
    assert_non_null(memory);
    struct read_arena arena;
    assert_int_equal(read_arena_init(&arena, memory, 8192), 0);
    assert_null(read_arena_alloc(&arena, 8193, 0));
    assert_ptr_equal(read_arena_alloc(&arena, 8192, 4096), memory);
    assert_null(read_arena_alloc(&arena, 1, 0));
    read_arena_free(&arena, memory, 8192);
    assert_null(read_arena_alloc(&arena, 8192, 1)); /* the range would begin at 1 */
    assert_ptr_equal(read_arena_alloc(&arena, 8191, 1), memory + 1);
    read_arena_deinit(&arena);
    free(memory);
}

/* Each wait lasts from 100 to 150 ns. */
static void a_wait_is_split_into_reading_and_decoding(void **state)
{
    (void)state;
    static const struct {
        uint64_t read_done_ns, read_ns;
    } cases[] = {{0, 50}, {99, 0}, {100, 0}, {130, 30}, {150, 50}, {151, 50}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct loader loader = {.slots_count = 0};
        struct load_slot slot = {.read_done_ns = cases[i].read_done_ns};
        stats_add_wait(&loader, &slot, 100, 150);
        assert_int_equal(loader.stats.wait_ns, 50);
        assert_int_equal(loader.stats.stage_ns[LOADER_STAGE_READ], cases[i].read_ns);
        assert_int_equal(loader.stats.stage_ns[LOADER_STAGE_DECODE], 50 - cases[i].read_ns);
    }
}

static void the_stage_with_the_most_time_is_the_limit(void **state)
{
    (void)state;
    static const char *const names[] = {"read", "decode", "consumer"};
    for (int stage = 0; stage < LOADER_STAGE_COUNT; stage++) {
        struct loader loader = {.mutex = PTHREAD_MUTEX_INITIALIZER};
        for (int i = 0; i < LOADER_STAGE_COUNT; i++)
            loader.stats.stage_ns[i] = i == stage ? 11 : 10;
        assert_int_equal(loader_stats(&loader).limit, stage);
        assert_string_equal(loader_stage_name((enum loader_stage)stage), names[stage]);
    }
}

/* ---- Extents. ---- */

enum { EXTENTS_MAX = 64 };

static uint64_t extent_random(uint64_t seed, uint64_t *counter, uint64_t limit)
{
    return philox(seed, 1, (*counter)++).word[0] % limit;
}

/* Ranges of three shards, also equal, overlapping and nested ones. */
static uint32_t make_extents(uint64_t seed, struct extent list[EXTENTS_MAX])
{
    uint64_t counter = 0;
    uint32_t count = 1 + (uint32_t)extent_random(seed, &counter, EXTENTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        list[i] = (struct extent){.shard = extent_random(seed, &counter, 3),
                                  .begin = extent_random(seed, &counter, 1000),
                                  .sample = extent_random(seed, &counter, 20),
                                  .user = &list[i]};
        list[i].end = list[i].begin + 1 + extent_random(seed, &counter, 60);
    }
    return count;
}

static int compare_extents(const void *first, const void *second)
{
    const struct extent *a = first, *b = second;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static void extents_are_sorted_and_none_is_lost(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct extent list[EXTENTS_MAX], expected[EXTENTS_MAX];
        bool is_found[EXTENTS_MAX] = {false};
        uint32_t count = make_extents(seed, list);
        memcpy(expected, list, sizeof list);
        qsort(expected, count, sizeof expected[0], compare_extents);
        extents_sort(list, count);
        for (uint32_t i = 0; i < count; i++) {
            ptrdiff_t original = (struct extent *)list[i].user - list;
            assert_int_equal(compare_extents(&list[i], &expected[i]), 0);
            assert_in_range(original, 0, count - 1);
            assert_false(is_found[original]);
            is_found[original] = true;
        }
    }
}

/* Each read is within its limits and has all of its extents, and the next extent does not fit. */
static void merged_extents_are_reads_as_long_as_their_limits_allow(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct extent list[EXTENTS_MAX];
        uint32_t count = make_extents(seed, list);
        const struct extent_limits limits = {.gap_bytes = seed % 50, .bytes_max = 1 + seed % 300};
        extents_sort(list, count);
        for (uint32_t i = 0, merged; i < count; i += merged) {
            uint64_t end, reached = list[i].end;
            merged = extents_merge(list + i, count - i, &limits, &end);
            assert_in_range(merged, 1, count - i);
            for (uint32_t k = i; k < i + merged; k++) {
                assert_int_equal(list[k].shard, list[i].shard);
                assert_true(list[k].begin >= list[i].begin && list[k].end <= end);
                assert_true(list[k].begin <= reached + limits.gap_bytes);
                reached = list[k].end > reached ? list[k].end : reached;
            }
            assert_int_equal(end, reached);
            assert_true(end - list[i].begin <= limits.bytes_max || end == list[i].end);
            if (i + merged == count)
                break;
            const struct extent *next = &list[i + merged];
            assert_true(next->shard != list[i].shard || next->begin > end + limits.gap_bytes ||
                        (next->end > end && next->end - list[i].begin > limits.bytes_max));
        }
    }
}

static void a_gap_of_the_limit_is_merged_and_a_larger_one_is_not(void **state)
{
    (void)state;
    const struct extent list[] = {{.begin = 0, .end = 10, .sample = 0},
                                  {.begin = 15, .end = 20, .sample = 1},
                                  {.begin = 26, .end = 30, .sample = 2}};
    uint64_t end;
    const struct extent_limits limits = {.gap_bytes = 5, .bytes_max = 1000};
    assert_int_equal(extents_merge(list, 3, &limits, &end), 2);
    assert_int_equal(end, 20);
}

/* So that a sample is not divided between reads. */
static void a_field_joins_a_larger_one_of_its_sample_beyond_the_size_limit(void **state)
{
    (void)state;
    struct extent list[] = {{.begin = 0, .end = 100, .sample = 7},
                            {.begin = 105, .end = 110, .sample = 7},
                            {.begin = 112, .end = 116, .sample = 8}};
    const struct extent_limits limits = {
        .gap_bytes = 8, .bytes_max = 100, .same_sample_gap_bytes = 20};
    uint64_t end;
    assert_int_equal(extents_merge(list, 3, &limits, &end), 2);
    assert_int_equal(end, 110);
    list[1].end = 121; /* beyond the gap limit of the same sample */
    assert_int_equal(extents_merge(list, 3, &limits, &end), 1);
    assert_int_equal(end, 100);
    list[1].end = 110;
    list[1].sample = 8; /* another sample */
    assert_int_equal(extents_merge(list, 3, &limits, &end), 1);
    assert_int_equal(end, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_of_a_kept_tail_is_planned_once),
        cmocka_unit_test(dropped_tail_is_never_planned),
        cmocka_unit_test(a_padded_tail_gives_every_rank_full_micro_batches),
        cmocka_unit_test(a_plan_starts_at_its_position_and_stops_at_its_limit),
        cmocka_unit_test(a_plan_resumes_in_the_middle_of_a_step_on_any_number_of_ranks),
        cmocka_unit_test(a_plan_that_its_limit_ends_resumes_without_gaps),
        cmocka_unit_test(micro_batches_done_of_one_epoch_are_not_left_out_of_the_next),
        cmocka_unit_test(ranks_without_a_remaining_micro_batch_get_an_empty_one),
        cmocka_unit_test(all_ranks_plan_the_same_number_of_steps),
        cmocka_unit_test(impossible_plans_are_refused),
        cmocka_unit_test(arena_ranges_never_overlap),
        cmocka_unit_test(arena_allocates_the_lowest_free_range),
        cmocka_unit_test(arena_allocates_exactly_its_capacity),
        cmocka_unit_test(extents_are_sorted_and_none_is_lost),
        cmocka_unit_test(merged_extents_are_reads_as_long_as_their_limits_allow),
        cmocka_unit_test(a_gap_of_the_limit_is_merged_and_a_larger_one_is_not),
        cmocka_unit_test(a_field_joins_a_larger_one_of_its_sample_beyond_the_size_limit),
        cmocka_unit_test(a_wait_is_split_into_reading_and_decoding),
        cmocka_unit_test(the_stage_with_the_most_time_is_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
