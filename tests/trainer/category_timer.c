/*
 * category_timer (test) — the categories add up to the elapsed time, however ranges are nested.
 */
#include "trainer/ops/category_timer.h"
#include "base/clock.h"
#include "tests/support/test.h"
#include "trainer/report/range.h"

#include <stdlib.h>
#include <string.h>

static uint64_t sum(const struct category_times *times)
{
    return category_times_training_ns(times) + times->ns[TIME_EVALUATE];
}

static void times_of_categories_add_up_to_the_elapsed_time(void **state)
{
    (void)state;
    struct category_timer timer;
    struct category_times times;
    uint64_t now_ns = 1000, taken_ns = now_ns, expected[TIME_CATEGORIES] = {0};
    enum time_category category = TIME_OTHER;
    unsigned seed = 7;
    category_timer_start(&timer, now_ns);
    for (int i = 0; i < 10000; i++) {
        uint64_t passed_ns = (uint64_t)rand_r(&seed) % 1000;
        now_ns += passed_ns;
        expected[category] += passed_ns;
        category = (enum time_category)(rand_r(&seed) % TIME_CATEGORIES);
        category_timer_switch(&timer, category, now_ns);
        if (i % 97 != 0)
            continue;
        times = category_timer_take(&timer, now_ns);
        assert_int_equal(sum(&times), now_ns - taken_ns);
        assert_memory_equal(times.ns, expected, sizeof expected);
        taken_ns = now_ns;
        memset(expected, 0, sizeof expected);
    }
}

static void wait_a_while(void)
{
    for (uint64_t began_ns = clock_now_ns(); clock_now_ns() == began_ns;)
        continue;
}

/* A range's time counts for its category, excluding the time of nested ranges. */
static void time_is_attributed_to_the_innermost_range(void **state)
{
    (void)state;
    struct ranges ranges = {0};
    uint64_t began_ns = clock_now_ns();
    category_timer_start(&ranges.timer, began_ns);
    range_begin(&ranges, RANGE_STEP);
    range_begin(&ranges, RANGE_UPDATE);
    wait_a_while();
    range_begin(&ranges, RANGE_STAGE);
    wait_a_while();
    range_end(&ranges);
    range_end(&ranges);
    wait_a_while();
    range_end(&ranges);
    assert_int_equal(ranges.timer.category, TIME_OTHER);
    /* this range is not measured, but its time still counts */
    assert_int_equal(ranges.times[RANGE_STEP].count, 0);
    uint64_t ended_ns = clock_now_ns();
    struct category_times times = category_timer_take(&ranges.timer, ended_ns);
    assert_int_equal(sum(&times), ended_ns - began_ns);
    assert_true(times.ns[TIME_UPDATE] > 0 && times.ns[TIME_SAVE] > 0 && times.ns[TIME_OTHER] > 0);
    assert_int_equal(times.ns[TIME_UPDATE] + times.ns[TIME_SAVE] + times.ns[TIME_OTHER],
                     ended_ns - began_ns);
}

/* If the device queues work, its computation is the time that the host waits, and the times of
 * passes are unknown. */
static void passes_of_a_queueing_device_have_no_host_time(void **state)
{
    (void)state;
    struct ranges ranges = {.is_async = true};
    category_timer_start(&ranges.timer, clock_now_ns());
    for (int range = 0; range < RANGE_COUNT; range++) {
        range_begin(&ranges, (enum range)range);
        wait_a_while();
        range_end(&ranges);
    }
    struct category_times times = category_timer_take(&ranges.timer, clock_now_ns());
    assert_int_equal(times.ns[TIME_FORWARD] + times.ns[TIME_BACKWARD] + times.ns[TIME_UPDATE], 0);
    assert_true(times.ns[TIME_QUEUE] > 0 && times.ns[TIME_DEVICE] > 0 && times.ns[TIME_LOAD] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_categories_add_up_to_the_elapsed_time),
        cmocka_unit_test(time_is_attributed_to_the_innermost_range),
        cmocka_unit_test(passes_of_a_queueing_device_have_no_host_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
