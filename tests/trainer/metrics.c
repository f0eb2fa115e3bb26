/*
 * metrics (test) — what a run that goes on keeps of the lines before it.
 */
#include "trainer/metrics.h"
#include "io/whole.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static const char STEP_6[] = "{\"step\":6,\"loss\":1.5}\n", STEP_7[] = "{\"step\":7,\"loss\":1.25}\n",
                  EVALUATED_7[] = "{\"step\":7,\"val_loss\":1.75}\n", STEP_8[] = "{\"step\":8,\"loss\":1}\n",
                  TORN[] = "{\"step\":9,\"lo";

/* Opens and closes metrics over a file that holds text, and compares what is left. */
static void assert_kept(const char *text, struct metrics_resume resume, const char *expected)
{
    struct io *io;
    struct metrics *metrics;
    struct err err;
    char *kept;
    size_t bytes;
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 16];
    test_make_folder(folder);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    test_write_file(path, text, strlen(text));
    assert_ok(io_open(path, NULL, &io, &err), &err);
    assert_ok(metrics_open(io, path, resume, &metrics, &err), &err);
    metrics_close(metrics);
    assert_ok(io_read_file(io, path, 4096, &kept, &bytes, &err), &err);
    assert_int_equal(bytes, strlen(expected));
    assert_memory_equal(kept, expected, bytes);
    free(kept);
    io_close(io);
    test_remove_folder(folder);
}

static void lines_of_later_steps_and_torn_ones_go(void **state)
{
    (void)state;
    char text[256], expected[256];
    snprintf(text, sizeof text, "%s%s%s%s%s", STEP_6, STEP_7, EVALUATED_7, STEP_8, TORN);
    snprintf(expected, sizeof expected, "%s%s%s", STEP_6, STEP_7, EVALUATED_7);
    assert_kept(text, (struct metrics_resume){7, true}, expected);
    assert_kept(text, (struct metrics_resume){6, false}, STEP_6);
    assert_kept(text, (struct metrics_resume){0, false}, "");
}

/* A run was stopped between a step and its evaluation, went on, evaluated and was killed before its next checkpoint. */
static void an_evaluation_that_comes_again_stands_once(void **state)
{
    (void)state;
    char text[256], expected[256];
    snprintf(text, sizeof text, "%s%s%s", STEP_6, STEP_7, EVALUATED_7);
    snprintf(expected, sizeof expected, "%s%s", STEP_6, STEP_7);
    assert_kept(text, (struct metrics_resume){7, false}, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_later_steps_and_torn_ones_go),
        cmocka_unit_test(an_evaluation_that_comes_again_stands_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
