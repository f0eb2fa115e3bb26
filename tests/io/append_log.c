/*
 * append_log — complete lines survive kills, and a log can be truncated to an earlier point.
 */
#include "io/local/append_log.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 16];

static int set_up(void **state)
{
    (void)state;
    test_make_folder(folder);
    snprintf(path, sizeof path, "%s/log", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_remove_folder(folder);
    return 0;
}

static struct append_log *open_log(uint64_t keep_bytes)
{
    struct err err = {0};
    struct append_log *log = NULL;
    assert_ok(append_log_open(path, keep_bytes, &log, &err), &err);
    return log;
}

static void add(struct append_log *log, const char *text)
{
    struct err err = {0};
    assert_ok(append_log_add(log, text, strlen(text), &err), &err);
}

static void assert_content(const char *expected)
{
    size_t bytes;
    char *data = (char *)test_read_file(path, &bytes);
    assert_string_equal(data, expected);
    free(data);
}

static void lines_are_visible_immediately_and_after_reopening(void **state)
{
    (void)state;
    struct append_log *log = open_log(UINT64_MAX);
    add(log, "one\n");
    add(log, "\n");
    assert_content("one\n\n");
    append_log_close(log);
    log = open_log(UINT64_MAX);
    add(log, "two\n");
    append_log_close(log);
    assert_content("one\n\ntwo\n");
    append_log_close(NULL);
}

static void a_log_is_truncated_to_the_kept_lines(void **state)
{
    (void)state;
    test_write_file(path, "one\ntwo\nthree\n", 14);
    struct append_log *log = open_log(8);
    assert_content("one\ntwo\n");
    add(log, "other\n");
    append_log_close(log);
    assert_content("one\ntwo\nother\n");
    append_log_close(open_log(0));
    assert_content("");
}

static void a_line_torn_by_a_kill_is_removed(void **state)
{
    (void)state;
    static const struct {
        const char *before;
        uint64_t keep;
        const char *after;
    } cases[] = {
        {"one\ntw", UINT64_MAX, "one\n"}, {"tw", UINT64_MAX, ""}, {"one\ntwo\n", 6, "one\n"},
        {"one\ntwo\n", 99, "one\ntwo\n"}, {"\n", 1, "\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_write_file(path, cases[i].before, strlen(cases[i].before));
        append_log_close(open_log(cases[i].keep));
        assert_content(cases[i].after);
    }
}

static void a_torn_line_of_any_length_is_found(void **state)
{
    (void)state;
    for (size_t torn = 4090; torn <= 20000; torn = torn < 4100 ? torn + 1 : torn * 2 - 3) {
        char *text = malloc(torn + 5);
        assert_non_null(text);
        memcpy(text, "one\n", 4);
        memset(text + 4, 'x', torn);
        test_write_file(path, text, torn + 4);
        append_log_close(open_log(UINT64_MAX));
        assert_content("one\n");
        free(text);
    }
}

static void an_unopenable_log_is_named(void **state)
{
    (void)state;
    struct err err = {0};
    struct append_log *log = NULL;
    assert_true(append_log_open(folder, UINT64_MAX, &log, &err) < 0);
    assert_string_equal(err.path, folder);
    assert_null(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_are_visible_immediately_and_after_reopening, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_log_is_truncated_to_the_kept_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_line_torn_by_a_kill_is_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_torn_line_of_any_length_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unopenable_log_is_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
