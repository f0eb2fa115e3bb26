/*
 * time_parts (test) — the parts add up to the elapsed time, however the ranges are nested.
 */
#include "trainer/ops/time_parts.h"
#include "base/clock.h"
#include "tests/support/test.h"
#include "trainer/report/range.h"

#include <stdlib.h>
#include <string.h>

static uint64_t sum(const struct time_spent *spent)
{
    return time_spent_in_training(spent) + spent->ns[TIME_EVALUATE];
}

static void times_of_parts_add_up_to_the_elapsed_time(void **state)
{
    (void)state;
    struct time_parts parts;
    struct time_spent spent;
    uint64_t now_ns = 1000, taken_ns = now_ns, expected[TIME_PARTS] = {0};
    enum time_part part = TIME_OTHER;
    unsigned seed = 7;
    time_parts_start(&parts, now_ns);
    for (int i = 0; i < 10000; i++) {
        uint64_t passed_ns = (uint64_t)rand_r(&seed) % 1000;
        now_ns += passed_ns;
        expected[part] += passed_ns;
        part = (enum time_part)(rand_r(&seed) % TIME_PARTS);
        time_parts_switch(&parts, part, now_ns);
        if (i % 97 != 0)
            continue;
        spent = time_parts_take(&parts, now_ns);
        assert_int_equal(sum(&spent), now_ns - taken_ns);
        assert_memory_equal(spent.ns, expected, sizeof expected);
        taken_ns = now_ns;
        memset(expected, 0, sizeof expected);
    }
}

static void wait_a_while(void)
{
    for (uint64_t began_ns = clock_now_ns(); clock_now_ns() == began_ns;)
        continue;
}

/* A range's time counts for its part, excluding the time of nested ranges. */
static void time_is_attributed_to_the_innermost_range(void **state)
{
    (void)state;
    struct ranges ranges = {0};
    uint64_t began_ns = clock_now_ns();
    time_parts_start(&ranges.parts, began_ns);
    range_begin(&ranges, RANGE_STEP);
    range_begin(&ranges, RANGE_UPDATE);
    wait_a_while();
    range_begin(&ranges, RANGE_STAGE);
    wait_a_while();
    range_end(&ranges);
    range_end(&ranges);
    wait_a_while();
    range_end(&ranges);
    assert_int_equal(ranges.parts.part, TIME_OTHER);
    /* this range is not measured, but its time still counts */
    assert_int_equal(ranges.times[RANGE_STEP].count, 0);
    uint64_t ended_ns = clock_now_ns();
    struct time_spent spent = time_parts_take(&ranges.parts, ended_ns);
    assert_int_equal(sum(&spent), ended_ns - began_ns);
    assert_true(spent.ns[TIME_UPDATE] > 0 && spent.ns[TIME_SAVE] > 0 && spent.ns[TIME_OTHER] > 0);
    assert_int_equal(spent.ns[TIME_UPDATE] + spent.ns[TIME_SAVE] + spent.ns[TIME_OTHER],
                     ended_ns - began_ns);
}

/* If the device queues work, its computation is the time that the host waits, and the times of
 * passes are unknown. */
static void passes_of_a_queueing_device_have_no_host_time(void **state)
{
    (void)state;
    struct ranges ranges = {.queues = true};
    time_parts_start(&ranges.parts, clock_now_ns());
    for (int range = 0; range < RANGE_COUNT; range++) {
        range_begin(&ranges, (enum range)range);
        wait_a_while();
        range_end(&ranges);
    }
    struct time_spent spent = time_parts_take(&ranges.parts, clock_now_ns());
    assert_int_equal(spent.ns[TIME_FORWARD] + spent.ns[TIME_BACKWARD] + spent.ns[TIME_UPDATE], 0);
    assert_true(spent.ns[TIME_QUEUE] > 0 && spent.ns[TIME_DEVICE] > 0 && spent.ns[TIME_LOAD] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_parts_add_up_to_the_elapsed_time),
        cmocka_unit_test(time_is_attributed_to_the_innermost_range),
        cmocka_unit_test(passes_of_a_queueing_device_have_no_host_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
