/*
 * jsonx_stream — tests that values and their offsets are those of the text, however the source
 * divides it, and that errors have the offset.
 */
#include "base/json/jsonx_stream.h"

#include "base/json/jsonx.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>

struct text_source {
    const char *text;
    size_t bytes, at, block_bytes;
    size_t largest; /* of the requests */
};

static int read_text(void *context, size_t bytes, struct str *out, struct err *err)
{
    struct text_source *source = context;
    size_t count = source->bytes - source->at;
    (void)err;
    if (bytes > source->largest)
        source->largest = bytes;
    if (count > source->block_bytes)
        count = source->block_bytes;
    str_add(out, source->text + source->at, count);
    source->at += count;
    return 0;
}

/* Writes the events as "key=text;", "key[;" and "key:text;", and checks the offsets. Returns the
 * status of the last call. */
static int read_events(const char *text, size_t block_bytes, char *events, struct err *err)
{
    struct text_source source = {text, strlen(text), 0, block_bytes, 0};
    struct jsonx_stream *stream = NULL;
    struct jsonx_stream_value value;
    int status;
    *events = '\0';
    assert_ok(jsonx_stream_open(&(struct jsonx_stream_source){"x.json", read_text, &source},
                                &stream, err),
              err);
    while ((status = jsonx_stream_next(stream, &value, err)) > JSONX_STREAM_END) {
        if (status != JSONX_STREAM_ARRAY)
            assert_memory_equal(text + value.offset, value.text, value.bytes);
        events += sprintf(events, "%s%s%.*s;", value.key,
                          status == JSONX_STREAM_MEMBER  ? "="
                          : status == JSONX_STREAM_ARRAY ? "["
                                                         : ":",
                          (int)value.bytes, value.text ? value.text : "");
    }
    jsonx_stream_close(stream);
    return status;
}

static void values_do_not_depend_on_blocks(void **state)
{
    (void)state;
    static const char text[] =
        " { \"a\" : 1,\"list\" : [ {\"k\":\"]}\\\"\"} ,[1,[2]],\"s,\" , -1.5e3,"
        "true ],\n\"empty\":[ ],\"o\":{\"list\":[9]},\"last\":null } \n";
    static const char expected[] = "a=1;list[;list:{\"k\":\"]}\\\"\"};list:[1,[2]];list:\"s,\";"
                                   "list:-1.5e3;list:true;empty[;o={\"list\":[9]};last=null;";
    char events[512];
    struct err err = {0};
    for (size_t block = 1; block <= sizeof text; block++) {
        assert_int_equal(read_events(text, block, events, &err), JSONX_STREAM_END);
        assert_string_equal(events, expected);
    }
}

static void errors_have_the_offset(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t offset;
    } cases[] = {
        {"", 0},
        {"[1]", 0},
        {"{\"a\":1", 6},
        {"{\"a\":[1", 7},
        {"{\"a\" 1}", 5},
        {"{\"a\":[1 2]}", 8},
        {"{\"a\":[1,]}", 8},
        {"{\"a\":1,}", 7},
        {"{\"a\":1}x", 7},
        {"{\"a\":[{]}", 8},
        {"{\"a\":\"x", 7},
        {"{a:1}", 1},
        {"{\"a\":}", 5},
        {"\xef\xbb\xbf{}", 0},
    };
    char events[512];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t block = 1; block < 12; block++) {
            struct err err = {0};
            assert_int_equal(read_events(cases[i].text, block, events, &err), -EBADMSG);
            assert_string_equal(err.path, "x.json");
            assert_int_equal(err.offset, cases[i].offset);
        }
}

static void memory_is_bounded_by_the_longest_value(void **state)
{
    (void)state;
    struct str text = {0};
    struct text_source source = {0};
    struct jsonx_stream *stream = NULL;
    struct jsonx_stream_value value;
    struct err err = {0};
    size_t elements = 0;
    int status;
    str_add_text(&text, "{\"a\":[0");
    for (size_t i = 0; i < 1 << 20; i++)
        str_add_text(&text, ",\"12345678\"");
    str_add_text(&text, "]}");
    source = (struct text_source){text.data, text.bytes, 0, 1 << 20, 0};
    assert_true(text.bytes > 8 << 20);
    assert_ok(
        jsonx_stream_open(&(struct jsonx_stream_source){"x", read_text, &source}, &stream, &err),
        &err);
    while ((status = jsonx_stream_next(stream, &value, &err)) > JSONX_STREAM_END)
        elements += status == JSONX_STREAM_ELEMENT;
    assert_int_equal(status, JSONX_STREAM_END);
    assert_int_equal(elements, (1 << 20) + 1);
    assert_int_equal(source.largest, 1 << 20);
    jsonx_stream_close(stream);
    str_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_do_not_depend_on_blocks),
        cmocka_unit_test(errors_have_the_offset),
        cmocka_unit_test(memory_is_bounded_by_the_longest_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
