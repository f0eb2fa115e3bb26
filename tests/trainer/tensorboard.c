/*
 * tensorboard (test) — TensorBoard's own readers see the contents of metrics.jsonl, each step once,
 * after any kills and resumes.
 */
#include "tests/support/test.h"
#include "trainer/report/metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[TEST_PATH_BYTES_MAX], metrics_path[TEST_PATH_BYTES_MAX + 16],
    events_path[TEST_PATH_BYTES_MAX + 16];
static struct io *io;

static int set_up(void **state)
{
    (void)state;
    struct err err;
    test_make_folder(folder);
    snprintf(metrics_path, sizeof metrics_path, "%s/metrics.jsonl", folder);
    snprintf(events_path, sizeof events_path, "%s/events", folder);
    return io_open(folder, NULL, &io, &err);
}

static int tear_down(void **state)
{
    (void)state;
    io_close(io);
    test_remove_folder(folder);
    return 0;
}

/* A run that resumes and is killed after its last step; from the step where it resumed, it
 * evaluates after every third step. */
static void write_steps(struct metrics_resume resume, uint64_t last)
{
    struct metrics *metrics;
    struct err err = {0};
    const struct metrics_options options = {metrics_path, events_path, resume};
    assert_ok(metrics_open(io, &options, &metrics, &err), &err);
    for (uint64_t step = resume.step; step <= last; step++) {
        struct trainer_report line = {
            .event = TRAINER_PROGRESS,
            .step = step,
            .epoch = (uint32_t)(step / 4),
            .loss = 1.0 / (double)(step + 1),
            .lr = 1e-3,
            .gradient_norm = 1e30 * (double)step,
            .metrics = {.utilization_share = -1, .process_bytes = UINT64_C(9) << 40}};
        if (step > resume.step)
            assert_ok(metrics_write(metrics, &line, &err), &err);
        line.event = TRAINER_EVALUATED;
        if (step > 0 && step % 3 == 0 && (step > resume.step || !resume.is_evaluated))
            assert_ok(metrics_write(metrics, &line, &err), &err);
    }
    metrics_close(metrics);
}

static long read_back(void)
{
    char text[64];
    assert_int_equal(test_run_output(text, sizeof text,
                                     "'%s' '%s/tests/oracle/events.py' '%s' '%s'",
                                     test_need_python("tensorboard"), TEST_SOURCE_DIR, events_path,
                                     metrics_path),
                     0);
    return strtol(text, NULL, 10);
}

enum { STEP_SCALARS = 17, EVALUATION_SCALARS = 3 };

static void tensorboard_reads_what_was_written(void **state)
{
    (void)state;
    write_steps((struct metrics_resume){0}, 10);
    assert_int_equal(read_back(), 10 * STEP_SCALARS + 3 * EVALUATION_SCALARS);
}

/* All of this takes a second or two, so file names cannot consist of just the clock's seconds. */
static void repeated_steps_appear_once(void **state)
{
    (void)state;
    write_steps((struct metrics_resume){0}, 10);
    write_steps((struct metrics_resume){4, false}, 8);
    /* the run is killed before it makes a step */
    write_steps((struct metrics_resume){7, false}, 7);
    write_steps((struct metrics_resume){7, false}, 12);
    write_steps((struct metrics_resume){2, false}, 5);
    assert_int_equal(read_back(), 5 * STEP_SCALARS + 1 * EVALUATION_SCALARS);
    write_steps((struct metrics_resume){0}, 2); /* a run that starts over in the same folder */
    assert_int_equal(read_back(), 2 * STEP_SCALARS);
}

/* A run stopped between a step and its evaluation, resumed, evaluated, and was killed before its
 * next checkpoint. */
static void a_repeated_evaluation_appears_once(void **state)
{
    (void)state;
    write_steps((struct metrics_resume){0}, 6);
    write_steps((struct metrics_resume){6, false}, 7);
    assert_int_equal(read_back(), 7 * STEP_SCALARS + 2 * EVALUATION_SCALARS);
    write_steps((struct metrics_resume){6, true}, 6);
    assert_int_equal(read_back(), 6 * STEP_SCALARS + 2 * EVALUATION_SCALARS);
}

/* Finds the only event file in a folder. */
static void find_file(const char *run, char path[TEST_PATH_BYTES_MAX * 2])
{
    char runs[TEST_PATH_BYTES_MAX + 32];
    snprintf(runs, sizeof runs, "%s/%s", events_path, run);
    DIR *entries = opendir(runs);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0)
            snprintf(path, TEST_PATH_BYTES_MAX * 2, "%s/%s", runs, entry->d_name);
    closedir(entries);
}

static void records_after_a_torn_one_are_readable(void **state)
{
    (void)state;
    char path[TEST_PATH_BYTES_MAX * 2] = "";
    size_t bytes;
    write_steps((struct metrics_resume){0}, 5);
    find_file("train", path);
    unsigned char *data = test_read_file(path, &bytes);
    test_write_file(path, data, bytes - 5);
    free(data);
    write_steps((struct metrics_resume){4, true}, 8);
    assert_int_equal(read_back(), 8 * STEP_SCALARS + 2 * EVALUATION_SCALARS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tensorboard_reads_what_was_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(repeated_steps_appear_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_repeated_evaluation_appears_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(records_after_a_torn_one_are_readable, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
