/*
 * jsonx — strict parsing that reports the offsets of errors; written documents are read back by
 * Python.
 */
#include "base/json/jsonx_format.h"
#include "base/philox.h"
#include "tests/support/test.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct json_t *parse(const char *text)
{
    struct err err = {0};
    struct json_t *root = NULL;
    assert_ok(jsonx_parse(text, strlen(text), "test.json", 0, &root, &err), &err);
    return root;
}

static void malformed_documents_are_refused_with_an_offset(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes; /* 0: strlen */
        /* Range of the reported offset: from the error to just after its token. */
        int64_t least, most;
    } cases[] = {
        {"", 0, 0, 1},
        {"17", 0, 0, 3},
        {"\"text\"", 0, 0, 7},
        {"{\"a\":1,}", 0, 7, 8},
        {"{\"a\":1} x", 0, 8, 9},
        {"[1,2", 0, 4, 5},
        {"{\"a\":1,\"b\":2,\"a\":3}", 0, 13, 17},
        {"{\"a\":nul}", 0, 5, 9},
        {"{\"a\":01}", 0, 5, 8},
        {"{\"a\":9223372036854775808}", 0, 5, 25},
        {"{\"a\":1e999}", 0, 5, 11},
        {"[\"\xff\"]", 0, 1, 3},
        {"[\"\xc0\x80\"]", 0, 1, 4},
        {"[\"\xed\xa0\x80\"]", 0, 1, 5},
        {"[\"\\ud800\"]", 0, 1, 10},
        {"[\"a\\u0000b\"]", 0, 1, 12},
        {"[\"a\0b\"]", 7, 1, 7},
        {"['a']", 0, 1, 2},
        {"[1,/* no */2]", 0, 3, 5},
        {"[NaN]", 0, 1, 5},
        {"[\"a\nb\"]", 0, 1, 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = {0};
        struct json_t *root = NULL;
        size_t bytes = cases[i].bytes ? cases[i].bytes : strlen(cases[i].text);
        if (jsonx_parse(cases[i].text, bytes, "test.json", 1000, &root, &err) != -EBADMSG)
            fail_msg("accepted, or the wrong error: %s", cases[i].text);
        assert_null(root);
        assert_string_equal(err.path, "test.json");
        if (err.offset < 1000 + cases[i].least || err.offset > 1000 + cases[i].most)
            fail_msg("offset %lld of %s", (long long)err.offset, cases[i].text);
    }
}

static void nesting_depth_is_limited(void **state)
{
    (void)state;
    char text[400];
    for (int depth = 60; depth <= 140; depth += 20) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        struct err err = {0};
        struct json_t *root = NULL;
        int status = jsonx_parse(text, (size_t)depth * 2, "deep", 0, &root, &err);
        assert_int_equal(status, depth <= 64 ? 0 : -EBADMSG);
        jsonx_free(root);
    }
}

static void document_size_is_limited(void **state)
{
    (void)state;
    struct json_t *root;
    struct err err;
    size_t values = JSON_VALUES_MAX, bytes = 2 * values + 1; /* including the array itself */
    char *text = malloc(bytes);
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++)
        text[i] = i % 2 ? '0' : ',';
    text[0] = '[';
    text[bytes - 1] = ']';
    assert_int_equal(jsonx_parse(text, bytes, "long", 7, &root, &err), -EBADMSG);
    assert_string_equal(err.path, "long");
    assert_int_equal(err.offset, 7);
    assert_non_null(strstr(err.expected, "values"));
    /* separators inside a string do not count as values, even after an escape */
    memset(text, ',', bytes);
    memcpy(text, "[\"\\\"", 4);
    memcpy(text + bytes - 2, "\"]", 2);
    assert_int_equal(jsonx_parse(text, bytes, "long", 0, &root, &err), 0);
    jsonx_free(root);
    free(text);
    assert_int_equal(jsonx_parse("", (size_t)JSON_BYTES_MAX + 1, "long", 0, &root, &err), -EBADMSG);
    assert_non_null(strstr(err.found, "bytes")); /* rejected before any byte is read */
}

