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

/* The code point of a well-formed sequence. */
static wchar_t decode(const unsigned char *sequence, size_t bytes)
{
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    wchar_t point = sequence[0] & masks[bytes];
    for (size_t i = 1; i < bytes; i++)
        point = point << 6 | (sequence[i] & 0x3f);
    return point;
}

static bool is_unsafe(wchar_t point)
{
    bool is_control = point < 0x20 || (point >= 0x7f && point < 0xa0);
    bool is_bidirectional = point == 0x61c || point == 0x200e || point == 0x200f ||
                            (point >= 0x202a && point <= 0x202e) ||
                            (point >= 0x2066 && point <= 0x2069);
    return is_control || is_bidirectional;
}

size_t display_sequence(const char *text, size_t bytes, char shown[DISPLAY_SEQUENCE_BYTES])
{
    const unsigned char *at = (const unsigned char *)text;
    size_t taken = utf8_sequence_bytes(at, bytes);
    if (taken > 0 && !is_unsafe(decode(at, taken))) {
        memcpy(shown, text, taken);
        shown[taken] = '\0';
        return taken;
    }
    taken = taken > 0 ? taken : 1;
    for (size_t i = 0; i < taken; i++)
        snprintf(shown + 4 * i, 5, "\\x%02x", at[i]);
    return taken;
}

void display_add(struct str *out, const char *text)
{
    char shown[DISPLAY_SEQUENCE_BYTES];
    for (size_t left = strlen(text), taken; left > 0; text += taken, left -= taken) {
        taken = display_sequence(text, left, shown);
        str_add_text(out, shown);
    }
}

/* Uses the C library's tables, which need a locale. In a non-UTF-8 locale each character counts as
 * one column. */
size_t display_columns(const char *text)
{
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
    size_t columns = 0;
    for (size_t left = strlen(text), taken; left > 0; text += taken, left -= taken) {
        taken = utf8_sequence_bytes((const unsigned char *)text, left);
        int width = taken > 1 && utf8 ? wcwidth(decode((const unsigned char *)text, taken)) : 1;
        columns += width >= 0 ? (size_t)width : 1;
        taken = taken > 0 ? taken : 1;
    }
    if (utf8) {
        uselocale(before);
        freelocale(utf8);
    }
    return columns;
}
