/*
 * jsonx_plain: the quick check accepts common objects, and nothing that the parser refuses. A
 * member is found in any JSON.
 */
#include "base/json/jsonx_plain.h"
#include "base/json/jsonx.h"
#include "base/json/jsonx_string.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void common_objects_are_accepted(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}", " { \"a\" : [ ] , \"b\":[1,-2.5e-3,0,true,false,null,{\"c\":{}}] }\r\n",
        "{\"t\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\xc3\xa9\"}",
        "{\"n\":123456789012345678,\"x\":0.12345678901234567890,\"y\":1E+10}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!jsonx_is_plain_object(texts[i], strlen(texts[i])))
            fail_msg("%s", texts[i]);
}

static void what_the_parser_must_decide_is_not_accepted(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "[]",
                                        "1",
                                        "{",
                                        "{}x",
                                        "{\"a\"}",
                                        "{\"a\":}",
                                        "{\"a\":1,}",
                                        "{,}",
                                        "{\"a\":[1,]}",
                                        "{\"a\":[,1]}",
                                        "{\"a\":[1 2]}",
                                        "{\"a\":1 \"b\":2}",
                                        "{\"a\":1,\"a\":2}",
                                        "{\"b\":{\"a\":1,\"a\":2}}",
                                        "{\"\\u0061\":1}",
                                        "{\"a\":01}",
                                        "{\"a\":1.}",
                                        "{\"a\":.5}",
                                        "{\"a\":-}",
                                        "{\"a\":1e}",
                                        "{\"a\":1e999}",
                                        "{\"a\":12345678901234567890}",
                                        "{\"a\":+1}",
                                        "{\"a\":NaN}",
                                        "{\"a\":tru}",
                                        "{\"a\":\"\\x\"}",
                                        "{\"a\":\"\\u12\"}",
                                        "{\"a\":\"\\u0000\"}",
                                        "{\"a\":\"\\ud800\"}",
                                        "{\"a\":\"\\udc00\\ud800\"}",
                                        "{\"a\":\"\n\"}",
                                        "{\"a\":\"\xff\"}",
                                        "{\"a\":\"\xc3\"}",
                                        "{\"a\":\"b}",
                                        "{\"a\":\"\\"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (jsonx_is_plain_object(texts[i], strlen(texts[i])))
            fail_msg("%s", texts[i]);
    char nested[200] = "{\"a\":";
    memset(nested + 5, '[', 20);
    memset(nested + 25, ']', 20);
    strcpy(nested + 45, "}");
    assert_false(jsonx_is_plain_object(nested, strlen(nested)));
}

/* Changes single bytes of a valid text. */
static void the_parser_accepts_what_is_accepted(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1,-2.5e3,\"\\ud83d\\ude00\xc3\xa9\"],\"b\":{\"c\":null}}";
    static const char changes[] = "\"\\{}[]:,-+.0e9nudD \n\x80\xc3\xff"
                                  "b";
    unsigned accepted = 0;
    for (size_t at = 0; at < sizeof text - 1; at++)
        for (size_t change = 0; change < sizeof changes; change++) {
            char *changed = malloc(sizeof text - 1); /* without the NUL: a read behind it fails */
            struct json_t *root = NULL;
            struct err err = {0};
            assert_non_null(changed);
            memcpy(changed, text, sizeof text - 1);
            changed[at] = changes[change];
            if (jsonx_is_plain_object(changed, sizeof text - 1)) {
                assert_ok(jsonx_parse(changed, sizeof text - 1, "", 0, &root, &err), &err);
                accepted++;
            }
            jsonx_free(root);
            free(changed);
        }
    assert_true(accepted > 50);
}

