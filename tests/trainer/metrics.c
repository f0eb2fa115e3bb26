/*
 * metrics (test) — which earlier lines of metrics.jsonl a resumed run keeps.
 */
#include "trainer/report/metrics.h"
#include "base/str.h"
#include "io/file_util.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char STEP_6[] = "{\"step\":6,\"loss\":1.5}\n",
                  STEP_7[] = "{\"step\":7,\"loss\":1.25}\n",
                  EVALUATED_7[] = "{\"step\":7,\"val_loss\":1.75}\n",
                  STEP_8[] = "{\"step\":8,\"loss\":1}\n", TORN[] = "{\"step\":9,\"lo";

/* Opens and closes metrics for a file with that text, and compares what remains. */
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
    const struct metrics_options options = {.path = path, .tensorboard = "", .resume = resume};
    assert_ok(io_open(path, NULL, &io, &err), &err);
    assert_ok(metrics_open(io, &options, &metrics, &err), &err);
    metrics_close(metrics);
    assert_ok(io_read_file(io, path, 4 << 20, &kept, &bytes, &err), &err);
    assert_int_equal(bytes, strlen(expected));
    assert_memory_equal(kept, expected, bytes);
    free(kept);
    io_close(io);
    test_remove_folder(folder);
}

static void later_and_torn_lines_are_removed(void **state)
{
    (void)state;
    char text[256], expected[256];
    snprintf(text, sizeof text, "%s%s%s%s%s", STEP_6, STEP_7, EVALUATED_7, STEP_8, TORN);
    snprintf(expected, sizeof expected, "%s%s%s", STEP_6, STEP_7, EVALUATED_7);
    assert_kept(text, (struct metrics_resume){7, true}, expected);
    assert_kept(text, (struct metrics_resume){6, false}, STEP_6);
    assert_kept(text, (struct metrics_resume){0, false}, "");
}

/* A run stopped between a step and its evaluation, resumed, evaluated, and was killed before its
 * next checkpoint. */
static void a_repeated_evaluation_is_written_once(void **state)
{
    (void)state;
    char text[256], expected[256];
    snprintf(text, sizeof text, "%s%s%s", STEP_6, STEP_7, EVALUATED_7);
    snprintf(expected, sizeof expected, "%s%s", STEP_6, STEP_7);
    assert_kept(text, (struct metrics_resume){7, false}, expected);
}

/* Lines for steps 1 to 20,000, in a file larger than the read window; one line is longer than the
 * window. */
static void the_last_kept_line_is_found_anywhere_in_the_file(void **state)
{
    (void)state;
    enum { STEPS = 20000, LONG_AT = 15000, LONG_BYTES = 200000 };
    struct str text = {0};
    size_t ends[STEPS + 1] = {0};
    for (uint64_t step = 1; step <= STEPS; step++) {
        str_add_format(&text, "{\"step\":%llu,\"loss\":%.17g}\n", (unsigned long long)step,
                       1.0 / (double)step);
        ends[step] = text.bytes;
        if (step == LONG_AT) {
            str_add_fill(&text, 'x', LONG_BYTES);
            str_add_text(&text, "\n");
        }
    }
    assert_int_equal(str_status(&text), 0);
    for (uint64_t step = 1; step < STEPS; step += 1717) {
        char *expected = strndup(text.data, ends[step]);
        assert_non_null(expected);
        assert_kept(text.data, (struct metrics_resume){step, false}, expected);
        free(expected);
    }
    str_deinit(&text);
}

/* Most of the file is a hole, so that it takes no disk space. */
static void a_metrics_file_of_any_size_is_truncated(void **state)
{
    (void)state;
    static const uint64_t hole_bytes = UINT64_C(3) << 30;
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 16];
    struct io *io;
    struct metrics *metrics;
    struct err err;
    struct stat info;
    test_make_folder(folder);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fseeko(file, (off_t)hole_bytes, SEEK_SET), 0);
    assert_true(fprintf(file, "\n%s%s%s", STEP_6, STEP_7, STEP_8) > 0);
    assert_int_equal(fclose(file), 0);
    const struct metrics_options options = {.path = path, .tensorboard = "", .resume = {7, true}};
    assert_ok(io_open(path, NULL, &io, &err), &err);
    assert_ok(metrics_open(io, &options, &metrics, &err), &err);
    metrics_close(metrics);
    io_close(io);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, hole_bytes + 1 + strlen(STEP_6) + strlen(STEP_7));
    test_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_and_torn_lines_are_removed),
        cmocka_unit_test(a_repeated_evaluation_is_written_once),
        cmocka_unit_test(the_last_kept_line_is_found_anywhere_in_the_file),
        cmocka_unit_test(a_metrics_file_of_any_size_is_truncated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
