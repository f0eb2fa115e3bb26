/*
 * text — human-readable output: results formatted from their JSON documents, and the progress bar
 * at any width.
 */
#include "base/clock.h"
#include "cli/core/console.h"
#include "cli/core/output.h"
#include "cli/report/step_line.h"
#include "tests/support/test.h"

#include <limits.h>
#include <string.h>

static void write_document(struct output *output)
{
    struct jsonx_writer *json = &output->json;
    output_begin(output);
    jsonx_write_u64(json, "samples_count", 3068);
    jsonx_write_u64(json, "mean_sample_bytes", 28774);
    jsonx_write_u64(json, "small_bytes", 12);
    jsonx_write_f64(json, "of_limit_fraction", 0.125);
    jsonx_write_f64(json, "read_bytes_per_second", 1048576.0);
    jsonx_write_f64(json, "samples_per_second", 12.34);
    jsonx_write_f64(json, "moved_bytes_per_cpu_second", 2048);
    jsonx_write_f64(json, "elapsed_seconds", 1.5);
    jsonx_write_i64(json, "offset", -3);
    jsonx_write_u64(json, "wanted_bytes", 1024);
    jsonx_write_bool(json, "whole", true);
    jsonx_write_null(json, "val_loss");
    jsonx_begin_array(json, "fields");
    jsonx_write_string(json, NULL, "cls");
    jsonx_write_string(json, NULL, "jpg");
    jsonx_end_array(json);
    jsonx_begin_object(json, "text");
    jsonx_write_string(json, "element", "uint16");
    jsonx_write_u64(json, "tokens_of_the_longest_one_count", 7);
    jsonx_end_object(json);
    jsonx_begin_array(json, "tensors");
    for (int i = 0; i < 2; i++) {
        jsonx_begin_object(json, NULL);
        jsonx_write_string(json, "name", i ? "b" : "long.name");
        jsonx_begin_array(json, "shape");
        jsonx_write_u64(json, NULL, 4);
        jsonx_write_u64(json, NULL, 2);
        jsonx_end_array(json);
        jsonx_write_u64(json, "size_bytes", 1000 + i * 1000);
        jsonx_end_object(json);
    }
    jsonx_end_array(json);
}

static void format_output(bool as_json, char *text, size_t bytes)
{
    struct output output;
    struct err err;
    FILE *stream = fmemopen(text, bytes, "w");
    assert_non_null(stream);
    write_document(&output);
    assert_ok(output_end(&output, as_json, stream, &err), &err);
    fclose(stream);
}

static void results_are_printed_with_units(void **state)
{
    (void)state;
    char text[2048];
    format_output(false, text, sizeof text);
    assert_string_equal(text, "samples               3068\n"
                              "mean sample           28.1 KiB (28774)\n"
                              "small                 12 bytes\n"
                              "of limit              12.5%\n"
                              "read per second       1.0 MiB\n"
                              "samples per second    12.3\n"
                              "moved per cpu second  2.0 KiB\n"
                              "elapsed               1.50 s\n"
                              "offset                -3\n"
                              "used by samples       1.0 KiB (1024)\n"
                              "whole                 yes\n"
                              "val loss              -\n"
                              "fields                cls, jpg\n"
                              "text\n"
                              "  element                    uint16\n"
                              "  tokens of the longest one  7\n"
                              "tensors\n"
                              "  name       shape   size\n"
                              "  long.name  [4, 2]  1000 bytes\n"
                              "  b          [4, 2]  2.0 KiB\n");
}

static void the_same_result_is_one_line_of_json(void **state)
{
    (void)state;
    char text[2048];
    format_output(true, text, sizeof text);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_non_null(strstr(text, "\"mean_sample_bytes\":28774"));
}

static void a_bar_never_exceeds_the_terminal_width(void **state)
{
    (void)state;
    char text[CONSOLE_BAR_BYTES_MAX];
    struct progress progress = {"converting", PROGRESS_ITEMS, 0, 0, 3068, 5 * CLOCK_NS_PER_S};
    for (unsigned columns = 0; columns < 300; columns++)
        for (progress.done = 0; progress.done <= 3068; progress.done += 767)
            assert_true(strlen(progress_format(&progress, columns, text)) <= columns);
}

