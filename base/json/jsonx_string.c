/*
 * jsonx_string — see jsonx_string.h.
 */
#include "base/json/jsonx_string.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Whether one of 8 bytes equals a byte that is repeated in all of `pattern`. Exact for bytes below
 * 0x80; only called for such words. */
static bool has_byte(uint64_t word, uint64_t pattern)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    uint64_t difference = word ^ pattern;
    return ((difference - ones) & ~difference & high) != 0;
}

size_t jsonx_plain_bytes(const char *text, size_t bytes)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    size_t at = 0;
    for (uint64_t word; bytes - at >= sizeof word; at += sizeof word) {
        memcpy(&word, text + at, sizeof word);
        bool has_control = ((word - ones * 0x20) & ~word & high) != 0;
        if ((word & high) || has_control || has_byte(word, ones * '"') ||
            has_byte(word, ones * '\\'))
            break;
    }
    while (at < bytes && is_plain((unsigned char)text[at]))
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

/* Reads `\uXXXX`. */
static bool read_unit(const char *text, size_t bytes, uint32_t *ret_unit)
{
    uint32_t unit = 0;
    if (bytes < 6 || text[0] != '\\' || text[1] != 'u')
        return false;
    for (int i = 2; i < 6; i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0)
            return false;
        unit = unit << 4 | (unsigned)digit;
    }
    *ret_unit = unit;
    return true;
}

/* Returns 0 for a letter that stands for no character. */
static uint32_t decode_letter(char letter)
{
    switch (letter) {
    case '"':
    case '\\':
    case '/':
        return (unsigned char)letter;
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return 0;
    }
}

size_t jsonx_decode_escape(const char *text, size_t bytes, uint32_t *ret_code)
{
    uint32_t unit, low;
    *ret_code = bytes >= 2 ? decode_letter(text[1]) : 0;
    if (*ret_code)
        return 2;
    if (!read_unit(text, bytes, &unit))
        return 0;
    *ret_code = unit;
    if (unit < 0xd800 || unit > 0xdfff)
        return 6;
    if (unit > 0xdbff || !read_unit(text + 6, bytes - 6, &low) || low < 0xdc00 || low > 0xdfff)
        return 0;
    *ret_code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    return 12;
}

void jsonx_unescape(const char *text, size_t bytes, struct str *out)
{
    const char *at = text + 1, *end = text + bytes - 1;
    if (str_reserve(out, bytes))
        return;
    for (;;) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        uint32_t code = 0;
        char utf8[UTF8_BYTES_MAX];
        str_add(out, at, (size_t)((escape ? escape : end) - at));
        size_t escape_bytes =
            escape ? jsonx_decode_escape(escape, (size_t)(end - escape), &code) : 0;
        if (escape_bytes == 0)
            break;
        str_add(out, utf8, utf8_encode(code, utf8));
        at = escape + escape_bytes;
    }
}
