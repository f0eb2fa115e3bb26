/*
 * power_loss — tests power loss at any instant while several ranks save: every possible disk is
 * complete and usable.
 */
#include "tests/crash/crash_case.h"

#include "base/philox.h"

#include <stdlib.h>

/* The number of distinct disks checked per run. */
static unsigned states_max(void)
{
    return test_is_sanitized() ? 8 : 50;
}

static void lose_power(const struct known_plan *known, struct sweep_power how,
                       struct sweep_counts *counts)
{
    struct sweep sweep = crash_prepare(known);
    struct sweep_finding finding = {0};
    if (how.states_max == 0)
        how.states_max = states_max();
    how.report = stderr;
    if (!sweep_power(&sweep, &how, counts, &finding))
        fail_msg("%s", finding.why);
    sweep_deinit(&sweep);
}

static void after_power_loss_durable_steps_are_found_and_the_next_owner_continues(void **state)
{
    (void)state;
    struct sweep_counts counts = {0};
    uint64_t seed = crash_seed();
    for (int i = 0; i < PLANS_COUNT; i++)
        lose_power(&plans[i], (struct sweep_power){.seed = seed}, &counts);
    crash_print(&counts);
    assert_true(counts.operations > 200);
    /* the smallest plans have fewer states than the maximum */
    assert_true(counts.states >= 3 * states_max());
}

static void power_loss_during_cleanup_after_a_kill_is_survived(void **state)
{
    (void)state;
    struct sweep_counts counts = {0};
    uint64_t seed = crash_seed();
    unsigned runs = test_is_sanitized() ? 2 : 6;
    for (unsigned i = 0; i < runs; i++) {
        struct philox_block random = philox(seed, 5, i);
        unsigned dies_at = 1 + random.word[0] % 60;
        print_message("dies at call %u\n", dies_at);
        lose_power(&plans[1 + random.word[1] % 4],
                   (struct sweep_power){.seed = seed + i, .dies_at = dies_at}, &counts);
    }
    crash_print(&counts);
}

static void a_crash_before_a_rename_is_durable_loses_no_step(void **state)
{
    (void)state;
    struct sweep_counts counts = {0};
    uint64_t seed = crash_seed();
    unsigned all = test_is_sanitized() ? 0 : 1000000;
    lose_power(&plans[1], (struct sweep_power){.seed = seed, .dies_after = HISTORY_RENAME},
               &counts);
    lose_power(
        &plans[3],
        (struct sweep_power){.seed = seed, .dies_after = HISTORY_EXCHANGE, .states_max = all},
        &counts);
    lose_power(&plans[4], (struct sweep_power){.seed = seed, .dies_after = HISTORY_RENAME},
               &counts);
    crash_print(&counts);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, crash_set_up, crash_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(after_power_loss_durable_steps_are_found_and_the_next_owner_continues),
        CASE(power_loss_during_cleanup_after_a_kill_is_survived),
        CASE(a_crash_before_a_rename_is_durable_loses_no_step),
    };
    return engines_run(tests);
}
