/*
 * options — tests parsing of a subcommand's options from its option table.
 */
#include "cli/verbs/options.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>

struct values {
    bool flag;
    const char *text;
    uint64_t count, size, duration;
    uint32_t choice;
    struct option_list list, repeat;
};

static const char *const choices[] = {"red", "green", NULL};

#define AT(member) offsetof(struct values, member)
static const struct option option_rows[] = {
    {"flag", 'f', OPTION_FLAG, AT(flag)},
    {"text", 't', OPTION_TEXT, AT(text), "TEXT", "none"},
    {"count", 'j', OPTION_COUNT, AT(count), "N", "7", .min = 1, .max = 64},
    {"size", 0, OPTION_SIZE, AT(size), "SIZE", "1MiB"},
    {"pause", 0, OPTION_DURATION, AT(duration), "TIME", "90s"},
    {"color", 0, OPTION_CHOICE, AT(choice), NULL, "green", .choices = choices},
    {"list", 0, OPTION_LIST, AT(list), "A,B"},
    {"set", 0, OPTION_REPEAT, AT(repeat), "K=V"},
    {"needed", 0, OPTION_TEXT, AT(text), "X", .required = true},
};
static const struct option_table table = {option_rows, sizeof option_rows / sizeof option_rows[0]};

struct parse_result {
    struct values values;
    struct option_list positional;
    struct err err;
    int status;
};

static struct parse_result parse(int argc, const char *const *argv)
{
    struct parse_result p = {0};
    p.status =
        options_parse(&table, argc, (char **)(uintptr_t)argv, &p.values, &p.positional, &p.err);
    return p;
}

static void parse_result_deinit(struct parse_result *p)
{
    options_deinit(&table, &p->values, &p->positional);
}

#define PARSE(...)                                                                                 \
    parse((int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)),                           \
          (const char *[]){__VA_ARGS__})

static void defaults_are_parsed_like_values(void **state)
{
    (void)state;
    struct parse_result p = parse(0, NULL);
    assert_int_equal(p.status, 0);
    assert_false(p.values.flag);
    assert_string_equal(p.values.text, "none");
    assert_int_equal(p.values.count, 7);
    assert_int_equal(p.values.size, 1 << 20);
    assert_int_equal(p.values.duration, 90000000000);
    assert_int_equal(p.values.choice, 1);
    assert_int_equal(p.values.list.count, 0);
    parse_result_deinit(&p);
}

static void values_are_accepted_in_all_four_spellings(void **state)
{
    (void)state;
    struct parse_result p = PARSE("a", "--count", "3", "--size=3GB", "-j4", "-t", "x y", "b",
                                  "--color=red", "-f", "--", "--text");
    assert_int_equal(p.status, 0);
    assert_int_equal(p.values.count, 4);
    assert_int_equal(p.values.size, 3000000000);
    assert_string_equal(p.values.text, "x y");
    assert_int_equal(p.values.choice, 0);
    assert_true(p.values.flag);
    assert_int_equal(p.positional.count, 3);
    assert_string_equal(p.positional.items[0], "a");
    assert_string_equal(p.positional.items[1], "b");
    assert_string_equal(p.positional.items[2], "--text");
    parse_result_deinit(&p);
}

static void lists_split_at_commas_but_repeatable_options_do_not(void **state)
{
    (void)state;
    struct parse_result p = PARSE("--list", "a,b=1,", "--set", "x=[1, 2]", "--set=y=2");
    assert_int_equal(p.status, 0);
    assert_int_equal(p.values.list.count, 3);
    assert_string_equal(p.values.list.items[1], "b=1");
    assert_string_equal(p.values.list.items[2], "");
    assert_int_equal(p.values.repeat.count, 2);
    assert_string_equal(p.values.repeat.items[0], "x=[1, 2]");
    assert_string_equal(p.values.repeat.items[1], "y=2");
    parse_result_deinit(&p);
}

static void a_single_dash_is_an_argument(void **state)
{
    (void)state;
    struct parse_result p = PARSE("-", "");
    assert_int_equal(p.status, 0);
    assert_int_equal(p.positional.count, 2);
    parse_result_deinit(&p);
}

static void wrong_values_are_refused_naming_what_was_expected(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"--count=0", "from 1 to 64"},       {"--count=65", "from 1 to 64"},
        {"--count=-1", "from 1 to 64"},      {"--count=3x", "from 1 to 64"},
        {"--count=", "from 1 to 64"},        {"--size=big", "a size"},
        {"--size=99999999999999GB", "size"}, {"--pause=soon", "a duration"},
        {"--color=blue", "red|green"},       {"--flag=yes", "no value"},
        {"--count=18446744073709551616"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct parse_result p = PARSE(wrong[i][0]);
        assert_int_equal(p.status, -EINVAL);
        if (wrong[i][1])
            assert_non_null(strstr(p.err.expected, wrong[i][1]));
        parse_result_deinit(&p);
    }
}

static void a_missing_value_is_reported(void **state)
{
    (void)state;
    struct parse_result p = PARSE("--count");
    assert_int_equal(p.status, -EINVAL);
    assert_string_equal(p.err.what, "--count has no value");
    parse_result_deinit(&p);
}

static void an_unknown_option_suggests_the_nearest(void **state)
{
    (void)state;
    struct parse_result p = PARSE("--colour=red");
    assert_int_equal(p.status, -EINVAL);
    assert_string_equal(p.err.what, "unknown option --colour");
    assert_string_equal(p.err.advice, "did you mean --color?");
    parse_result_deinit(&p);
    p = PARSE("-x");
    assert_int_equal(p.status, -EINVAL);
    parse_result_deinit(&p);
    p = PARSE("-ff");
    assert_int_equal(p.status, -EINVAL);
    parse_result_deinit(&p);
}

static void a_required_option_is_reported_only_if_absent(void **state)
{
    (void)state;
    struct err err;
    const char *missing_args[] = {"--text", "--needed"}, *present_args[] = {"a", "--needed=x"},
               *trailing_args[] = {"--", "--needed=x"};
    assert_int_equal(options_check_required(&table, 2, (char **)(uintptr_t)missing_args, &err),
                     -EINVAL);
    assert_int_equal(options_check_required(&table, 2, (char **)(uintptr_t)trailing_args, &err),
                     -EINVAL);
    assert_int_equal(options_check_required(&table, 2, (char **)(uintptr_t)present_args, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_parsed_like_values),
        cmocka_unit_test(values_are_accepted_in_all_four_spellings),
        cmocka_unit_test(lists_split_at_commas_but_repeatable_options_do_not),
        cmocka_unit_test(a_single_dash_is_an_argument),
        cmocka_unit_test(wrong_values_are_refused_naming_what_was_expected),
        cmocka_unit_test(a_missing_value_is_reported),
        cmocka_unit_test(an_unknown_option_suggests_the_nearest),
        cmocka_unit_test(a_required_option_is_reported_only_if_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