static void a_bar_shows_amount_percentage_rate_and_time_left(void **state)
{
    (void)state;
    char text[CONSOLE_BAR_BYTES_MAX];
    struct progress converting = {"converting", PROGRESS_ITEMS, 0, 500, 2000, 5 * CLOCK_NS_PER_S};
    progress_format(&converting, 72, text);
    assert_string_equal(text,
                        "converting  500/2000 items  25%  [====>              ]  100/s  15 s left");
    progress_format(&converting, 42, text);
    assert_string_equal(text, "converting  500/2000 items  25%  100/s");
    progress_format(&converting, 33, text);
    assert_string_equal(text, "converting  500/2000 items  25%");
    progress_format(&converting, 30, text);
    assert_string_equal(text, "converting  500/2000  25%");
    progress_format(&converting, 19, text);
    assert_string_equal(text, "500/2000  25%");
    struct progress endless = {"verifying", PROGRESS_BYTES, 0, 1 << 20, 0, CLOCK_NS_PER_S};
    assert_string_equal(progress_format(&endless, 72, text), "verifying  1.0 MiB  1.0 MiB/s");
    struct progress nothing = {"x", PROGRESS_ITEMS, 0, 0, 10, 0};
    assert_string_equal(progress_format(&nothing, 30, text), "x  0/10 items  0%  0/s");
}

static void the_rate_counts_from_the_start_of_the_bar(void **state)
{
    (void)state;
    char text[CONSOLE_BAR_BYTES_MAX];
    struct progress resumed = {"training", PROGRESS_STEPS, 900, 905, 1000, 10 * CLOCK_NS_PER_S};
    progress_format(&resumed, 60, text);
    assert_non_null(strstr(text, "905/1000 steps"));
    assert_non_null(strstr(text, "  0.5/s  3 min left"));
}

static void a_progress_line_omits_what_does_not_fit_the_terminal(void **state)
{
    (void)state;
    static const struct {
        unsigned columns;
        const char *line;
    } rows[] = {
        {UINT_MAX,
         "step 50/1400  loss 2.1042  lr 0.001  grad 1.340  173.8 samples/s  gpu 97%  memory 2.0 GiB"
         "  time: load 5% forward 35% backward 60%  left 8 min"},
        {142,
         "step 50/1400  loss 2.1042  lr 0.001  grad 1.340  173.8 samples/s  gpu 97%  memory 2.0 GiB"
         "  time: load 5% forward 35% backward 60%  left 8 min"},
        {141,
         "step 50/1400  loss 2.1042  lr 0.001  grad 1.340  173.8 samples/s  gpu 97%  memory 2.0 GiB"
         "  backward 60%  left 8 min"},
        {100, "step 50/1400  loss 2.1042  173.8 samples/s  gpu 97%  memory 2.0 GiB  backward 60%  "
              "left 8 min"},
        {80, "step 50/1400  loss 2.1042  173.8 samples/s  backward 60%  left 8 min"},
        {20, "step 50/1400  loss 2.1042  173.8 samples/s  backward 60%  left 8 min"},
    };
    struct trainer_report report = {.event = TRAINER_PROGRESS,
                                    .step = 50,
                                    .steps = 1400,
                                    .loss = 2.1042,
                                    .lr = 0.001,
                                    .gradient_norm = 1.34,
                                    .samples_per_second = 173.8,
                                    .remaining_seconds = 480};
    report.metrics.device_used_bytes = UINT64_C(2) << 30;
    report.metrics.utilization_share = 0.97;
    report.time.ns[TIME_LOAD] = 50;
    report.time.ns[TIME_FORWARD] = 350;
    report.time.ns[TIME_BACKWARD] = 600;
    struct str line = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        step_line_format(&report, rows[i].columns, &line);
        assert_string_equal(str_text(&line), rows[i].line);
    }
    str_deinit(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_printed_with_units),
        cmocka_unit_test(the_same_result_is_one_line_of_json),
        cmocka_unit_test(a_bar_never_exceeds_the_terminal_width),
        cmocka_unit_test(a_bar_shows_amount_percentage_rate_and_time_left),
        cmocka_unit_test(the_rate_counts_from_the_start_of_the_bar),
        cmocka_unit_test(a_progress_line_omits_what_does_not_fit_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
