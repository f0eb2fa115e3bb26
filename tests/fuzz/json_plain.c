/*
 * json_plain — fuzz target: what the quick check accepts (base/json/jsonx_plain.h), the parser
 * accepts too, and it has the members that scanning finds.
 */
#include "base/json/jsonx.h"
#include "base/json/jsonx_plain.h"
#include "base/json/jsonx_scan.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *text = (const char *)data;
    struct json_t *root = NULL;
    struct err err;
    struct jsonx_span rest = {0, bytes}, key, value;
    size_t members = 0;
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
