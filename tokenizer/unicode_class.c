/*
 * unicode_class — see unicode_class.h. Two tables: PAGE_INDEX has the page of each 256 characters,
 * a page has four classes per byte, the first in the lowest bits.
 */
#include "tokenizer/unicode_class.h"

#include "base/utf8.h"

#include "tokenizer/unicode_class_table.inc"

enum { PAGE_CODES = 256, PAGE_BYTES = PAGE_CODES / 4 };

enum unicode_class unicode_find_class(uint32_t code)
{
    uint32_t page = code / PAGE_CODES;
    if (page >= sizeof PAGE_INDEX)
        return UNICODE_OTHER;
    uint32_t classes = PAGES[PAGE_INDEX[page] * PAGE_BYTES + code % PAGE_CODES / 4];
    return (enum unicode_class)(classes >> 2 * (code % 4) & 3);
}

size_t unicode_next(const uint8_t *text, size_t bytes, enum unicode_class *ret_class)
{
    uint32_t code;
    size_t count = utf8_decode(text, bytes, &code);
    *ret_class = count > 0 ? unicode_find_class(code) : UNICODE_OTHER;
    return count > 0 ? count : 1;
}