static void a_member_is_found_in_any_json(void **state)
{
    (void)state;
    static const struct {
        const char *text, *value;
    } cases[] = {
        {"{\"a\":{\"t\":1},\"t\": \"x\" ,\"n\":[{\"t\":2}]}", "\"x\""},
        {"{\"\\u0074\":\"escaped key\"}", "\"escaped key\""},
        {"{\"a\":1,\"a\":2,\"n\":123456789012345678901234567890,\"t\":\"\\u0000\"}", "\"\\u0000\""},
        {" {\"x\":1e999,\"t\":null}\r\n", "null"},
        {"{\"t\":[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]}",
         "[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct jsonx_span value;
        struct err err = {0};
        assert_ok(jsonx_find_member(cases[i].text, strlen(cases[i].text), "t", &value, &err), &err);
        assert_int_equal(value.end - value.begin, strlen(cases[i].value));
        assert_memory_equal(cases[i].text + value.begin, cases[i].value, value.end - value.begin);
    }
    struct jsonx_span value;
    assert_int_equal(jsonx_find_member("{\"a\":{\"t\":1}}", 13, "t", &value, NULL), -ENOENT);
}

static void invalid_json_is_refused_with_its_offset(void **state)
{
    (void)state;
    static const struct {
        const char *text, *what;
        int64_t offset;
    } cases[] = {
        {"", "the text is not a JSON object", 0},
        {"[1]", "the text is not a JSON object", 0},
        {"{\"t\":\"abc", "a string has no closing quote", 5},
        {"{\"t\":\"a\\ud800\"}", "an escape sequence is invalid", 7},
        {"{\"t\":\"a\\udc00\\ud800\"}", "an escape sequence is invalid", 7},
        {"{\"t\":\"a\\u12g4\"}", "an escape sequence is invalid", 7},
        {"{\"t\":\"a\tb\"}", "a string has a control character that is not escaped", 7},
        {"{\"t\":\"a\xff\"}", "the text is not valid UTF-8", 7},
        {"{\"t\":1,\"\\u0074\":2}", "a key is repeated", 7},
        {"{\"t\":NaN}", "a value is invalid", 5},
        {"{\"t\":01}", "a value is invalid", 5},
        {"{\"t\":}", "a value is invalid", 5},
        {"{\"t\":", "a value is missing", 5},
        {"{\"t\" 1}", "a key is not followed by a colon", 5},
        {"{\"t\":1", "an object lacks a comma or its end", 6},
        {"{\"t\":1,}", "a key in quotes is missing", 7},
        {"{\"t\":[1 2]}", "an array lacks a comma or its end", 8},
        {"{\"t\":1} x", "text follows the object", 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct jsonx_span value;
        struct err err = {0};
        assert_int_equal(jsonx_find_member(cases[i].text, strlen(cases[i].text), "t", &value, &err),
                         -EBADMSG);
        assert_string_equal(err.what, cases[i].what);
        assert_int_equal(err.offset, cases[i].offset);
    }
    char nested[200] = "{\"t\":";
    memset(nested + 5, '[', 70);
    memset(nested + 75, ']', 70);
    strcpy(nested + 145, "}");
    struct jsonx_span value;
    assert_int_equal(jsonx_find_member(nested, strlen(nested), "t", &value, NULL), -EBADMSG);
}

static void escapes_become_utf8(void **state)
{
    (void)state;
    static const char string[] =
        "\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u00e9\\u20ac\\ud83d\\ude00z\xc3\xa9\"",
                      expected[] =
                          "a\"\\/\b\f\n\r\t\0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xc3\xa9";
    struct str out = {0};
    jsonx_unescape(string, sizeof string - 1, &out);
    assert_int_equal(out.bytes, sizeof expected - 1);
    assert_memory_equal(out.data, expected, out.bytes);
    str_deinit(&out);
    jsonx_unescape("\"\"", 2, &out);
    assert_string_equal(out.data, "");
    str_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(common_objects_are_accepted),
        cmocka_unit_test(what_the_parser_must_decide_is_not_accepted),
        cmocka_unit_test(the_parser_accepts_what_is_accepted),
        cmocka_unit_test(a_member_is_found_in_any_json),
        cmocka_unit_test(invalid_json_is_refused_with_its_offset),
        cmocka_unit_test(escapes_become_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
