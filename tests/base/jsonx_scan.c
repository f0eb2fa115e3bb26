/*
 * jsonx_scan — tests that spans match the values found by a parser, and that nothing outside the
 * text is read, regardless of its content.
 */
#include "base/json/jsonx_scan.h"

#include "base/json/jsonx.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static const char document[] =
    " { \"a\" : 1,\"deep\":{\"list\":[9]}, \"te\\\"xt,]\":\"x\\\\\",\"list\": [ "
    "{\"k\":\"]}\\\"\"} ,[1,[2]],\"s\" , -1.5e3,true,{} ],\n"
    "\"empty\":[ ],\"last\":null}";

/* A copy of the exact size, so that a sanitizer detects overreads. */
static char *make_exact_copy(const char *text, size_t bytes)
{
    char *copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, text, bytes);
    return copy;
}

static void assert_value(const char *key, const char *value)
{
    struct jsonx_span span;
    assert_true(jsonx_scan_member(document, strlen(document), key, &span));
    assert_int_equal(span.end - span.begin, strlen(value));
    assert_memory_equal(document + span.begin, value, strlen(value));
}

static void members_are_found_at_their_offsets(void **state)
{
    (void)state;
    struct jsonx_span span;
    assert_value("a", "1");
    assert_value("last", "null");
    assert_value("empty", "[ ]");
    assert_value("te\\\"xt,]", "\"x\\\\\"");
    assert_true(jsonx_scan_member(document, strlen(document), "list", &span));
    assert_int_equal(document[span.begin + 2], '{'); /* not the list of "deep" */
    assert_false(jsonx_scan_member(document, strlen(document), "k", &span));
    assert_false(jsonx_scan_member("[1]", 3, "k", &span));
    assert_false(jsonx_scan_member("", 0, "k", &span));
}

static void elements_equal_those_of_a_full_parser(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "{\"k\":\"]}\\\"\"}", "[1,[2]]", "\"s\"", "-1.5e3", "true", "{}"};
    struct jsonx_span rest, element;
    struct json_t *root;
    struct err err;
    assert_ok(jsonx_parse(document, strlen(document), "document", 0, &root, &err), &err);
    assert_int_equal(jsonx_count(jsonx_get(root, "list")), 6);
    jsonx_free(root);
    assert_true(jsonx_scan_member(document, strlen(document), "list", &rest));
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(jsonx_scan_element(document, &rest, &element), JSON_SCAN_ELEMENT);
        assert_int_equal(element.end - element.begin, strlen(expected[i]));
        assert_memory_equal(document + element.begin, expected[i], strlen(expected[i]));
    }
    assert_int_equal(jsonx_scan_element(document, &rest, &element), JSON_SCAN_END);
    assert_true(jsonx_scan_member(document, strlen(document), "empty", &rest));
    assert_int_equal(jsonx_scan_element(document, &rest, &element), JSON_SCAN_END);
}

static void lists_with_missing_commas_are_refused(void **state)
{
    (void)state;
    static const char *const broken[] = {"[1 2]", "[1,]", "[,1]", "[1,,2]", "[",   "[1",
                                         "1",     "{}",   "[1}",  "[\"a]",  "[[1]"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        size_t bytes = strlen(broken[i]);
        char *text = make_exact_copy(broken[i], bytes);
        struct jsonx_span rest = {0, bytes}, element;
        enum jsonx_scan found;
        while ((found = jsonx_scan_element(text, &rest, &element)) == JSON_SCAN_ELEMENT)
            assert_true(element.begin < element.end && element.end <= bytes);
        if (found != JSON_SCAN_BROKEN)
            fail_msg("%s is accepted as a list", broken[i]);
        free(text);
    }
}

/* For every prefix, with each byte replaced by each special character: spans stay within the text,
 * and scanning ends. */
static void no_text_causes_reads_outside_it(void **state)
{
    (void)state;
    static const char bytes[] = "{}[],:\"\\ x\0";
    size_t length = strlen(document);
    for (size_t cut = 0; cut <= length; cut++) {
        for (size_t b = 0; b < sizeof bytes; b++) {
            char *text = make_exact_copy(document, cut);
            struct jsonx_span list, element;
            if (cut > 0)
                text[cut * 7 % cut] = bytes[b];
            if (cut > 3)
                text[(cut * 31 + b) % cut] = bytes[b];
            if (jsonx_scan_member(text, cut, "list", &list)) {
                assert_true(list.begin < list.end && list.end <= cut);
                while (jsonx_scan_element(text, &list, &element) == JSON_SCAN_ELEMENT)
                    assert_true(element.begin < element.end && element.end <= cut);
            }
            free(text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_found_at_their_offsets),
        cmocka_unit_test(elements_equal_those_of_a_full_parser),
        cmocka_unit_test(lists_with_missing_commas_are_refused),
        cmocka_unit_test(no_text_causes_reads_outside_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
