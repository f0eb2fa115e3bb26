/*
 * pruning — tests retention in real folders: the rules as a saver applies them, readers in other
 * processes, backups, and processes that die.
 */
#include "io/faults/io_fault.h"
#include "tests/ckpt/steps.h"
#include "tests/support/child.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The numbers of the existing steps, complete or not: "100 200". */
static const char *list_steps(char text[512])
{
    assert_int_equal(
        test_run_output(text, 512,
                        "cd '%s' && ls -d step-* 2>/dev/null | sed 's/step-0*\\(.\\)/\\1/' | "
                        "tr '\\n' ' ' | sed 's/ $//'",
                        folder),
        0);
    return text;
}

#define assert_steps(expected)                                                                     \
    do {                                                                                           \
        char there[512];                                                                           \
        assert_string_equal(list_steps(there), (expected));                                        \
    } while (0)

/* seed: determines the arrays' contents. */
static void save_arrays(struct ckpt_saver *saver, uint64_t step, uint64_t seed, const char *state)
{
    struct err err = {0};
    arrays_fill(&arrays, seed);
    assert_ok(ckpt_saver_save(saver, step, state, &err), &err);
    assert_ok(ckpt_saver_wait(saver, &err), &err);
}

/* Saves a step with an evaluation's result; "": no result. */
static void save_with_loss(struct ckpt_saver *saver, uint64_t step, const char *loss)
{
    char state[128];
    if (*loss)
        snprintf(state, sizeof state, "{\"metrics\":{\"val_loss\":%s,\"val_step\":%" PRIu64 "}}",
                 loss, step);
    else
        snprintf(state, sizeof state, "{}");
    save_arrays(saver, step, step, state);
}

static void save_all(const struct ckpt_keep_rules *keep)
{
    static const char *const losses[] = {"5", "1", "", "null", "2", "4"};
    struct ckpt_saver *saver = steps_open_keeping(io, keep);
    for (uint64_t i = 0; i < 6; i++)
        save_with_loss(saver, 100 * (i + 1), losses[i]);
    ckpt_saver_close(saver);
}

static void the_last_the_multiples_and_the_best_are_kept(void **state)
{
    (void)state;
    struct ckpt_keep_rules keep = {.last = 1, .every = 300, .best = {"val_loss", CKPT_MODE_MIN, 2}};
    save_all(&keep);
    assert_steps("200 300 500 600");
    steps_check_listed(4);
    assert_int_equal(steps_temporaries_count(), 0);
}

static void a_prune_matches_a_runs_retention(void **state)
{
    (void)state;
    save_all(&(struct ckpt_keep_rules){.last = 0});
    assert_steps("100 200 300 400 500 600");
    struct ckpt_prune_options options = {
        .keep = {.last = 1, .every = 300, .best = {"val_loss", CKPT_MODE_MIN, 2}}, .dry_run = true};
    struct err err = {0};
    assert_ok(ckpt_prune(io, folder, &options, &err), &err);
    assert_steps("100 200 300 400 500 600");
    options.dry_run = false;
    assert_ok(ckpt_prune(io, folder, &options, &err), &err);
    assert_steps("200 300 500 600");
    options.keep = (struct ckpt_keep_rules){.last = 1};
    assert_ok(ckpt_prune(io, folder, &options, &err), &err);
    assert_steps("600");
}

static void a_folder_in_use_is_not_pruned(void **state)
{
    (void)state;
    struct ckpt_saver *saver = steps_open_keeping(io, &(struct ckpt_keep_rules){0});
    save_with_loss(saver, 1, "");
    save_with_loss(saver, 2, "");
    struct ckpt_prune_options options = {.keep.last = 1};
    struct err err = {0};
    char pid[32];
    snprintf(pid, sizeof pid, "pid=%d ", (int)getpid());
    assert_int_equal(ckpt_prune(io, folder, &options, &err), -EBUSY);
    assert_non_null(strstr(err.found, pid));
    options.dry_run = true; /* a dry run changes nothing, hence needs no lock */
    assert_ok(ckpt_prune(io, folder, &options, &err), &err);
    ckpt_saver_close(saver);
    assert_steps("1 2");
}