static void values_must_have_the_requested_type(void **state)
{
    (void)state;
    struct json_t *root = parse(
        "{\"u\":7,\"i\":-7,\"r\":1.5,\"t\":\"x\",\"b\":true,\"n\":null,\"a\":[1,2],\"o\":{}}");
    uint64_t u;
    int64_t i;
    double r;
    bool b;
    const char *t;
    struct err err = {0};
    assert_ok(jsonx_get_u64(root, "u", &u, "p", &err), &err);
    assert_ok(jsonx_i64(jsonx_get(root, "i"), &i), NULL);
    assert_ok(jsonx_f64(jsonx_get(root, "r"), &r), NULL);
    assert_ok(jsonx_get_string(root, "t", &t, "p", &err), &err);
    assert_ok(jsonx_bool(jsonx_get(root, "b"), &b), NULL);
    assert_true(u == 7 && i == -7 && r == 1.5 && b);
    assert_string_equal(t, "x");
    assert_ok(jsonx_f64(jsonx_get(root, "i"), &r), NULL);
    assert_true(r == -7);
    assert_int_equal(jsonx_get_u64(root, "i", &u, "p", &err), -EBADMSG);
    assert_int_equal(jsonx_get_u64(root, "r", &u, "p", &err), -EBADMSG);
    assert_int_equal(jsonx_get_u64(root, "t", &u, "p", &err), -EBADMSG);
    assert_int_equal(jsonx_get_string(root, "absent", &t, "here.json", &err), -EBADMSG);
    assert_string_equal(err.path, "here.json");
    assert_non_null(strstr(err.what, "absent"));
    assert_int_equal(jsonx_u64(NULL, &u), -EBADMSG);
    assert_true(u == 7);
    assert_int_equal(jsonx_kind(NULL), JSON_KIND_NULL);
    assert_int_equal(jsonx_kind(jsonx_get(root, "n")), JSON_KIND_NULL);
    assert_int_equal(jsonx_kind(jsonx_get(root, "o")), JSON_KIND_OBJECT);
    assert_int_equal(jsonx_count(jsonx_get(root, "a")), 2);
    assert_int_equal(jsonx_count(root), 8);
    assert_null(jsonx_at(jsonx_get(root, "a"), 2));
    assert_null(jsonx_get(jsonx_get(root, "a"), "x"));
    jsonx_free(root);
}

static int add_key(void *context, const char *key, struct json_t *value)
{
    (void)value;
    strcat(context, key);
    return strcmp(key, "stop") == 0 ? 42 : 0;
}

static void entries_are_visited_in_file_order_until_the_callback_stops(void **state)
{
    (void)state;
    char keys[64] = "";
    struct json_t *root = parse("{\"z\":1,\"a\":2,\"m\":3,\"b\":4}");
    assert_int_equal(jsonx_each(root, add_key, keys), 0);
    assert_string_equal(keys, "zamb");
    jsonx_free(root);
    keys[0] = '\0';
    root = parse("{\"z\":1,\"stop\":2,\"m\":3}");
    assert_int_equal(jsonx_each(root, add_key, keys), 42);
    assert_string_equal(keys, "zstop");
    jsonx_free(root);
}

static void copies_keep_key_order_and_canonical_text_sorts_keys_at_every_depth(void **state)
{
    (void)state;
    struct json_t *root = parse(
        "{ \"z\": [1, 2.5, null, {\"y\": true, \"x\": []}], \"a\": {\"q\": -1, \"b\": \"t\\n\"} }");
    struct str copy = {0}, canonical = {0};
    struct jsonx_writer writer = {.out = &copy};
    jsonx_begin_object(&writer, NULL);
    jsonx_copy(&writer, "of", root);
    jsonx_copy(&writer, "absent", NULL);
    jsonx_end_object(&writer);
    assert_string_equal(str_text(&copy), "{\"of\":{\"z\":[1,2.5,null,{\"y\":true,\"x\":[]}],"
                                         "\"a\":{\"q\":-1,\"b\":\"t\\u000a\"}},\"absent\":null}");
    assert_int_equal(jsonx_format(root, &canonical), 0);
    assert_string_equal(
        str_text(&canonical),
        "{\"a\":{\"b\":\"t\\u000a\",\"q\":-1},\"z\":[1,2.5,null,{\"x\":[],\"y\":true}]}");
    str_deinit(&copy);
    str_deinit(&canonical);
    jsonx_free(root);
}

