/*
 * jsonx_plain: the quick check accepts common objects, and nothing that the parser refuses.
 */
#include "base/json/jsonx_plain.h"
#include "base/json/jsonx.h"
#include "tests/support/test.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(common_objects_are_accepted),
        cmocka_unit_test(what_the_parser_must_decide_is_not_accepted),
        cmocka_unit_test(the_parser_accepts_what_is_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