static int open_reader(void *context)
{
    struct ckpt_reader *reader;
    return ckpt_reader_open(io, context, &reader, NULL);
}

/* Starts a process that keeps the step open until killed. */
static pid_t start_reader(uint64_t step)
{
    char path[FIXTURE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/step-%08" PRIu64, folder, step);
    return child_start(open_reader, path);
}

static void record_reasons(void *context, const struct ckpt_verdict *verdict)
{
    unsigned *reasons = context;
    reasons[verdict->step] = verdict->reasons;
}

static void a_step_being_read_is_not_removed(void **state)
{
    (void)state;
    struct ckpt_saver *saver = steps_open_keeping(io, &(struct ckpt_keep_rules){.last = 1});
    save_with_loss(saver, 1, "");
    ckpt_saver_close(saver);
    pid_t reader = start_reader(1);
    saver = steps_open_keeping(io, &(struct ckpt_keep_rules){.last = 1});
    save_with_loss(saver, 2, "");
    save_with_loss(saver, 3, "");
    assert_steps("1 3");
    ckpt_saver_close(saver);
    unsigned reasons[4] = {0};
    struct ckpt_prune_options options = {
        .keep.last = 1, .verdict = record_reasons, .context = reasons};
    struct err err = {0};
    assert_ok(ckpt_prune(io, folder, &options, &err), &err);
    assert_int_equal(reasons[1], CKPT_KEPT_READ);
    assert_int_equal(reasons[3], CKPT_KEPT_LAST);
    child_kill(reader);
    saver = steps_open_keeping(io, &(struct ckpt_keep_rules){.last = 1});
    save_with_loss(saver, 4, "");
    ckpt_saver_close(saver);
    assert_steps("4");
}

static void a_backup_is_removed_with_its_step(void **state)
{
    (void)state;
    char before[64], after[64];
    struct ckpt_saver *saver = steps_open_keeping(io, &(struct ckpt_keep_rules){.last = 1});
    save_arrays(saver, 5, 51, "{}");
    assert_int_equal(
        test_run_output(before, sizeof before, "stat -c %%i '%s/step-00000005'", folder), 0);
    save_arrays(saver, 5, 52, "{}");
    assert_int_equal(
        test_run_output(after, sizeof after, "stat -c %%i '%s/aside-step-00000005'", folder), 0);
    assert_string_equal(before, after);
    save_arrays(saver, 5, 52, "{}"); /* saving the same content again changes nothing */
    assert_int_equal(
        test_run_output(after, sizeof after, "stat -c %%i '%s/aside-step-00000005'", folder), 0);
    assert_string_equal(before, after);
    assert_int_equal(fixture_list(io, folder, NULL), 1);
    assert_int_equal(
        test_run_output(before, sizeof before, "stat -c %%i '%s/step-00000005'", folder), 0);
    save_arrays(saver, 5, 53, "{}"); /* only one backup is kept per step */
    assert_int_equal(
        test_run_output(after, sizeof after, "stat -c %%i '%s/aside-step-00000005'", folder), 0);
    assert_string_equal(before, after);
    save_with_loss(saver, 6, "");
    assert_int_equal(test_run("test ! -e '%s/aside-step-00000005'", folder), 0);
    ckpt_saver_close(saver);
    assert_steps("6");
    assert_int_equal(steps_temporaries_count(), 0);
}

static bool backup_exists(void)
{
    return test_run("test -e '%s/aside-step-00000005'", folder) == 0;
}

static double loss_of_step_5(void)
{
    char path[FIXTURE_PATH_BYTES];
    struct ckpt_reader *reader = NULL;
    struct err err = {0};
    double loss = -1;
    snprintf(path, sizeof path, "%s/step-00000005", folder);
    assert_ok(ckpt_reader_open(io, path, &reader, &err), &err);
    assert_true(ckpt_get_metric(ckpt_reader_state(reader), "val_loss", 5, &loss));
    ckpt_reader_close(reader);
    return loss;
}

/* Simulates a run that stopped before an evaluation and ran it after resuming. */
static void a_backup_with_the_same_arrays_is_removed(void **state)
{
    (void)state;
    struct ckpt_saver *saver = steps_open_keeping(io, &(struct ckpt_keep_rules){0});
    save_arrays(saver, 5, 5, "{\"loader\":{\"position\":7},\"config\":{\"a\":1}}");
    save_arrays(saver, 5, 5,
                "{\"loader\":{\"position\":7},\"config\":{\"a\":2},\"metrics\":{\"val_step\":5,"
                "\"val_loss\":0.5}}");
    assert_false(backup_exists());
    assert_true(loss_of_step_5() == 0.5);
    pid_t reader = start_reader(5); /* a step that is being read remains as a backup */
    save_arrays(saver, 5, 5,
                "{\"loader\":{\"position\":7},\"metrics\":{\"val_step\":5,\"val_loss\":0.25}}");
    assert_true(backup_exists());
    assert_true(loss_of_step_5() == 0.25);
    child_kill(reader);
    save_arrays(saver, 5, 5, "{\"loader\":{\"position\":7}}");
    assert_false(backup_exists());
    /* a different loader position is different content */
    save_arrays(saver, 5, 5, "{\"loader\":{\"position\":8}}");
    assert_true(backup_exists());
    ckpt_saver_close(saver);
    assert_steps("5");
    assert_int_equal(steps_temporaries_count(), 0);
}

/* The process dies after some removals; the next prune completes them. */
static void a_killed_prune_is_finished_by_the_next(void **state)
{
    (void)state;
    save_all(&(struct ckpt_keep_rules){.last = 0});
    for (int removals = 1; removals <= 3; removals++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            struct io *own = NULL;
            struct ckpt_prune_options options = {.keep.last = 2};
            if (io_fault_open(folder, NULL, "remove:kill@2", &own, NULL))
                _exit(99);
            _exit(ckpt_prune(own, folder, &options, NULL) != 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        steps_check_listed(6 - removals);
    }
    struct ckpt_prune_options options = {.keep.last = 2};
    struct err err = {0};
    assert_ok(ckpt_prune(io, folder, &options, &err), &err);
    assert_steps("500 600");
}

static void a_failed_removal_does_not_prevent_others(void **state)
{
    (void)state;
    save_all(&(struct ckpt_keep_rules){.last = 0});
    struct io *faulty = steps_open_faulty("remove:eio:step-00000200");
    struct ckpt_prune_options options = {.keep.last = 2};
    struct err err = {0};
    assert_int_equal(ckpt_prune(faulty, folder, &options, &err), -EIO);
    assert_non_null(strstr(err.path, "step-00000200"));
    assert_steps("200 500 600");
    io_close(faulty);
}

/* Step 100 is in a folder named with a higher number. It neither displaces a newer step nor is
 * removed. */
static void a_misnamed_step_does_not_affect_others(void **state)
{
    (void)state;
    struct ckpt_prune_options options = {.keep.last = 1};
    struct err err = {0};
    char path[IO_PATH_BYTES_MAX];
    uint64_t step;
    save_all(&(struct ckpt_keep_rules){.last = 0});
    test_run("mv '%s/step-00000100' '%s/step-00009000'", folder, folder);
    assert_ok(ckpt_find(io, folder, path, &step, NULL, &err), &err);
    assert_int_equal(step, 600);
    assert_ok(ckpt_prune(io, folder, &options, &err), &err);
    assert_steps("600 9000");
    test_run("rm -r '%s/step-00000600'", folder);
    assert_int_equal(ckpt_find(io, folder, path, &step, NULL, &err), -EBADMSG);
    assert_non_null(strstr(err.advice, "/step-00009000 "));
    assert_non_null(strstr(err.advice, "/step-00000100"));
    assert_steps("9000");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, steps_set_up, steps_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(the_last_the_multiples_and_the_best_are_kept),
        CASE(a_prune_matches_a_runs_retention),
        CASE(a_folder_in_use_is_not_pruned),
        CASE(a_step_being_read_is_not_removed),
        CASE(a_backup_is_removed_with_its_step),
        CASE(a_backup_with_the_same_arrays_is_removed),
        CASE(a_killed_prune_is_finished_by_the_next),
        CASE(a_failed_removal_does_not_prevent_others),
        CASE(a_misnamed_step_does_not_affect_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
