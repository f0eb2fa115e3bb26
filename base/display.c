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

static bool is_unsafe(uint32_t point)
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
    uint32_t point;
    size_t taken = utf8_decode(at, bytes, &point);
    if (taken > 0 && !is_unsafe(point)) {
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

/* The C library's width tables need a UTF-8 locale; without one, each character counts as one
 * column. */
size_t display_columns(const char *text)
{
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
    size_t columns = 0;
    for (size_t left = strlen(text), taken; left > 0; text += taken, left -= taken) {
        uint32_t point;
        taken = utf8_decode((const unsigned char *)text, left, &point);
        int width = taken > 1 && utf8 ? wcwidth((wchar_t)point) : 1;
        columns += width >= 0 ? (size_t)width : 1;
        taken = taken > 0 ? taken : 1;
    }
    if (utf8) {
        uselocale(before);
        freelocale(utf8);
    }
    return columns;
}
