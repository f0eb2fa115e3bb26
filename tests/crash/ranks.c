/*
 * ranks — tests SIGKILL of one of three real ranks that save under mpirun, at one of its durable
 * operations or from outside: a random sample of the cases that scripts/crash-sweep --ranks runs in
 * full.
 */
#include "tests/crash/crash_case.h"
#include "tests/crash/sweep_ranks.h"

static void kill_ranks(const char *name, bool is_consolidated, unsigned kills)
{
    struct sweep_counts counts = {0};
    struct sweep_finding finding = {0};
    const char *lack = sweep_ranks_skip_reason();
    if (lack) {
        fprintf(stderr, "SKIPPED: %s\n", lack);
        skip();
    }
    const struct known_plan three_ranks = {{.name = name,
                                            .ranks = 3,
                                            .keep = 1,
                                            .is_consolidated = is_consolidated,
                                            .saves = {{2, 2}, {3, 3}},
                                            .saves_count = 2},
                                           {.steps = {{1, 1}}, .count = 1}};
    struct sweep sweep = crash_prepare(&three_ranks);
    if (!sweep_ranks_some(&sweep, crash_seed(), kills, &counts, &finding))
        fail_msg("%s", finding.why);
    sweep_deinit(&sweep);
    crash_print(&counts);
    assert_true(counts.kills > 0);
}

static void a_killed_rank_leaves_complete_steps_to_other_ranks(void **state)
{
    (void)state;
    kill_ranks("three ranks", false, test_is_sanitized() ? 2 : 6);
}

static void a_kill_of_ranks_writing_one_file_leaves_the_old_or_the_new_step(void **state)
{
    (void)state;
    kill_ranks("three ranks that write one file", true, test_is_sanitized() ? 2 : 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_killed_rank_leaves_complete_steps_to_other_ranks,
                                        crash_set_up, crash_tear_down),
        cmocka_unit_test_setup_teardown(
            a_kill_of_ranks_writing_one_file_leaves_the_old_or_the_new_step, crash_set_up,
            crash_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
