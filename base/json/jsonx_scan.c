/*
 * jsonx_scan — see jsonx_scan.h.
 */
#include "base/json/jsonx_scan.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_spaces(const char *text, size_t at, size_t end)
{
    while (at < end && is_space(text[at]))
        at++;
    return at;
}

/* The position after the string at `at`; end + 1 if it is unterminated. */
static size_t skip_string(const char *text, size_t at, size_t end)
{
    const size_t begin = at + 1;
    const char *quote;
    for (at = begin; at < end && (quote = memchr(text + at, '"', end - at)); at++) {
        size_t escapes = 0; /* backslashes before the quote: an odd one belongs to it */
        at = (size_t)(quote - text);
        while (at - escapes > begin && text[at - escapes - 1] == '\\')
            escapes++;
        if (escapes % 2 == 0)
            return at + 1;
    }
    return end + 1;
}

/* The position after the value at `at`: a string, a bracketed value, or everything up to a comma,
 * bracket or space. end + 1 if unterminated, `at` if there is none. */
static size_t skip_value(const char *text, size_t at, size_t end)
{
    size_t depth = 0;
    while (at < end) {
        char c = text[at];
        if (c == '"') {
            at = skip_string(text, at, end);
            if (depth == 0)
                return at;
            continue;
        }
        if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (depth == 0)
                return at;
            if (--depth == 0)
                return at + 1;
        } else if (depth == 0 && (c == ',' || c == ':' || is_space(c))) {
            return at;
        }
        at++;
    }
    return depth ? end + 1 : at;
}

/* Finds the next value at or after `at`, skipping spaces. */
static bool find_value(const char *text, size_t at, size_t end, struct jsonx_span *ret_value)
{
    size_t begin = skip_spaces(text, at, end), behind = skip_value(text, begin, end);
    if (behind == begin || behind > end)
        return false;
    *ret_value = (struct jsonx_span){begin, behind};
    return true;
}

enum jsonx_scan jsonx_scan_next_member(const char *text, struct jsonx_span *rest,
                                       struct jsonx_span *ret_key, struct jsonx_span *ret_value)
{
    bool is_first = rest->begin < rest->end && text[rest->begin] == '{';
    size_t at = skip_spaces(text, rest->begin + is_first, rest->end);
    if (at < rest->end && text[at] == '}')
        return JSON_SCAN_END;
    if (!is_first && (at >= rest->end || text[at++] != ','))
        return JSON_SCAN_BROKEN;
    if (!find_value(text, at, rest->end, ret_key) || text[ret_key->begin] != '"')
        return JSON_SCAN_BROKEN;
    at = skip_spaces(text, ret_key->end, rest->end);
    if (at == rest->end || text[at] != ':' || !find_value(text, at + 1, rest->end, ret_value))
        return JSON_SCAN_BROKEN;
    rest->begin = ret_value->end;
    return JSON_SCAN_ELEMENT;
}

bool jsonx_scan_member(const char *text, size_t bytes, const char *key,
                       struct jsonx_span *ret_value)
{
    struct jsonx_span rest = {skip_spaces(text, 0, bytes), bytes}, name, value;
    size_t key_bytes = strlen(key);
    if (rest.begin == bytes || text[rest.begin] != '{')
        return false;
    while (jsonx_scan_next_member(text, &rest, &name, &value) == JSON_SCAN_ELEMENT)
        if (name.end - name.begin == key_bytes + 2 &&
            memcmp(text + name.begin + 1, key, key_bytes) == 0) {
            *ret_value = value;
            return true;
        }
    return false;
}

enum jsonx_scan jsonx_scan_element(const char *text, struct jsonx_span *rest,
                                   struct jsonx_span *ret_element)
{
    bool is_first = rest->begin < rest->end && text[rest->begin] == '[';
    size_t at = skip_spaces(text, rest->begin + is_first, rest->end);
    if (at + 1 == rest->end && text[at] == ']')
        return JSON_SCAN_END;
    if (!is_first && (at >= rest->end || text[at++] != ','))
        return JSON_SCAN_BROKEN;
    if (!find_value(text, at, rest->end, ret_element))
        return JSON_SCAN_BROKEN;
    rest->begin = ret_element->end;
    return JSON_SCAN_ELEMENT;
}
