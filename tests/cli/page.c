/*
 * page — the escaping, numbers and charts of a page of `millrace inspect --html`.
 */
#include "cli/report/page.h"
#include "cli/report/page_chart.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

static void assert_escaped(const char *text, const char *expected)
{
    struct str out = {0};
    page_text(&out, text);
    assert_string_equal(str_text(&out), expected);
    str_deinit(&out);
}

static void text_from_files_is_escaped(void **state)
{
    (void)state;
    assert_escaped("<a href=\"x\" b='y'>&amp;",
                   "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;");
    assert_escaped("dress\tгород\n東京 \xf0\x9f\x91\x97", "dress\tгород\n東京 \xf0\x9f\x91\x97");
}

#define REPLACEMENT "\xef\xbf\xbd"

static void invalid_utf8_becomes_a_replacement_character(void **state)
{
    (void)state;
    assert_escaped("a\x01\x1b\x7f\r", "a" REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT);
    assert_escaped("\xff\xc3", REPLACEMENT REPLACEMENT); /* invalid byte, truncated character */
    assert_escaped("\xc0\xbc", REPLACEMENT REPLACEMENT); /* "<" in two bytes */
    assert_escaped("\xe0\x80\xbc", REPLACEMENT REPLACEMENT REPLACEMENT); /* in three bytes */
    assert_escaped("\xed\xa0\x80", REPLACEMENT REPLACEMENT REPLACEMENT); /* a surrogate */
    assert_escaped("\xef\xbf\xbf", REPLACEMENT REPLACEMENT REPLACEMENT); /* U+FFFF */
    assert_escaped("\xc2\x85", REPLACEMENT REPLACEMENT); /* a C1 control character */
    assert_escaped("\xf4\x90\x80\x80",
                   REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT); /* beyond U+10FFFF */
    assert_escaped("\xe6\x9d<",
                   REPLACEMENT REPLACEMENT "&lt;"); /* a truncated character swallows nothing */
}

static void pictures_are_base64(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "data:a/b;base64,", "data:a/b;base64,TQ==", "data:a/b;base64,TWE=", "data:a/b;base64,TWFu",
        "data:a/b;base64,TWFu/w=="};
    for (size_t bytes = 0; bytes <= 4; bytes++) {
        struct str out = {0};
        page_data_uri(&out, "a/b", "Man\xff", bytes);
        assert_string_equal(str_text(&out), expected[bytes]);
        str_deinit(&out);
    }
}

static void axis_ticks_are_multiples_of_1_2_or_5(void **state)
{
    (void)state;
    char text[CHART_TICK_BYTES];
    assert_float_equal(chart_tick_spacing(100, 5), 20, 1e-9);
    assert_float_equal(chart_tick_spacing(0.7, 6), 0.1, 1e-9);
    assert_float_equal(chart_tick_spacing(2500, 5), 500, 1e-9);
    assert_string_equal(chart_format_number(0.0003, text), "0.0003");
    assert_string_equal(chart_format_number(25000, text), "25k");
    assert_string_equal(chart_format_number(3e6, text), "3M");
    assert_string_equal(chart_format_number(1.5, text), "1.5");
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        count++;
    return count;
}

/* Values at the limits of a double still give numbers that are valid in SVG. */
static void extreme_values_give_a_valid_chart(void **state)
{
    (void)state;
    static const double values[][3] = {
        {0, 0, 0},        {1, 1, 1},     {-5, -5, -5},     {1e-300, 1e-300, 1e-300}, {NAN, 2, NAN},
        {INFINITY, 2, 3}, {1e300, 0, 1}, {-1e30, 1e30, 0}, {1e-9, 1, 1.0000001}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct chart_point points[3] = {{1, values[i][0]}, {2, values[i][1]}, {3, values[i][2]}};
        struct chart chart = {
            .title = "t", .x_name = "step", .unit = "", .series = {{"s", points, 3}}};
        struct str out = {0};
        chart_draw_lines(&out, &chart);
        assert_int_equal(count_of(str_text(&out), "<svg"), 1);
        assert_int_equal(count_of(str_text(&out), "nan"), 0);
        assert_int_equal(count_of(str_text(&out), "inf"), 0);
        str_deinit(&out);
    }
}

static void a_chart_without_values_is_omitted(void **state)
{
    (void)state;
    struct chart_point point = {1, NAN};
    struct chart chart = {.title = "t", .x_name = "step", .unit = "", .series = {{"s", &point, 1}}};
    struct str out = {0};
    chart_draw_lines(&out, &chart);
    assert_int_equal(out.bytes, 0);
    str_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_from_files_is_escaped),
        cmocka_unit_test(invalid_utf8_becomes_a_replacement_character),
        cmocka_unit_test(pictures_are_base64),
        cmocka_unit_test(axis_ticks_are_multiples_of_1_2_or_5),
        cmocka_unit_test(extreme_values_give_a_valid_chart),
        cmocka_unit_test(a_chart_without_values_is_omitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
