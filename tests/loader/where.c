/*
 * Conditions on index fields: random ones compared with Python, and errors with their columns.
 */
#include "loader/parts/where.h"

#include "base/philox.h"
#include "base/str.h"
#include "tests/support/test.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *const classes[] = {(char *)"cat", (char *)"dog", (char *)"a \\ b"};
enum { CLASSES_COUNT = 3 };

static uint32_t draws;
static uint32_t below(uint32_t limit)
{
    return philox(5, 0, draws++).word[0] % limit;
}

static void add_comparison(struct str *out)
{
    static const char *const operators[] = {"<", "<=", ">", ">=", "==", "!="};
    static const char *const names[] = {"a", "b", "label"};
    static const char *const numbers[] = {"0", "1", "-1", "2.5", "true", "false", "1e0", "+.5"};
    static const char *const spaces[] = {"", " ", "  "};
    if (below(6) == 0)
        str_add_format(out, "class%s(\"%s\")", spaces[below(2)], classes[below(CLASSES_COUNT)]);
    else
        str_add_format(out, "%s%s%s%s%s", names[below(3)], spaces[below(3)], operators[below(6)],
                       spaces[below(3)], numbers[below(8)]);
}

static void add_condition(struct str *out, int depth)
{
    uint32_t count = 1 + below(3);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            str_add_text(out, below(2) ? " && " : "||");
        if (depth == 0 || below(2)) {
            add_comparison(out);
            continue;
        }
        str_add_text(out, below(2) ? "!(" : "( ");
        add_condition(out, depth - 1);
        str_add_text(out, ")");
    }
}

static double value_of(const char *name, const double values[3])
{
    return strcmp(name, "a") == 0 ? values[0] : strcmp(name, "b") == 0 ? values[1] : values[2];
}

static void random_conditions_are_those_of_python(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static const double choices[] = {0, 1, -1, 2.5, 0.5, NAN, 2};
    const char *python = test_need_python("re");
    struct str lines = {0};
    char folder[TEST_PATH_BYTES_MAX], path[TEST_PATH_BYTES_MAX + 16];
    static char wanted[2 * COUNT + 1], found[2 * COUNT + 1];
    uint32_t matches = 0;
    for (int i = 0; i < COUNT; i++) {
        struct str text = {0};
        struct where *where;
        struct err err;
        double values[3], by_field[SHARD_NUMBERS_MAX];
        add_condition(&text, 3);
        for (int k = 0; k < 3; k++)
            values[k] = choices[below(7)];
        str_add_format(&lines, "%s\t%g\t%g\t%g\n", text.data, values[0], values[1], values[2]);
        assert_ok(where_parse(text.data, classes, CLASSES_COUNT, &where, &err), &err);
        for (uint32_t k = 0; k < where_fields(where); k++)
            by_field[k] = value_of(where_field(where, k), values);
        bool is_match = where_matches(where, by_field);
        matches += is_match;
        memcpy(found + 2 * (size_t)i, is_match ? "1\n" : "0\n", 2);
        where_free(where);
        str_deinit(&text);
    }
    assert_true(matches > COUNT / 5 && matches < COUNT * 4 / 5);
    test_make_folder(folder);
    snprintf(path, sizeof path, "%s/lines", folder);
    test_write_file(path, lines.data, lines.bytes);
    assert_int_equal(test_run_output(wanted, sizeof wanted, "'%s' '%s' <'%s'", python,
                                     TEST_SOURCE_DIR "/tests/loader/where.py", path),
                     0);
    assert_string_equal(found, wanted);
    str_deinit(&lines);
    test_remove_folder(folder);
}

static void comparisons_with_a_missing_number_are_false(void **state)
{
    (void)state;
    static const char *const operators[] = {"<", "<=", ">", ">=", "==", "!="};
    const double missing = NAN;
    for (size_t i = 0; i < 6; i++) {
        char text[32];
        struct where *where;
        struct err err;
        snprintf(text, sizeof text, "x %s 1", operators[i]);
        assert_ok(where_parse(text, NULL, 0, &where, &err), &err);
        assert_int_equal(where_fields(where), 1);
        assert_string_equal(where_field(where, 0), "x");
        assert_false(where_matches(where, &missing));
        where_free(where);
        snprintf(text, sizeof text, "!(x %s 1)", operators[i]);
        assert_ok(where_parse(text, NULL, 0, &where, &err), &err);
        assert_true(where_matches(where, &missing));
        where_free(where);
    }
}

