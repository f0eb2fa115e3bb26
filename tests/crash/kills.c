/*
 * kills — tests SIGKILL of a saving process at every durable operation, in the middle of every
 * write, and at random instants.
 */
#include "tests/crash/crash_case.h"

static void
a_kill_at_every_durable_operation_leaves_complete_steps_and_a_usable_folder(void **state)
{
    (void)state;
    struct sweep_counts counts = {0};
    struct sweep_finding finding = {0};
    unsigned plans_count = test_is_sanitized()                    ? 1
                           : engines_current() == IO_ENGINE_URING ? 2
                                                                  : PLANS_COUNT;
    for (unsigned i = 0; i < plans_count; i++) {
        struct sweep sweep = crash_prepare(&plans[i]);
        if (!sweep_kill_each(&sweep, &counts, &finding))
            fail_msg("%s", finding.why);
        sweep_deinit(&sweep);
    }
    crash_print(&counts);
    assert_true(counts.kills > 30);
}

static void a_kill_at_random_instants_leaves_complete_steps_and_a_usable_folder(void **state)
{
    (void)state;
    struct sweep_counts counts = {0};
    struct sweep_finding finding = {0};
    uint64_t seed = crash_seed();
    for (int i = 0; i < PLANS_COUNT; i++) {
        struct sweep sweep = crash_prepare(&plans[i]);
        if (!sweep_kill_random(&sweep, seed, test_is_sanitized() ? 2 : 5, &counts, &finding))
            fail_msg("%s", finding.why);
        sweep_deinit(&sweep);
    }
    crash_print(&counts);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, crash_set_up, crash_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_kill_at_every_durable_operation_leaves_complete_steps_and_a_usable_folder),
        CASE(a_kill_at_random_instants_leaves_complete_steps_and_a_usable_folder),
    };
    return engines_run(tests);
}
