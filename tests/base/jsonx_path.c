/*
 * jsonx_path — tests the selection of one node of a JSON document.
 */
#include "base/json/jsonx_path.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>

static void a_path_selects_one_node(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\":{\"b\":[10,{\"c d\":20,\"it's\":30}]},\"\xc3\xa9\":40,\"0\":50}";
    static const struct {
        const char *path;
        int64_t value; /* -1: none */
    } cases[] = {{"$.a.b[0]", 10},
                 {"$['a'][\"b\"][1]['c d']", 20},
                 {"$.a.b[1][\"it's\"]", 30},
                 {"$.\xc3\xa9", 40},
                 {"$.0", 50},
                 {"$[0]", -1},
                 {"$.a[0]", -1},
                 {"$.a.b.c", -1},
                 {"$.a.b[2]", -1},
                 {"$.b", -1},
                 {"$.a.b[999999999]", -1},
                 {"$.a.b[0].c", -1}};
    struct json_t *root;
    struct err err;
    assert_ok(jsonx_parse(text, strlen(text), "test", 0, &root, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = -1;
        assert_ok(jsonx_path_check(cases[i].path, &err), &err);
        struct json_t *node = jsonx_path_find(root, cases[i].path);
        assert_int_equal(node ? 0 : -1, cases[i].value < 0 ? -1 : 0);
        if (node)
            assert_int_equal(jsonx_i64(node, &value), 0);
        assert_int_equal(value, cases[i].value);
    }
    assert_ptr_equal(jsonx_path_find(root, "$"), root);
    jsonx_free(root);
}

static void other_paths_are_refused(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "",    "a",   "$a",   "$.",     "$..a",   "$.*",       "$[*]",  "$[-1]", "$[01]",
        "$[1", "$[]", "$['a", "$['a'x", "$[0:2]", "$.a[?@.b]", "$['']", "$.a b", "$[1234567890]"};
    char longer[400] = "$.";
    struct err err;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_int_equal(jsonx_path_check(paths[i], &err), -EINVAL);
        assert_non_null(strstr(err.found, paths[i]));
    }
    memset(longer + 2, 'n', 300);
    assert_int_equal(jsonx_path_check(longer, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_selects_one_node),
        cmocka_unit_test(other_paths_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
