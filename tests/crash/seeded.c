/*
 * seeded — tests the sweep itself: it must report every seeded bug, and nothing else.
 */
#include "tests/crash/crash_case.h"
#include "tests/crash/recorder.h"

#include <stdlib.h>
#include <string.h>

enum { STATES_MAX = 100000 }; /* no limit in practice: the sweep ends at the first violation */

/* Whether a power loss at some instant of the plan causes a reported violation. */
static bool finds_violation(const struct known_plan *known, enum recorder_bug bug)
{
    struct sweep sweep = crash_prepare(known);
    struct sweep_power how = {.seed = 1, .states_max = STATES_MAX};
    struct sweep_counts counts = {0};
    struct sweep_finding finding = {0};
    recorder_seed_bug(bug);
    bool holds = sweep_power(&sweep, &how, &counts, &finding);
    recorder_seed_bug(BUG_NONE);
    sweep_deinit(&sweep);
    if (!holds)
        print_message("found after %llu disks: %s\n", (unsigned long long)counts.states,
                      finding.why);
    return !holds;
}

static void a_missing_fsync_of_a_data_file_is_found(void **state)
{
    (void)state;
    assert_true(finds_violation(&plans[1], BUG_DATA_NOT_SYNCED));
}

static void a_missing_fsync_of_the_manifest_is_found(void **state)
{
    (void)state;
    assert_true(finds_violation(&plans[1], BUG_MANIFEST_NOT_SYNCED));
}

static void a_missing_fsync_of_the_files_folder_is_found(void **state)
{
    (void)state;
    assert_true(finds_violation(&plans[0], BUG_STAGING_NOT_SYNCED));
}

static void a_missing_fsync_of_the_folder_of_steps_is_found(void **state)
{
    (void)state;
    /* a durable step is lost */
    assert_true(finds_violation(&plans[0], BUG_FOLDER_NOT_SYNCED));
    /* or the last good step is removed too early */
    assert_true(finds_violation(&plans[1], BUG_FOLDER_NOT_SYNCED));
    /* or the step that is being replaced is lost */
    assert_true(finds_violation(&plans[3], BUG_FOLDER_NOT_SYNCED));
}

static void a_missing_fsync_by_one_rank_of_a_shared_file_is_found(void **state)
{
    (void)state;
    assert_true(finds_violation(&plans[6], BUG_SHARED_FILE_NOT_SYNCED));
}

static void the_crash_sweep_finds_a_rename_before_the_manifest_is_durable(void **state)
{
    (void)state;
    assert_true(finds_violation(&plans[0], BUG_RENAME_EARLY));
    assert_true(finds_violation(&plans[3], BUG_RENAME_EARLY));
}

/* ---- Removal before the replacement is durable. ---- */

static const struct io_transaction_ops *original_transactions;
static struct io_transaction_ops early_removal_transactions;

/* Simulates retention that removes the old step before the new one is committed. */
static int remove_and_commit(struct io_transaction *transaction, struct err *err)
{
    io->names->remove(io, in_folder("step-00000001"), NULL);
    return original_transactions->commit(transaction, err);
}

static void the_crash_sweep_finds_a_removal_before_the_new_step_is_committed(void **state)
{
    (void)state;
    static const struct known_plan one = {
        {.name = "one kept", .ranks = 2, .keep = 1, .saves = {{2, 2}}, .saves_count = 1},
        {.steps = {{1, 1}}, .count = 1}};
    struct sweep sweep = crash_prepare(&one);
    struct sweep_counts counts = {0};
    struct sweep_finding finding = {0};
    original_transactions = io->transactions;
    early_removal_transactions = *original_transactions;
    early_removal_transactions.commit = remove_and_commit;
    io->transactions = &early_removal_transactions;
    assert_false(sweep_kill_each(&sweep, &counts, &finding));
    print_message("found after %llu kills: %s\n", (unsigned long long)counts.kills, finding.why);
    finding.why[0] = '\0';
    assert_false(sweep_power(&sweep, &(struct sweep_power){.seed = 1, .states_max = STATES_MAX},
                             &counts, &finding));
    print_message("found: %s\n", finding.why);
    io->transactions = original_transactions;
    sweep_deinit(&sweep);
}

static void the_crash_sweep_finds_a_sweep_of_another_owners_files(void **state)
{
    (void)state;
    struct sweep sweep = crash_prepare(&plans[1]);
    struct sweep_counts counts = {0};
    struct sweep_finding finding = {0};
    recorder_seed_bug(BUG_NO_LOCK);
    bool holds = sweep_second_owner(&sweep, &counts, &finding);
    recorder_seed_bug(BUG_NONE);
    assert_false(holds);
    print_message("found: %s\n", finding.why);
    sweep_deinit(&sweep);
}

static void a_second_owner_is_refused_by_every_operation_without_effect(void **state)
{
    (void)state;
    struct sweep_counts counts = {0};
    struct sweep_finding finding = {0};
    for (int i = 1; i <= 3; i++) {
        struct sweep sweep = crash_prepare(&plans[i]);
        /* plan 2 itself changes owners */
        if (i != 2 && !sweep_second_owner(&sweep, &counts, &finding))
            fail_msg("%s", finding.why);
        sweep_deinit(&sweep);
    }
    print_message("refused %llu times\n", (unsigned long long)counts.operations);
    assert_true(counts.operations > 20);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, crash_set_up, crash_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_missing_fsync_of_a_data_file_is_found),
        CASE(a_missing_fsync_of_the_manifest_is_found),
        CASE(a_missing_fsync_of_the_files_folder_is_found),
        CASE(a_missing_fsync_of_the_folder_of_steps_is_found),
        CASE(a_missing_fsync_by_one_rank_of_a_shared_file_is_found),
        CASE(the_crash_sweep_finds_a_rename_before_the_manifest_is_durable),
        CASE(the_crash_sweep_finds_a_removal_before_the_new_step_is_committed),
        CASE(the_crash_sweep_finds_a_sweep_of_another_owners_files),
        CASE(a_second_owner_is_refused_by_every_operation_without_effect),
    };
    return engines_run(tests);
}
