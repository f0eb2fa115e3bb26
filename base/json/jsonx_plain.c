/*
 * jsonx_plain — see jsonx_plain.h. A recursive descent; each function returns the position behind
 * what it accepts, or NULL.
 */
#include "base/json/jsonx_plain.h"

#include "base/json/jsonx.h"
#include "base/json/jsonx_string.h"
#include "base/utf8.h"

#include <errno.h>
#include <string.h>

enum { DEPTH_MAX = JSON_DEPTH_MAX + 1 }; /* with the root */

struct reader {
    const char *text, *end;
    int depth;
    bool is_plain; /* accepts only plain objects */
    /* Not plain: the outermost member to find. */
    const char *key;
    struct jsonx_span value; /* empty: not found yet */
    /* The first failure. */
    const char *failed_at, *failure;
};

static const char *fail(struct reader *reader, const char *at, const char *failure)
{
    if (!reader->failure) {
        reader->failed_at = at;
        reader->failure = failure;
    }
    return NULL;
}

static const char *skip_spaces(const struct reader *reader, const char *at)
{
    while (at < reader->end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

/* at: the opening quote. */
static const char *skip_string(struct reader *reader, const char *at)
{
    const char *begin = at++;
    while (at < reader->end) {
        size_t left = (size_t)(reader->end - at), bytes = jsonx_plain_bytes(at, left);
        uint32_t code;
        at += bytes;
        left -= bytes;
        if (left == 0)
            break;
        unsigned char c = (unsigned char)*at;
        if (c == '"')
            return at + 1;
        if (c == '\\') {
            bytes = jsonx_decode_escape(at, left, &code);
            if (bytes == 0 || (reader->is_plain && code == 0))
                return fail(reader, at, "an escape sequence is invalid");
            at += bytes;
        } else if (c >= 0x80) {
            bytes = utf8_sequence_bytes((const unsigned char *)at, left);
            if (bytes == 0)
                return fail(reader, at, "the text is not valid UTF-8");
            at += bytes;
        } else {
            return fail(reader, at, "a string has a control character that is not escaped");
        }
    }
    return fail(reader, begin, "a string has no closing quote");
}

static const char *skip_digits(const struct reader *reader, const char *at)
{
    while (at < reader->end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

static const char *fail_number(struct reader *reader, const char *at)
{
    return fail(reader, at, "a value is invalid");
}

/* Plain: up to 18 digits fit into int64; a two-digit exponent neither overflows nor underflows. */
static const char *skip_number(struct reader *reader, const char *at)
{
    bool is_plain = reader->is_plain;
    const char *number = at, *begin = at + (*at == '-'), *end = skip_digits(reader, begin);
    if (end == begin || (is_plain && end - begin > 18) || (*begin == '0' && end - begin > 1))
        return fail_number(reader, number);
    if (end < reader->end && *end == '.') {
        begin = end + 1;
        end = skip_digits(reader, begin);
        if (end == begin || (is_plain && end - begin > 40))
            return fail_number(reader, number);
    }
    if (end < reader->end && (*end == 'e' || *end == 'E')) {
        begin = end + 1;
        begin += begin < reader->end && (*begin == '-' || *begin == '+');
        end = skip_digits(reader, begin);
        if (end == begin || (is_plain && end - begin > 2))
            return fail_number(reader, number);
    }
    return end;
}

static const char *skip_word(struct reader *reader, const char *at, const char *word)
{
    size_t bytes = strlen(word);
    return (size_t)(reader->end - at) >= bytes && memcmp(at, word, bytes) == 0
               ? at + bytes
               : fail(reader, at, "a value is invalid");
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
            return fail(reader, at, "an array lacks a comma or its end");
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

/* Whether a string, with its quotes, is the key to find. */
static bool is_wanted_key(const struct reader *reader, const char *text, size_t bytes)
{
    if (!reader->key || reader->depth != 1)
        return false;
    size_t key_bytes = strlen(reader->key);
    if (!memchr(text, '\\', bytes))
        return bytes == key_bytes + 2 && memcmp(text + 1, reader->key, key_bytes) == 0;
    struct str key = {0};
    jsonx_unescape(text, bytes, &key);
    bool is_wanted = key.bytes == key_bytes && memcmp(key.data, reader->key, key_bytes) == 0;
    str_deinit(&key);
    return is_wanted;
}

/* at: the value of the key to find. */
static const char *skip_wanted_value(struct reader *reader, const char *key, const char *at)
{
    if (reader->value.end > 0)
        return fail(reader, key, "a key is repeated");
    at = skip_spaces(reader, at);
    const char *end = skip_value(reader, at);
    if (end)
        reader->value =
            (struct jsonx_span){(size_t)(at - reader->text), (size_t)(end - reader->text)};
    return end;
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
        const char *key = at, *end = skip_string(reader, at);
        if (!end)
            return NULL;
        if (reader->is_plain) {
            if (!is_new_key(keys, count, key, (size_t)(end - key)))
                return NULL;
            keys[count++] = (struct key){key, (size_t)(end - key)};
        }
        at = skip_spaces(reader, end);
        if (at == reader->end || *at != ':')
            return fail(reader, at, "a key is not followed by a colon");
        at = is_wanted_key(reader, key, (size_t)(end - key))
                 ? skip_wanted_value(reader, key, at + 1)
                 : skip_value(reader, at + 1);
        if (!at)
            return NULL;
        at = skip_spaces(reader, at);
        if (at == reader->end || (*at != ',' && *at != '}'))
            return fail(reader, at, "an object lacks a comma or its end");
        if (*at == '}')
            return at + 1;
        at = skip_spaces(reader, at + 1);
    }
    return fail(reader, at, "a key in quotes is missing");
}

static const char *skip_nested(struct reader *reader, const char *at)
{
    if (reader->depth == (reader->is_plain ? JSONX_PLAIN_DEPTH_MAX : DEPTH_MAX))
        return fail(reader, at, "values are nested too deeply");
    reader->depth++;
    at = *at == '{' ? skip_object(reader, at) : skip_array(reader, at);
    reader->depth--;
    return at;
}

static const char *skip_value(struct reader *reader, const char *at)
{
    at = skip_spaces(reader, at);
    if (at == reader->end)
        return fail(reader, at, "a value is missing");
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

static bool is_object(struct reader *reader)
{
    const char *at = skip_spaces(reader, reader->text);
    if (at == reader->end || *at != '{')
        return fail(reader, at, "the text is not a JSON object");
    at = skip_nested(reader, at);
    at = at ? skip_spaces(reader, at) : NULL;
    return at && (at == reader->end || fail(reader, at, "text follows the object"));
}

bool jsonx_is_plain_object(const char *text, size_t bytes)
{
    return is_object(&(struct reader){.text = text, .end = text + bytes, .is_plain = true});
}

int jsonx_find_member(const char *text, size_t bytes, const char *key, struct jsonx_span *ret_value,
                      struct err *err)
{
    struct reader reader = {.text = text, .end = text + bytes, .key = key};
    if (!is_object(&reader)) {
        err_set(err, -EBADMSG, "%s", reader.failure);
        err_at(err, "", reader.failed_at - text);
        if (reader.failed_at == reader.end)
            err_found(err, "the end of the text");
        return -EBADMSG;
    }
    if (reader.value.end == 0)
        return -ENOENT;
    *ret_value = reader.value;
    return 0;
}