static void errors_name_the_column(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int column;
        const char *expected;
    } cases[] = {
        {"", 1, "the name of an index field"},
        {"  ", 3, "the name of an index field"},
        {"score", 6, "one of <"},
        {"score = 1", 7, "one of <"},
        {"score >=", 9, "a number"},
        {"score >= x", 10, "a number"},
        {"score >= 0x10", 10, "a number"},
        {"score >= 1e999", 10, "a number"},
        {"score >= inf", 10, "a number"},
        {"score >= 1 & b < 2", 12, "&&, || or the end"},
        {"score >= 1 && ", 15, "the name of an index field"},
        {"score >= 1 b < 2", 12, "&&, || or the end"},
        {"0.5 < score", 1, "the name of an index field"},
        {"(score > 1", 11, "&&, || or )"},
        {"score > 1)", 10, "&&, || or the end"},
        {"!score > 1", 2, "( after !"},
        {"class == 1", 7, "(\"NAME\")"},
        {"class(cat)", 7, "a class name in double quotes"},
        {"class(\"cow\")", 7, "the name of a class of the dataset"},
        {"class(\"cat\"", 12, ")"},
        {"a < 1 < 2", 7, "&&, || or the end"},
        {"a < 1 and b < 1", 7, "&&, || or the end"},
        {"caf\xc3\xa9 > 1", 4, "one of <"},
    };
    struct where *where;
    struct err err;
    char wanted[64];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        err = (struct err){0};
        assert_int_equal(where_parse(cases[i].text, classes, CLASSES_COUNT, &where, &err), -EINVAL);
        snprintf(wanted, sizeof wanted, "the condition is wrong at column %d", cases[i].column);
        if (strcmp(err.what, wanted) != 0 || !strstr(err.expected, cases[i].expected))
            fail_msg("%s: %s, expected %s", cases[i].text, err.what, err.expected);
    }
    assert_int_equal(where_parse("class(\"cat\")", NULL, 0, &where, &err), -EINVAL);
    assert_non_null(strstr(err.expected, "the dataset has no class names"));
}

static void sizes_are_bounded(void **state)
{
    (void)state;
    struct str text = {0};
    struct where *where;
    struct err err;
    const double values[SHARD_NUMBERS_MAX] = {0};
    /* the deepest nesting, which fills the stack of an evaluation */
    for (int i = 0; i < WHERE_NESTING_MAX; i++)
        str_add_text(&text, "x > 1 || x < 1 && (");
    str_add_text(&text, "x == 1 || x == 0 && x == 0");
    str_add_fill(&text, ')', WHERE_NESTING_MAX);
    assert_ok(where_parse(text.data, NULL, 0, &where, &err), &err);
    assert_true(where_matches(where, values));
    where_free(where);
    str_clear(&text);
    str_add_fill(&text, '(', WHERE_NESTING_MAX + 1);
    assert_int_equal(where_parse(text.data, NULL, 0, &where, &err), -EINVAL);
    assert_string_equal(err.expected, "fewer nested parentheses");
    str_clear(&text);
    str_add_text(&text, "x > 1");
    str_add_fill(&text, ' ', WHERE_BYTES_MAX);
    assert_int_equal(where_parse(text.data, NULL, 0, &where, &err), -EINVAL);
    assert_string_equal(err.expected, "a shorter condition");
    str_clear(&text);
    for (int i = 0; i <= SHARD_NUMBERS_MAX; i++)
        str_add_format(&text, "%sx%d > 1", i ? " || " : "", i);
    assert_int_equal(where_parse(text.data, NULL, 0, &where, &err), -EINVAL);
    assert_string_equal(err.expected, "fewer different index fields");
    str_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_conditions_are_those_of_python),
        cmocka_unit_test(comparisons_with_a_missing_number_are_false),
        cmocka_unit_test(errors_name_the_column),
        cmocka_unit_test(sizes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
