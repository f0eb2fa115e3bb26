/*
 * jsonx_plain — see jsonx_plain.h. A recursive descent; each function returns the position behind
 * what it accepts, or NULL.
 */
#include "base/json/jsonx_plain.h"

#include "base/utf8.h"

#include <string.h>

struct reader {
    const char *end;
    int depth;
};

static const char *skip_spaces(const struct reader *reader, const char *at)
{
    while (at < reader->end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* at: behind `\u`. Returns the code unit, or 0. */
static unsigned read_unit(const struct reader *reader, const char *at)
{
    unsigned unit = 0;
    if (reader->end - at < 4)
        return 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return 0;
        unit = unit << 4 | (unsigned)digit;
    }
    return unit;
}

/* at: the backslash. */
static const char *skip_escape(const struct reader *reader, const char *at)
{
    if (reader->end - at < 2)
        return NULL;
    if (at[1] != 'u')
        return at[1] && strchr("\"\\/bfnrt", at[1]) ? at + 2 : NULL;
    unsigned unit = read_unit(reader, at + 2);
    if (unit == 0)
        return NULL;
    if (unit < 0xd800 || unit > 0xdfff)
        return at + 6;
    bool is_pair = unit < 0xdc00 && reader->end - at >= 12 && at[6] == '\\' && at[7] == 'u';
    unit = is_pair ? read_unit(reader, at + 8) : 0;
    return unit >= 0xdc00 && unit <= 0xdfff ? at + 12 : NULL;
}

/* at: the opening quote. */
static const char *skip_string(const struct reader *reader, const char *at)
{
    for (at++; at && at < reader->end;) {
        unsigned char c = (unsigned char)*at;
        if (c == '"')
            return at + 1;
        if (c == '\\') {
            at = skip_escape(reader, at);
        } else if (c >= 0x80) {
            size_t bytes =
                utf8_sequence_bytes((const unsigned char *)at, (size_t)(reader->end - at));
            at = bytes ? at + bytes : NULL;
        } else {
            at = c >= 0x20 ? at + 1 : NULL;
        }
    }
    return NULL;
}

static const char *skip_digits(const struct reader *reader, const char *at)
{
    while (at < reader->end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

/* Up to 18 digits fit into int64; a two-digit exponent neither overflows nor underflows. */
static const char *skip_number(const struct reader *reader, const char *at)
{
    const char *begin = at + (*at == '-'), *end = skip_digits(reader, begin);
    if (end == begin || end - begin > 18 || (*begin == '0' && end - begin > 1))
        return NULL;
    if (end < reader->end && *end == '.') {
        begin = end + 1;
        end = skip_digits(reader, begin);
        if (end == begin || end - begin > 40)
            return NULL;
    }
    if (end < reader->end && (*end == 'e' || *end == 'E')) {
        begin = end + 1;
        begin += begin < reader->end && (*begin == '-' || *begin == '+');
        end = skip_digits(reader, begin);
        if (end == begin || end - begin > 2)
            return NULL;
    }
    return end;
}

static const char *skip_word(const struct reader *reader, const char *at, const char *word)
{
    size_t bytes = strlen(word);
    return (size_t)(reader->end - at) >= bytes && memcmp(at, word, bytes) == 0 ? at + bytes : NULL;
}

static const char *skip_value(struct reader *reader, const char *at);

/* at: the opening bracket. */
static const char *skip_array(struct reader *reader, const char *at)
{
    at = skip_spaces(reader, at + 1);
    if (at < reader->end && *at == ']')
        return at + 1;
    while ((at = skip_value(reader, at))) {
        at = skip_spaces(reader, at);
        if (at == reader->end || (*at != ',' && *at != ']'))
            return NULL;
        if (*at++ == ']')
            return at;
    }
    return NULL;
}

struct key {
    const char *text;
    size_t bytes;
};

static bool is_new_key(const struct key *keys, size_t count, const char *text, size_t bytes)
{
    if (count == JSONX_PLAIN_KEYS_MAX || memchr(text, '\\', bytes))
        return false;
    for (size_t i = 0; i < count; i++)
        if (keys[i].bytes == bytes && memcmp(keys[i].text, text, bytes) == 0)
            return false;
    return true;
}

/* at: the opening brace. */
static const char *skip_object(struct reader *reader, const char *at)
{
    struct key keys[JSONX_PLAIN_KEYS_MAX];
    size_t count = 0;
    at = skip_spaces(reader, at + 1);
    if (at < reader->end && *at == '}')
        return at + 1;
    while (at < reader->end && *at == '"') {
        const char *end = skip_string(reader, at);
        if (!end || !is_new_key(keys, count, at, (size_t)(end - at)))
            return NULL;
        keys[count++] = (struct key){at, (size_t)(end - at)};
        at = skip_spaces(reader, end);
        if (at == reader->end || *at != ':')
            return NULL;
        at = skip_value(reader, at + 1);
        at = at ? skip_spaces(reader, at) : reader->end;
        if (at == reader->end || (*at != ',' && *at != '}'))
            return NULL;
        if (*at == '}')
            return at + 1;
        at = skip_spaces(reader, at + 1);
    }
    return NULL;
}

static const char *skip_nested(struct reader *reader, const char *at)
{
    if (reader->depth == JSONX_PLAIN_DEPTH_MAX)
        return NULL;
    reader->depth++;
    at = *at == '{' ? skip_object(reader, at) : skip_array(reader, at);
    reader->depth--;
    return at;
}

static const char *skip_value(struct reader *reader, const char *at)
{
    at = skip_spaces(reader, at);
    if (at == reader->end)
        return NULL;
    switch (*at) {
    case '{':
    case '[':
        return skip_nested(reader, at);
    case '"':
        return skip_string(reader, at);
    case 't':
        return skip_word(reader, at, "true");
    case 'f':
        return skip_word(reader, at, "false");
    case 'n':
        return skip_word(reader, at, "null");
    default:
        return skip_number(reader, at);
    }
}

bool jsonx_is_plain_object(const char *text, size_t bytes)
{
    struct reader reader = {.end = text + bytes};
    const char *at = skip_spaces(&reader, text);
    if (at == reader.end || *at != '{')
        return false;
    at = skip_nested(&reader, at);
    return at && skip_spaces(&reader, at) == reader.end;
}
