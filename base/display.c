/*
 * display — see display.h.
 */
#include "base/display.h"

#include "base/utf8.h"

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

static bool is_unsafe(uint32_t code_point)
{
    bool is_control = code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0);
    bool is_bidirectional = code_point == 0x61c || code_point == 0x200e || code_point == 0x200f ||
                            (code_point >= 0x202a && code_point <= 0x202e) ||
                            (code_point >= 0x2066 && code_point <= 0x2069);
    return is_control || is_bidirectional;
}

size_t display_sequence(const char *text, size_t bytes, char escaped_text[DISPLAY_SEQUENCE_BYTES])
{
    const unsigned char *at = (const unsigned char *)text;
    uint32_t code_point;
    size_t taken = utf8_decode(at, bytes, &code_point);
    if (taken > 0 && !is_unsafe(code_point)) {
        memcpy(escaped_text, text, taken);
        escaped_text[taken] = '\0';
        return taken;
    }
    taken = taken > 0 ? taken : 1;
    for (size_t i = 0; i < taken; i++)
        snprintf(escaped_text + 4 * i, 5, "\\x%02x", at[i]);
    return taken;
}

void display_add(struct str *out, const char *text)
{
    char escaped_text[DISPLAY_SEQUENCE_BYTES];
    for (size_t left = strlen(text), taken; left > 0; text += taken, left -= taken) {
        taken = display_sequence(text, left, escaped_text);
        str_add_text(out, escaped_text);
    }
}

/* The C library's width tables need a UTF-8 locale; without one, each character counts as one
 * column. */
size_t display_columns(const char *text)
{
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
    size_t columns = 0;
    for (size_t left = strlen(text), taken; left > 0; text += taken, left -= taken) {
        uint32_t code_point;
        taken = utf8_decode((const unsigned char *)text, left, &code_point);
        int width = taken > 1 && utf8 ? wcwidth((wchar_t)code_point) : 1;
        columns += width >= 0 ? (size_t)width : 1;
        taken = taken > 0 ? taken : 1;
    }
    if (utf8) {
        uselocale(before);
        freelocale(utf8);
    }
    return columns;
}
