/*
 * The expansion of shard name patterns, compared with the package that webdataset uses.
 */
#include "shards/dataset/url_list.h"

#include "base/str.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Stores the expansion in text, one URL per line. */
static void expand(const char *pattern, char *text, size_t bytes)
{
    struct url_list list = {0};
    struct err err;
    size_t used = 0;
    text[0] = '\0';
    assert_ok(url_list_expand(&list, pattern, &err), &err);
    for (size_t i = 0; i < list.count; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s\n", list.urls[i]);
    url_list_deinit(&list);
}

static void braces_expand_as_in_webdataset(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "a-{000..012}.tar",
        "{0..3}",
        "{3..0}",
        "{01..3}",
        "{a..d}.tar",
        "{a,b,c}",
        "x{,y}z",
        "{a,b}{1..2}",
        "{a,{b,c}d}e",
        "{1..9..3}",
        "plain.tar",
        "{{1..2},x}",
        "{abc}",
        "{a",
        "{-2..2}",
        "{000098..000101}",
        "{a,b}/{x..z}-{08..11}.tar",
    };
    const char *python = test_need_python("braceexpand");
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        char ours[4096], theirs[4096];
        expand(patterns[i], ours, sizeof ours);
        assert_int_equal(
            test_run_output(
                theirs, sizeof theirs,
                "'%s' -c 'import sys,braceexpand;print(*braceexpand.braceexpand(sys.argv[1]),"
                "sep=\"\\n\")' '%s' 2>/dev/null || printf '%%s\\n' '%s'",
                python, patterns[i], patterns[i]),
            0);
        assert_string_equal(ours, theirs);
    }
}

static void alternatives_and_variables_are_expanded_before_braces(void **state)
{
    (void)state;
    char text[512];
    setenv("WDS_WHERE", "/data/{a,b}", 1);
    expand("${WHERE}/x.tar::y.tar::$z{1..2}", text, sizeof text);
    assert_string_equal(text, "/data/a/x.tar\n/data/b/x.tar\ny.tar\n$z1\n$z2\n");
    unsetenv("WDS_WHERE");
    struct url_list list = {0};
    struct err err;
    assert_int_equal(url_list_expand(&list, "${WHERE}/x.tar", &err), -EINVAL);
    assert_non_null(strstr(err.expected, "WDS_WHERE"));
    assert_int_equal(url_list_expand(&list, "a.tar::", &err), -EINVAL);
    url_list_deinit(&list);
}

static void plain_paths_are_not_taken_for_patterns(void **state)
{
    (void)state;
    assert_true(url_list_is_pattern("a{0..1}"));
    assert_true(url_list_is_pattern("a::b"));
    assert_true(url_list_is_pattern("${A}/b"));
    assert_false(url_list_is_pattern("a.tar"));
    assert_false(url_list_is_pattern("a{b}c"));
    assert_false(url_list_is_pattern("http://host:80/a.tar"));
    assert_false(url_list_is_pattern("$A {"));
}

static void too_many_expansions_are_refused(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "{0..99999999}", "{0..9999}{0..9999}", "{0..999999999999999999}",
        "{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        struct url_list list = {0};
        struct err err;
        assert_int_equal(url_list_expand(&list, patterns[i], &err), -EINVAL);
        assert_string_equal(err.path, patterns[i]);
        url_list_deinit(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(braces_expand_as_in_webdataset),
        cmocka_unit_test(alternatives_and_variables_are_expanded_before_braces),
        cmocka_unit_test(plain_paths_are_not_taken_for_patterns),
        cmocka_unit_test(too_many_expansions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
