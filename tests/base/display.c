/*
 * display — how untrusted text is displayed on a terminal, and its width.
 */
#include "base/display.h"

#include "tests/support/test.h"

#include <string.h>

static void assert_displayed(const char *text, const char *expected)
{
    struct str out = {0};
    display_add(&out, text);
    assert_int_equal(str_status(&out), 0);
    assert_string_equal(str_text(&out), expected);
    str_deinit(&out);
}

static void terminal_control_characters_are_escaped(void **state)
{
    (void)state;
    assert_displayed("", "");
    assert_displayed("plain text, gr\xc3\xbc\xc3\x9f, \xe6\xbc\xa2",
                     "plain text, gr\xc3\xbc\xc3\x9f, \xe6\xbc\xa2");
    assert_displayed("\x1b]0;title\x07 \x7f\r\n\t", "\\x1b]0;title\\x07 \\x7f\\x0d\\x0a\\x09");
    assert_displayed("C1: \xc2\x9b\x32J, no UTF-8: \xff\xc3",
                     "C1: \\xc2\\x9b2J, no UTF-8: \\xff\\xc3");
    assert_displayed("\xe2\x80\xaegpj.exe", "\\xe2\\x80\\xaegpj.exe");         /* U+202E */
    assert_displayed("a\xe2\x81\xa6z\xd8\x9c", "a\\xe2\\x81\\xa6z\\xd8\\x9c"); /* U+2066, U+061C */
    assert_displayed("\xe2\x80\xa2 \xe2\x81\xb0",
                     "\xe2\x80\xa2 \xe2\x81\xb0"); /* neighbors: U+2022, U+2070 */
}

static void text_width_equals_terminal_columns(void **state)
{
    (void)state;
    assert_int_equal(display_columns(""), 0);
    assert_int_equal(display_columns("hat"), 3);
    assert_int_equal(display_columns("gr\xc3\xbc\xc3\x9f"), 4);
    assert_int_equal(display_columns("\xe6\xbc\xa2\xe5\xad\x97"), 4); /* two wide characters */
    assert_int_equal(display_columns("e\xcc\x81"), 1);                /* a combining accent */
    assert_int_equal(display_columns("\\x1b"), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terminal_control_characters_are_escaped),
        cmocka_unit_test(text_width_equals_terminal_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