static void write_file(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[TEST_PATH_BYTES_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    test_write_file(path, data, bytes);
}

static void python_reads_what_was_written(void **state)
{
    (void)state;
    const char *python = test_need_python("json");
    char folder[TEST_PATH_BYTES_MAX];
    test_make_folder(folder);
    struct str text = {0};
    struct jsonx_writer w = {.out = &text};
    jsonx_begin_object(&w, NULL);
    jsonx_write_u64(&w, "u", UINT64_MAX);
    jsonx_write_i64(&w, "i", INT64_MIN);
    jsonx_write_bool(&w, "b", true);
    jsonx_write_null(&w, "n");
    jsonx_write_f64(&w, "nan", NAN);
    jsonx_write_f64(&w, "inf", -INFINITY);
    jsonx_write_hex64(&w, "h", 0xabc);
    jsonx_write_raw(&w, "raw", "[1,{}]", 6);
    jsonx_write_string(&w, "quote\"\\\n\t\x01", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80/\x7f");
    jsonx_write_string(&w, "bad", "a\xff\xc0\x80\xed\xa0\x80z\xe2\x82");
    jsonx_begin_object(&w, "empty");
    jsonx_end_object(&w);
    jsonx_begin_array(&w, "nested");
    jsonx_begin_array(&w, NULL);
    jsonx_end_array(&w);
    jsonx_write_u64(&w, NULL, 0);
    jsonx_begin_object(&w, NULL);
    jsonx_write_string(&w, "", "");
    jsonx_end_object(&w);
    jsonx_end_array(&w);
    jsonx_end_object(&w);
    assert_int_equal(str_status(&text), 0);
    write_file(folder, "a.json", text.data, text.bytes);
    static const char check[] =
        "import json,sys\n"
        "a=json.load(open(sys.argv[1]+'/a.json',encoding='utf-8'))\n"
        "assert "
        "a=={'u':2**64-1,'i':-2**63,'b':True,'n':None,'nan':None,'inf':None,'h':'0000000000000abc',"
        "\n"
        " 'raw':[1,{}],'quote\"\\\\\\n\\t\\x01':'\\u00e4\\u20ac\\U0001f600/\\x7f',\n"
        " 'bad':'a'+'\\ufffd'*6+'z'+'\\ufffd'*2,'empty':{},'nested':[[],0,{'':''}]}, a\n"
        "assert list(a)[:3]==['u','i','b']\n";
    write_file(folder, "check.py", check, sizeof check - 1);
    assert_int_equal(test_run("'%s' '%s/check.py' '%s'", python, folder, folder), 0);
    str_deinit(&text);
    test_remove_folder(folder);
}

static void numbers_round_trip_through_python_bit_for_bit(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    const char *python = test_need_python("json");
    char folder[TEST_PATH_BYTES_MAX];
    test_make_folder(folder);
    double *values = malloc(COUNT * sizeof *values);
    assert_non_null(values);
    struct str text = {0};
    struct jsonx_writer w = {.out = &text};
    jsonx_begin_array(&w, NULL);
    for (int i = 0; i < COUNT; i++) {
        struct philox_block block = philox(1, 2, (uint64_t)i);
        memcpy(&values[i], block.word, sizeof values[i]);
        if (i % 4 == 0)
            values[i] = (double)(int32_t)block.word[0] / 1000;
        if (i % 4 == 1)
            values[i] = (double)(float)philox_uniform(block.word[0]);
        if (!isfinite(values[i]))
            values[i] = i % 2 ? 0.0 : -0.0;
        jsonx_write_f64(&w, NULL, values[i]);
    }
    jsonx_end_array(&w);
    write_file(folder, "a.json", text.data, text.bytes);
    write_file(folder, "a.bin", values, COUNT * sizeof *values);
    static const char check[] = "import json,sys,array\n"
                                "want=array.array('d',open(sys.argv[1]+'/a.bin','rb').read())\n"
                                "have=json.load(open(sys.argv[1]+'/a.json'),parse_int=float)\n"
                                "assert array.array('d',have).tobytes()==want.tobytes()\n";
    write_file(folder, "check.py", check, sizeof check - 1);
    assert_int_equal(test_run("'%s' '%s/check.py' '%s'", python, folder, folder), 0);
    free(values);
    str_deinit(&text);
    test_remove_folder(folder);
}

static void numbers_are_short(void **state)
{
    (void)state;
    struct str text = {0};
    struct jsonx_writer w = {.out = &text};
    const double doubles[] = {20, 300, -1e8, 1e300, 0.1, (double)0.1f, -0.0};
    for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++)
        jsonx_write_f64(&w, NULL, doubles[i]);
    const float floats[] = {20, 0.1f, 0.34f, 16777216, FLT_MAX, FLT_MIN, INFINITY};
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++)
        jsonx_write_f32(&w, NULL, floats[i]);
    assert_string_equal(str_text(&text),
                        "20,300,-100000000,1e+300,0.1,0.10000000149011612,-0,20,0.1,0.34,16777216,"
                        "3.4028235e+38,1.1754944e-38,null");
    str_deinit(&text);
}

static void numbers_have_a_point_in_every_locale(void **state)
{
    (void)state;
    char folder[TEST_PATH_BYTES_MAX];
    test_make_folder(folder);
    const char *set = setlocale(LC_NUMERIC, "de_DE.UTF-8");
    if (!set &&
        test_run("localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1", folder) <= 1) {
        setenv("LOCPATH", folder, 1);
        set = setlocale(LC_NUMERIC, "de_DE.UTF-8");
    }
    struct str text = {0};
    struct jsonx_writer w = {.out = &text};
    jsonx_write_f64(&w, NULL, 0.5);
    jsonx_write_f64(&w, NULL, -1.25e-300);
    setlocale(LC_NUMERIC, "C");
    test_remove_folder(folder);
    assert_string_equal(str_text(&text), "0.5,-1.25e-300");
    str_deinit(&text);
    if (!set)
        test_skip("no locale with a decimal comma is installed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_documents_are_refused_with_an_offset),
        cmocka_unit_test(nesting_depth_is_limited),
        cmocka_unit_test(document_size_is_limited),
        cmocka_unit_test(values_must_have_the_requested_type),
        cmocka_unit_test(entries_are_visited_in_file_order_until_the_callback_stops),
        cmocka_unit_test(copies_keep_key_order_and_canonical_text_sorts_keys_at_every_depth),
        cmocka_unit_test(python_reads_what_was_written),
        cmocka_unit_test(numbers_round_trip_through_python_bit_for_bit),
        cmocka_unit_test(numbers_are_short),
        cmocka_unit_test(numbers_have_a_point_in_every_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
