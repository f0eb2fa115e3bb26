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

static void a_wildcard_selects_in_each_element(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[{\"b\":[7]},{\"b\":[8,9]},{}],\"c\":[1,2]}";
    struct err err;
    struct json_t *root;
    int64_t value = 0;
    assert_ok(jsonx_parse(text, sizeof text - 1, "t", 0, &root, &err), &err);
    assert_ok(jsonx_path_check_list("$.a[*].b[0]", &err), &err);
    struct jsonx_list list = jsonx_path_find_list(root, "$.a[*].b[0]");
    assert_int_equal(jsonx_count(list.array), 3);
    assert_int_equal(jsonx_i64(jsonx_list_at(&list, 1), &value), 0);
    assert_int_equal(value, 8);
    assert_null(jsonx_list_at(&list, 2));
    list = jsonx_path_find_list(root, "$.c[*]");
    assert_int_equal(jsonx_i64(jsonx_list_at(&list, 1), &value), 0);
    assert_int_equal(value, 2);
    list = jsonx_path_find_list(root, "$.c");
    assert_null(list.rest);
    assert_int_equal(jsonx_i64(jsonx_list_at(&list, 0), &value), 0);
    assert_int_equal(value, 1);
    assert_null(jsonx_path_find_list(root, "$.none[*].b").array);
    assert_int_equal(jsonx_path_check_list("$.a[*].b[*]", &err), -EINVAL);
    assert_int_equal(jsonx_path_check_list("[*]", &err), -EINVAL);
    jsonx_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_selects_one_node),
        cmocka_unit_test(other_paths_are_refused),
        cmocka_unit_test(a_wildcard_selects_in_each_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
