/*
 * json_plain — fuzz target: what the quick check accepts (base/json/jsonx_plain.h), the parser
 * accepts too, and it has the members that scanning finds. What the parser accepts, the search for
 * a member accepts too, and finds the same text.
 */
#include "base/json/jsonx.h"
#include "base/json/jsonx_plain.h"
#include "base/json/jsonx_scan.h"
#include "base/json/jsonx_string.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

static void compare_member(const char *text, size_t bytes)
{
    struct json_t *root = NULL;
    struct err err;
    struct jsonx_span value;
    struct str found = {0};
    const char *expected;
    /* jansson skips a NUL after a number */
    bool is_parsed = !memchr(text, 0, bytes) &&
                     jsonx_parse(text, bytes, "input", 0, &root, &err) == 0 &&
                     jsonx_kind(root) == JSON_KIND_OBJECT;
    int status = jsonx_find_member(text, bytes, "t", &value, &err);
    if (!status && (value.begin >= value.end || value.end > bytes))
        abort();
    if (status == -EBADMSG && (is_parsed || err.offset < 0 || (size_t)err.offset > bytes))
        abort();
    if (!status && text[value.begin] == '"') {
        jsonx_unescape(text + value.begin, value.end - value.begin, &found);
        if (found.bytes > value.end - value.begin - 2)
            abort();
        if (is_parsed && (jsonx_text(jsonx_get(root, "t"), &expected) ||
                          strcmp(str_text(&found), expected) != 0))
            abort();
    }
    if (is_parsed && (status == 0) != (jsonx_get(root, "t") != NULL))
        abort();
    str_deinit(&found);
    jsonx_free(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *text = (const char *)data;
    struct json_t *root = NULL;
    struct err err;
    struct jsonx_span rest = {0, bytes}, key, value;
    size_t members = 0;
    compare_member(text, bytes);
    if (!jsonx_is_plain_object(text, bytes))
        return 0;
    if (jsonx_parse(text, bytes, "input", 0, &root, &err))
        abort();
    while (text[rest.begin] != '{')
        rest.begin++;
    while (jsonx_scan_next_member(text, &rest, &key, &value) == JSON_SCAN_ELEMENT) {
        struct json_t *node = NULL;
        if (jsonx_parse_value(text + value.begin, value.end - value.begin, "input", 0, &node, &err))
            abort();
        jsonx_free(node);
        members++;
    }
    if (members != jsonx_count(root))
        abort();
    jsonx_free(root);
    return 0;
}
